"""What was typed in a lab: one JSON line a command, with how it ended.

A cluster remembers only what it did; refusals, looks and the order of commands are here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE: Final = "commands.jsonl"


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


def append(folder: Path, typed: Typed) -> None:
    """Note a command; lines of two commands at once do not mix."""
    line = json.dumps(asdict(typed), ensure_ascii=False) + "\n"
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(line)


def read(folder: Path) -> tuple[Typed, ...]:
    """All commands in order; a line that a kill cut short is left out."""
    path = folder / FILE
    if not path.is_file():
        return ()
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(Typed(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return tuple(found)
