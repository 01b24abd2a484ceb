"""What was typed in a lab: one JSON line a command, with how it ended.

A cluster remembers only what it did; refusals, looks and the order of commands are here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from paictl.lab.errors import writing

FILE: Final = "commands.jsonl"
VERB: Final = 3
"""So many words (``paictl job submit``) begin every command line, and keep their order."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A command line and its end: exit code, error message and hint (empty where it did its work)."""

    command: str
    exit: int
    message: str = ""
    hint: str = ""


def spelled(words: Sequence[str]) -> str:
    """A command line in the one spelling in which it is compared."""
    return shlex.join(["paictl", *words])


def respelled(command: str) -> str:
    """A command line of a manifest or text in that spelling."""
    words = shlex.split(command)
    return spelled(words[1:] if words[:1] == ["paictl"] else words)


def means(pattern: str, command: str) -> bool:
    """Whether a command line is what a pattern says, in whatever order its options stand.

    ``*`` alone stands for one or more words, in a word for any letters and words after it.
    """
    wanted, found = _words(pattern), _words(command)
    if len(found) < len(wanted[:VERB]) or not all(map(_fits, wanted[:VERB], found)):
        return False
    rest = found[VERB:]
    for one in sorted(wanted[VERB:], key=lambda word: "*" in word):  # plain words choose first
        match = None if one == "*" else next((word for word in rest if _fits(one, word)), None)
        if match is not None:
            rest.remove(match)
        elif one != "*":
            return False
    return len(rest) >= wanted.count("*") if "*" in pattern else not rest


def _words(command: str) -> list[str]:
    """The words of a command line, ``--option=value`` as two."""
    words: list[str] = []
    for word in shlex.split(command):
        name, equals, value = word.partition("=")
        words += [name, value] if equals and name.startswith("--") else [word]
    return words


def _fits(wanted: str, word: str) -> bool:
    return fnmatchcase(word, wanted) if "*" in wanted else word == wanted


def append(folder: Path, typed: Typed) -> None:
    """Note a command; lines of two commands at once do not mix."""
    line = json.dumps(asdict(typed), ensure_ascii=False) + "\n"
    path = folder / FILE
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(line)


def read(folder: Path) -> tuple[Typed, ...]:
    """All commands in order; a line that a kill cut short is left out."""
    path = folder / FILE
    if not path.is_file():
        return ()
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(Typed(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return tuple(found)
