"""The texts of a lab: what they show is run and compared, so that it stays real.

A block fenced as ``console`` holds command lines after ``$ `` and what they print below; ``cat FILE`` shows a file of
the student. A line of one ``…`` stands for any lines. ``<!-- step: ID -->`` does silently what the student has to find
out in a step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Final

from paictl.frozen import frozen
from paictl.lab.commandlog import respelled
from paictl.lab.manifest import Lab

Shower = Callable[[str], str]
"""Carries out a command line and gives everything that it printed."""

_FENCE: Final = "```"
_OPENING: Final = "```console"
_STEP = re.compile(r"<!-- step: ([a-z0-9-]+) -->")
_ANY: Final = "…"


@frozen
class ShownCommand:
    """A command line in a text, at a line (from 1), and the lines of output below it."""

    line: int
    command: str
    output: tuple[str, ...]


@frozen
class Mark:
    """Here the text leaves a step to the student."""

    line: int
    step: str


def parts(text: str) -> Iterator[ShownCommand | Mark]:
    """The commands and marks of a text in order."""
    inside = False
    command: tuple[int, str] | None = None
    output: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        starts = inside and line.startswith("$ ")
        ends = inside and line.startswith(_FENCE)
        if (starts or ends) and command is not None:
            yield ShownCommand(*command, tuple(output))
            command, output = None, []
        if starts:
            command = (number, line[2:])
        elif ends:
            inside = False
        elif inside:
            output.append(line)
        elif line.startswith(_OPENING):
            inside = True
        elif (mark := _STEP.fullmatch(line.strip())) is not None:
            yield Mark(number, mark.group(1))


def headings(text: str) -> list[int]:
    """The levels of the headings in order."""
    return [len(match.group(1)) for match in re.finditer(r"^(#+) ", _without_blocks(text), re.MULTILINE)]


def _without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def same_structure(lab: Lab) -> Iterator[str]:
    """In what the two texts differ though they must not."""
    english, chinese = (lab.text_file(language).read_text(encoding="utf-8") for language in ("en", "zh"))
    if headings(english) != headings(chinese):
        yield f"headings differ: {headings(english)} in English, {headings(chinese)} in Chinese"
    pairs = zip_longest(_outline(english), _outline(chinese), fillvalue="nothing")
    yield from (f"English shows {line!r}, Chinese {other!r}" for line, other in pairs if line != other)


def _outline(text: str) -> list[str]:
    return [part.command if isinstance(part, ShownCommand) else f"<!-- step: {part.step} -->" for part in parts(text)]


def step_missing(lab: Lab, text: str) -> str | None:
    """The first of the steps' command lines that a text does not show in its place, None if it shows all."""
    shown = iter([respelled(part.command) for part in parts(text) if isinstance(part, ShownCommand)])
    commands = (command for step in lab.steps for command in step.commands)
    return next((command for command in commands if respelled(command) not in shown), None)


def play_text(text: str, show: Shower, leave: Callable[[str], None]) -> tuple[list[str], str]:
    """(what is not as shown, the text as it should be); `leave` does a step that the text leaves to the student."""
    lines = text.splitlines()
    wrong: list[str] = []
    moved = 0
    for part in list(parts(text)):
        if isinstance(part, Mark):
            leave(part.step)
            continue
        real = _lines(show(part.command))
        if not _alike(list(part.output), real):
            wrong.append(f"line {part.line}: {part.command} prints\n" + "\n".join(f"    {line}" for line in real))
            start = part.line + moved
            lines[start : start + len(part.output)] = real
            moved += len(real) - len(part.output)
    return wrong, "\n".join(lines) + "\n"


def _lines(output: str) -> list[str]:
    lines = [line.rstrip() for line in output.splitlines() if not line.startswith("lab: ")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _alike(shown: list[str], real: list[str]) -> bool:
    """Whether the shown lines are the real ones; ``…`` stands for any number of lines."""
    shown = [line.rstrip() for line in shown]
    pattern = "\n".join(r"(?:.*\n)*?.*" if line.strip() == _ANY else re.escape(line) for line in shown)
    return re.fullmatch(pattern, "\n".join(real)) is not None
