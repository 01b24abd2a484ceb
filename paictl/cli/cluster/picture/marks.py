"""Letters, colours and styled lines of the picture: which job or virtual cluster a character stands for.

A letter means the same in the whole picture, and as far as possible in the next one: it follows from the job's number
(or the VC's place), and only where two would share one does the later job take the next letter. Capital letters hold
their devices with a guarantee, small ones without, so that nothing needs colours to be understood.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from string import ascii_uppercase
from typing import Final

from rich.cells import cell_len, set_cell_size

from paictl.cli.cluster.picture import By
from paictl.cli.segments import Line
from paictl.cluster.picture import Picture
from paictl.config.reading.source import printable
from paictl.frozen import frozen
from paictl.scheduler.groups import Hold
from paictl.scheduler.inspection import PhysicalCellStatus
from paictl.scheduler.occupancy import CellState

LETTERS: Final = ascii_uppercase
OTHER: Final = "*"
"""Stands for everybody who got no letter of his own."""
FREE, BAD, RESERVED, RESERVING = ".", "!", "+", "%"

_PALETTE: Final = (75, 214, 114, 211, 179, 141, 80, 203, 187, 149, 110, 175)
"""xterm colours that black (16, which no theme changes and bold does not make grey) can be read on."""
BAD_STYLE: Final = "bold red"
_BAD_USED_STYLE: Final = "bold white on color(124)"
RESERVED_STYLE: Final = "color(16) on color(250)"
_MANY_DEVICES: Final = 128
"""From here on a letter stands for a virtual cluster: there would be more jobs than letters."""


@frozen
class Marks:
    """Letter and colour of each job, or of each virtual cluster."""

    by: By
    letters: Mapping[str, str]
    colors: Mapping[str, int]
    vc_of: Mapping[str, str] = field(default_factory=dict)
    """Virtual cluster of each job."""

    def letter(self, name: str) -> str:
        """The letter of a job or virtual cluster."""
        return self.letters.get(name, OTHER)

    def style(self, name: str, hold: Hold = Hold.GUARANTEED) -> str:
        """How it is painted: solid with a guarantee, letters only without."""
        color = self.colors.get(name, 250)
        return f"color(16) on color({color})" if hold is Hold.GUARANTEED else f"color({color}) on color(236)"

    def user(self, job: str, hold: Hold) -> tuple[str, str]:
        """(style, character) of a device that a job holds."""
        name = job if self.by is By.JOB else self.vc_of.get(job, "")
        letter = self.letter(name)
        return self.style(name, hold), letter if hold is Hold.GUARANTEED else letter.lower()

    def device(self, leaf: PhysicalCellStatus) -> tuple[str, str]:
        """(style, character) of a device."""
        match leaf.state:
            case CellState.RESERVING:
                return RESERVED_STYLE, RESERVING
            case CellState.RESERVED:
                return RESERVED_STYLE, RESERVED
            case CellState.USED:
                style, letter = self.user(leaf.job, leaf.hold)
                return (style if leaf.healthy else _BAD_USED_STYLE), letter
        return ("dim", FREE) if leaf.healthy else (BAD_STYLE, BAD)


def marks(picture: Picture, by: By = By.AUTO) -> Marks:
    """The marks of a picture. AUTO takes jobs while they have letters enough, and virtual clusters from there on."""
    leaves = list(picture.leaves())
    present = {name for leaf in leaves for name in (leaf.job, leaf.reserver) if name}
    jobs = [(job.number, job.key) for job in picture.jobs if job.key in present]
    known = {key for _, key in jobs}
    jobs += [(len(jobs) + place, name) for place, name in enumerate(sorted(present - known), 1)]
    if by is By.AUTO:
        by = By.JOB if len(jobs) <= len(LETTERS) and len(leaves) <= _MANY_DEVICES else By.VC
    wanted = sorted(jobs) if by is By.JOB else list(enumerate((vc.name for vc in picture.vcs), 1))
    return Marks(
        by=by,
        letters=_letters(wanted),
        colors={name: _PALETTE[(number - 1) % len(_PALETTE)] for number, name in wanted},
        vc_of={job.key: job.vc for job in picture.jobs},
    )


def _letters(wanted: Iterable[tuple[int, str]]) -> dict[str, str]:
    """A letter for each (number, name), in this order, while there are letters."""
    taken: dict[str, str] = {}
    for number, name in wanted:
        if len(taken) == len(LETTERS):
            break
        place = (number - 1) % len(LETTERS)
        while LETTERS[place] in taken:
            place = (place + 1) % len(LETTERS)
        taken[LETTERS[place]] = name
    return {name: letter for letter, name in taken.items()}


HEADING: Final = "bold"
INDENT: Final = "  "
NAME: Final = 24
"""Columns for a name at most."""


def flow(items: Iterable[Line], width: int, indent: str = "", gap: str = "  ") -> Iterator[Line]:
    """Items side by side, on as many lines as they need."""
    line: Line = []
    used = 0
    for item in items:
        size = sum(cell_len(text) for _, text in item)
        if line and used + len(gap) + size > width:
            yield line
            line = []
        before = gap if line else indent
        used = (used if line else 0) + len(before) + size
        line = [*line, *([("", before)] if before else []), *item]
    if line:
        yield line


def cut(text: str, width: int) -> str:
    """The text, printable and at most `width` columns wide."""
    text = printable(text)
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 2)).rstrip() + ".."


def padded(text: str, width: int) -> str:
    """The text, printable and exactly `width` columns wide."""
    return set_cell_size(cut(text, width), width)


def clipped(line: Line, width: int) -> Line:
    """The line without what stands beyond the width."""
    out: Line = []
    for style, text in line:
        if cell_len(text) > width:
            text = cut(text, width) if text.strip() else text[:width]
        width -= cell_len(text)
        if text:
            out.append((style, text))
        if width <= 0:
            break
    return out
