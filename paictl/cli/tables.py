"""Tables as lines of styled text: columns in step by the cells that characters take, folded to a width if there is one.

Our own and not `rich.table`, which takes 40 times as long and the start of every command that shows one: the decision
and its figures are in `docs/decisions/tables.md`. How wide a character is, rich knows: it is asked beyond Latin only.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from paictl.cli.segments import Line, Segment, visible

HEADING: Final = "bold"
GAP: Final = "  "
_WORD: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\S+|\S+")
"""Date and time are one."""
LONG: Final = 20
"""A path or key of more characters may be broken behind its dots and slashes; addresses are shorter."""
SHORT: Final = 10
"""Cells of the longest word of wide characters that stays in one piece, such as a heading."""
_CLOSING: Final = frozenset("，。；：！？、）》”’…")
_OPENING: Final = frozenset("（《“‘")
"""What no line begins with, and what none ends with."""


def table_lines(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, width: int | None = None
) -> Iterator[Line]:
    """The lines of a table under its headings; none ends in blanks.

    A cell is a list of (style, text) segments, or anything else as `str` says it; it may have several lines. A column
    of numbers is set flush right. Without a `width` a line is as wide as its content; with one, columns are folded
    between words so that it fits, the widest first, and what a row is about stays in one piece unless it leaves too
    little for the rest. No word is ever broken: where `fitting` leaves a word that is too wide, lines are longer.
    """
    cells = [[_as_cell(cell) for cell in row] for row in rows]
    numeric = [bool(cells) and all(_is_number(_plain(row[index])) for row in cells) for index in range(len(columns))]
    heads: list[list[Segment] | str] = [[(HEADING, column)] for column in columns]
    every = [heads, *cells]
    widths = [max(map(_widest, column)) for column in zip(*every, strict=True)]
    if width is not None:
        whole = max((_widest(row[0]) for row in cells), default=0) <= width // 2
        least = [_least(column) for column in zip(*every, strict=True)]
        widths = _fitted(widths, least, width - len(GAP) * (len(columns) - 1), first_last=whole)
    for row in every:
        yield from _row_lines(row, widths, numeric)


def fitting(columns: Sequence[str], rows: Iterable[Sequence[object]], width: int) -> list[int]:
    """The columns, by number, that a width has room for without breaking a word.

    The first, which says what a row is about, is always there; then those that hold sentences have the first claim, and
    the others from the left.
    """
    cells = [[_plain(_as_cell(cell)) for cell in row] for row in rows]
    least = [max(map(_widest_word, column)) for column in zip(columns, *cells, strict=True)]
    sentences = [any(_is_sentence(row[index]) for row in cells) for index in range(len(columns))]
    kept, left = [0], width - least[0]
    for index in sorted(range(1, len(columns)), key=lambda index: (not sentences[index], index)):
        if len(GAP) + least[index] <= left:
            kept.append(index)
            left -= len(GAP) + least[index]
    return sorted(kept)


def _is_sentence(text: str) -> bool:
    return len(_WORD.findall(text)) > 2 or (not text.isascii() and cell_width(text) > LONG)


def cell_width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # late: most tables need it not

    return cell_len(text)


# --- cells


def _as_cell(cell: object) -> list[Segment] | str:
    """A cell as segments if it is styled, else as text; what a terminal would obey is escaped, tabs are blanks."""
    if isinstance(cell, list):
        return [(style, visible(text).expandtabs()) for style, text in cell]
    return visible(str(cell)).expandtabs()


def _plain(cell: list[Segment] | str) -> str:
    return cell if isinstance(cell, str) else "".join(text for _, text in cell)


def _widest(cell: list[Segment] | str) -> int:
    """Width of the widest line of a cell."""
    text = _plain(cell)
    return max(map(cell_width, text.split("\n"))) if "\n" in text else cell_width(text)


def _least(column: Iterable[list[Segment] | str]) -> int:
    """How narrow a column can be made: its widest word has to go into it."""
    return max((_widest_word(_plain(cell)) for cell in column), default=1)


def _widest_word(text: str) -> int:
    return max((cell_width(atom) for word in _WORD.findall(text) for atom in _atoms(word)), default=1)


def _atoms(word: str) -> list[str]:
    """What a word may be broken into: parts of a long path or key, and characters of two cells, which stand alone."""
    if word.isascii():
        parts = re.findall(r"[^./]*[./]+|[^./]+", word)
        return parts if len(word) > LONG and len(parts) > 2 else [word]
    if cell_width(word) <= SHORT:
        return [word]
    atoms: list[str] = []
    joined = False
    for character in word:
        narrow = cell_width(character) < 2
        if atoms and (character in _CLOSING or (joined and (narrow or atoms[-1][-1] in _OPENING))):
            atoms[-1] += character
        else:
            atoms.append(character)
        joined = narrow or character in _OPENING
    return atoms


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "", 1).lstrip("+-").isdigit()


# --- widths


def _fitted(widths: Sequence[int], least: Sequence[int], room: int, *, first_last: bool) -> list[int]:
    """Widths of columns that go into the room, if any do: the widest lose first, until they are as wide as the next.

    With `first_last` the first column loses only when the others have nothing left to lose.
    """
    fitted = list(widths)
    order = [range(1, len(fitted)), range(1)] if first_last else [range(len(fitted))]
    for losing in order:
        excess = sum(fitted) - room
        if excess > 0:
            bound = _bound([fitted[index] for index in losing], [least[index] for index in losing], excess)
            for index in losing:
                fitted[index] = min(fitted[index], max(least[index], bound))
            for index in losing:  # the bound is the same for all: what it took too much goes back
                spare = room - sum(fitted)
                fitted[index] += max(0, min(spare, 1, widths[index] - fitted[index]))
    return fitted


def _bound(widths: Sequence[int], least: Sequence[int], excess: int) -> int:
    """The largest width at which columns are to be cut so that together they lose at least the excess, 1 at least."""

    def kept(bound: int) -> int:
        return sum(min(size, max(low, bound)) for size, low in zip(widths, least, strict=True))

    bounds = range(1, max(widths, default=0) + 1)
    return max(1, bisect_right(bounds, sum(widths) - excess, key=kept))


# --- lines


def _row_lines(row: Sequence[list[Segment] | str], widths: Sequence[int], numeric: Sequence[bool]) -> Iterator[Line]:
    """A row as one line, or as many as its highest cell has."""
    blocks = [_block(cell, width) for cell, width in zip(row, widths, strict=True)]
    for level in zip_longest(*blocks, fillvalue=[]):
        line: Line = []
        for index, (part, width) in enumerate(zip(level, widths, strict=True)):
            missing = ("", " " * (width - sum(cell_width(text) for _, text in part)))
            line += [("", GAP)] if index else []
            line += [missing, *part] if numeric[index] else [*part, missing]
        yield _stripped(line)


def _block(cell: list[Segment] | str, width: int) -> list[Line]:
    """The lines of a cell in a column of a width."""
    if isinstance(cell, str) and "\n" not in cell and cell_width(cell) <= width:
        return [[("", cell)]]
    return list(_folded([("", cell)] if isinstance(cell, str) else cell, width))


def _folded(segments: Iterable[Segment], width: int) -> Iterator[Line]:
    """Styled text as lines of at most a width; they end where the text does, else between words if that is possible."""
    for line in _split(segments):
        for piece in _pieces("".join(text for _, text in line), width):
            taken: Line = []
            left = len(piece)
            while left:
                style, text = line.pop(0)
                taken.append((style, text[:left]))
                if len(text) > left:
                    line.insert(0, (style, text[left:]))
                left -= min(left, len(text))
            yield _stripped(taken)


def _split(segments: Iterable[Segment]) -> Iterator[Line]:
    """Segments divided where their texts have line ends."""
    line: Line = []
    for style, text in segments:
        first, *more = text.split("\n")
        line.append((style, first))
        for other in more:
            yield line
            line = [(style, other)]
    yield line


def _pieces(text: str, width: int) -> list[str]:
    """A line divided into pieces that are at most a width wide without the blanks at their ends."""
    if cell_width(text) <= width:
        return [text]
    pieces, piece, used = [], "", 0
    for word in re.findall(rf"\s*(?:{_WORD.pattern})\s*", text):
        bare = word.rstrip()
        size = cell_width(bare)
        if used + size > width and piece:
            pieces.append(piece)
            piece, used = "", 0
        if size > width:
            *full, bare = _chopped(bare, width)
            pieces += full
        piece += bare + word[len(word.rstrip()) :]
        used += cell_width(bare) + len(word) - len(word.rstrip())
    return [*pieces, piece or text]


def _chopped(word: str, width: int) -> list[str]:
    """A word in parts that are at most a width wide, if it may be broken so."""
    parts = [""]
    for atom in _atoms(word):
        if parts[-1] and cell_width(parts[-1] + atom) > width:
            parts.append("")
        parts[-1] += atom
    return parts


def _stripped(line: Line) -> Line:
    """A line without blanks at its end and without segments that are empty."""
    segments = list(line)
    while segments and not segments[-1][1].rstrip():
        segments.pop()
    if segments:
        style, text = segments[-1]
        segments[-1] = style, text.rstrip()
    return [segment for segment in segments if segment[1]]
