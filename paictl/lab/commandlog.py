"""What was typed in a lab: one JSON line a command, with how it ended and when.

A cluster remembers only what it did; refusals, looks and the order of commands are here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from paictl.frozen import frozen
from paictl.lab.messages import writing

FILE: Final = "commands.jsonl"
VERB: Final = 3
"""So many words (``paictl job submit``) begin every command line, and keep their order."""

OUTPUT_CUT: Final = frozenset({141, -13})
"""Exit codes of a command whose reader went away (``| head``, a pager that was left): 128 + SIGPIPE, and its death by
the signal as Python counts it. The command was typed, and the student has seen as much as they wanted."""
INTERRUPTED: Final = 130
"""Ended by Ctrl-C: neither done nor refused."""


@frozen
class TypedCommand:
    """A command line and its end: exit code, error message and hint (empty where it did its work).

    Message and hint are English, which checks look into; `said` is both as the student read them, empty if that was
    English. `at` is when it was noted, by the wall clock, as ISO text with the zone's offset.
    """

    line: str
    exit: int
    message: str = ""
    hint: str = ""
    at: str = ""
    said: str = ""


def spelled(words: Sequence[str]) -> str:
    """A command line in the one spelling in which it is compared."""
    return shlex.join(["paictl", *words])


def respelled(line: str) -> str:
    """A command line of a manifest or text in that spelling."""
    words = shlex.split(line)
    return spelled(words[1:] if words[:1] == ["paictl"] else words)


def means(pattern: str, line: str) -> bool:
    """Whether a command line is what a pattern says, with its options in any order.

    ``*`` alone stands for one or more words, in a word for any letters and words after it.
    """
    expected, typed = _words(pattern), _words(line)
    if len(typed) < len(expected[:VERB]) or not all(map(_fits, expected[:VERB], typed)):
        return False
    rest = typed[VERB:]
    for part in sorted(expected[VERB:], key=lambda word: "*" in word):  # plain words choose first
        match = None if part == "*" else next((word for word in rest if _fits(part, word)), None)
        if match is not None:
            rest.remove(match)
        elif part != "*":
            return False
    return len(rest) >= expected.count("*") if "*" in pattern else not rest


def covered(pattern: str, lines: Iterable[str]) -> bool:
    """Whether a command line was typed, at once or name by name (``service start -n a``, then ``-n b``)."""
    every = list(lines)
    if any(means(pattern, line) for line in every):
        return True
    verb, names, others = _objects(pattern)
    if not names or "*" in pattern or verb[1:] not in _PER_NAME:
        return False
    parts = [_objects(line) for line in every]
    done = {name for verb_before, objects, rest in parts if verb_before == verb and rest == others for name in objects}
    return names <= done


def lacking(pattern: str, line: str) -> tuple[str, ...]:
    """The options of a pattern that a command line about the same things does not have, each with its value."""
    verb, objects, expected = _objects(pattern)
    verb_typed, objects_typed, typed = _objects(line)
    if (verb, objects) != (verb_typed, objects_typed):
        return ()
    return tuple(option for option in expected if not any(_fits(option, other) for other in typed))


def printing_only(line: str) -> str:
    """A command line without the file that it is to write (``--jobs FILE``): what it prints is the same."""
    words = shlex.split(line)
    written = {at + step for at, word in enumerate(words) if word == "--jobs" for step in (0, 1)}
    return shlex.join(word for at, word in enumerate(words) if at not in written)


_PER_NAME: Final = frozenset(
    (group, verb)
    for group, verbs in (
        ("service", "start stop restart refresh"),
        ("job", "submit stop"),
        ("node", "cordon uncordon fail heal"),
    )
    for verb in verbs.split()
)
"""Commands that do to several names what they would do to each."""


def _objects(line: str) -> tuple[tuple[str, ...], frozenset[str], tuple[str, ...]]:
    """(verb, the names that it is about, its other options in alphabetical order) of a command line."""
    words = _words(line)
    names: set[str] = set()
    others: list[str] = []
    rest = iter(words[VERB:])
    for word in rest:
        if word == "-n":
            names.add(next(rest, ""))
        elif word.startswith("-"):
            others.append(word if word in FLAGS else f"{word} {next(rest, '')}")
        else:
            names.add(word)
    return tuple(words[:VERB]), frozenset(names), tuple(sorted(others))


FLAGS: Final = frozenset({"-y", "--yes"})
"""Options without a value."""


def _words(line: str) -> list[str]:
    """The words of a command line, ``--option=value`` as two."""
    words: list[str] = []
    for word in shlex.split(line):
        name, equals, value = word.partition("=")
        words += [name, value] if equals and name.startswith("--") else [word]
    return words


def _fits(pattern: str, word: str) -> bool:
    return fnmatchcase(word, pattern) if "*" in pattern else word == pattern


def append(folder: Path, command: TypedCommand) -> None:
    """Note a command and when it came; lines of two commands at once do not mix."""
    noted = command if command.at else replace(command, at=wall_clock())
    line = json.dumps(asdict(noted), ensure_ascii=False) + "\n"
    path = folder / FILE
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(line)


def read(folder: Path) -> tuple[TypedCommand, ...]:
    """All commands in order; a line that a kill cut short is left out."""
    path = folder / FILE
    if not path.is_file():
        return ()
    commands = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            commands.append(TypedCommand(**{"line" if key == "command" else key: value for key, value in row.items()}))
        except (json.JSONDecodeError, TypeError, AttributeError):
            continue
    return tuple(commands)


def wall_clock() -> str:
    """This instant as ISO text, with the zone's offset.

    In milliseconds: runs are told apart by their instants (`report.consistency.run_of`), and a lab that a program plays
    is over in less than a second.
    """
    return datetime.now().astimezone().isoformat(timespec="milliseconds")
