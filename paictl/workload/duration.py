"""How long a task runs, in seconds: as told, else as long as its commands sleep, else a default.

Nothing is ever executed: commands are read as far as a person would at a glance. Every command succeeds at once,
save `sleep`. What lasts longer than ten years never ends: no calendar would hold the sum of a few such tasks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from paictl.units import FOREVER, SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_INTERVAL = re.compile(r"(\d+\.?\d*|\.\d+)([smhd]?)", re.ASCII)
_INFINITE: Final = frozenset({"inf", "infinity"})

_TOKEN = re.compile(
    r"""
    (?P<comment>(?<![^\s;&|()])\#[^\n]*)
    | (?P<redirect>\d*(?:>>?|<)&?\d*)
    | (?P<operator>&&|\|\||[;&|()\n])
    | (?P<word>(?:[^\s;&|()<>'"\\]++|'[^']*+'|"(?:[^"\\]++|\\.)*+"|\\.|[^\s;&|()<>])++)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Repeats of words are possessive (`++`): or `re` keeps about 240 bytes a character in case it has to go back."""
_TRANSPARENT: Final = frozenset({"do", "then", "time", "exec", "sudo", "{", "!"})
"""Words that stand before a command and let it run as it is."""
_ENDLESS: Final = frozenset({("while", "true"), ("while", ":"), ("until", "false")})
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)

LONGEST: Final = 3650 * SECONDS["d"]
"""Seconds; what lasts longer never ends."""
_FIRST_PAUSE: Final = 10.0
_LONGEST_PAUSE: Final = 360.0


def shortest_seconds(retries: int) -> float:
    """Seconds that a task lasts at least after it was started again `retries` times because it had ended.

    They double each time, like the pauses that Kubernetes makes before it starts such a task again. Without them, a
    task that is done at once and always starts again would do so for ever in the same instant.
    """
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (min(retries, 10) - 1)) if retries else 0.0


def task_seconds(commands: Iterable[str], *, default: float, given: float | None = None) -> float:
    """Seconds that a task runs: `given` if there is one, else what its `commands` sleep, else `default`."""
    slept = sleep_seconds(commands) if given is None else given
    seconds = default if slept is None else slept
    return FOREVER if seconds > LONGEST else seconds


def sleep_seconds(commands: Iterable[str]) -> float | None:
    """The sum of all ``sleep`` in shell commands that run one after the other; None if there is none.

    Not counted: what runs in the background, what runs only after a failure (behind ``||``), and an interval that
    cannot be read (a variable). Of an `if` the first branch counts, a loop counts once, but ``while true`` is forever.
    """
    total: float | None = None
    for command in commands:
        seconds = _command_seconds(command)
        if seconds is not None:
            total = seconds + (total or 0.0)
    return total


@lru_cache(maxsize=16)  # tasks and repeated jobs run the same commands; few, for a command may have a megabyte
def _command_seconds(command: str) -> float | None:
    total: float | None = None
    for simple_command in _simple_commands(command):
        seconds = FOREVER if tuple(simple_command[:2]) in _ENDLESS else _sleep(simple_command)
        if seconds is not None:
            total = seconds + (total or 0.0)
    return total


def _simple_commands(text: str) -> Iterator[list[str]]:
    """The words of each command that runs, and is waited for, if all before it succeed."""
    words: list[str] = []
    skipped = target = False
    for match in _TOKEN.finditer(text + "\n"):
        if match["redirect"]:
            target = not match["redirect"].endswith(tuple("0123456789"))
        elif match["word"]:
            if not target:  # a word behind a redirection is a file
                words.append(match["word"])
            target = False
        elif operator := match["operator"]:
            if words and not skipped and operator != "&":
                yield words
            if words:
                skipped = False
            words = []
            skipped = skipped or operator == "||"


def _sleep(words: list[str]) -> float | None:
    """Seconds of one ``sleep`` command; None if it is another command or its interval cannot be read."""
    position = 0
    while position < len(words) and (words[position] in _TRANSPARENT or _ASSIGNMENT.fullmatch(words[position])):
        position += 1
    name, *intervals = words[position:] or [""]
    if name.rpartition("/")[2] != "sleep" or not intervals:
        return None
    seconds = 0.0
    for interval in (word.strip("'\"") for word in intervals if word != "}"):
        match = _INTERVAL.fullmatch(interval)
        if interval in _INFINITE:
            seconds = FOREVER
        elif match is None:
            return None
        else:
            seconds += float(match[1]) * SECONDS[match[2] or "s"]
    return seconds
