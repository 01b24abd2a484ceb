"""Text with a name, the way from offsets to lines and columns, and hostile text made fit to be shown.

A source may be *embedded*: the YAML inside a block string of another file. Its offsets are translated to the outer
file, so that a problem in `hivedscheduler.config` points into the line the administrator sees.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
import unicodedata
from bisect import bisect_right
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Protocol

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import Text, did_you_mean, text

MAX_BYTES = 32 * 1024 * 1024
"""Largest file that is read; a hived configuration of 16,384 nodes with every device listed has 4 MB."""

MAX_BESIDE = 1000
"""Files of a folder with which the name of a missing one is compared."""

STDIN = "-"


class Source:
    """A text and its display name; for an embedded text also the outer source and how offsets translate.

    `segments` are `(inner offset, outer offset)` pairs in ascending order: characters from one inner offset up to
    the next stand consecutively in the outer text from the outer offset on. `style` is the quotation style of the
    scalar that holds an embedded text (``|``, ``>``, ``'``, ``"``, None where it is plain).

    UTF-8 byte order marks are no part of the text; `marks` says how many the file starts with. `raw` are the bytes
    of a file that is not UTF-8, of which the text only shows what could be made out.
    """

    __slots__ = ("__dict__", "_inner_starts", "_segments", "marks", "outer", "path", "raw", "style", "text")

    def __init__(
        self,
        path: str,
        text: str,
        outer: Source | None = None,
        segments: tuple[tuple[int, int], ...] = (),
        *,
        style: str | None = None,
        marks: int = 0,
        raw: bytes | None = None,
    ) -> None:
        self.path = path
        self.text = text
        self.outer = outer
        self.style = style
        self.marks = marks
        self.raw = raw
        self._segments = segments
        self._inner_starts = [inner for inner, _ in segments]

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of each line's first character; lines end at LF, CR LF or CR, as editors count them."""
        starts = [0]
        text, find = self.text, self.text.find
        if "\r" not in text:
            at = find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = find("\n", at + 1)
            return starts
        at = 0
        for line in text.splitlines(keepends=True):
            at += len(line)
            if line.endswith(("\n", "\r")):
                starts.append(at)
        return starts

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return codecs.BOM_UTF8 * self.marks + self.text.encode("utf-8") if self.raw is None else self.raw

    @property
    def root(self) -> Source:
        """The outermost source, the one a file holds."""
        return self if self.outer is None else self.outer.root

    def to_root(self, offset: int) -> int:
        """The offset in the outermost source of an offset in this one."""
        return offset if self.outer is None else self.outer.to_root(self.to_outer(offset))

    def to_outer(self, offset: int) -> int:
        """The offset in the source around this one; the offset itself where there is none."""
        if self.outer is None:
            return offset
        index = max(bisect_right(self._inner_starts, offset) - 1, 0)
        inner, outer = self._segments[index]
        return min(outer + offset - inner, len(self.outer.text))

    def span_to_root(self, start: int, end: int) -> tuple[int, int]:
        """(start, end) in the outermost source of a span in this one.

        The end is found from the last character, because what follows it may stand in another line of the file.
        """
        first = self.to_root(start)
        return first, max(first, self.to_root(end - 1) + 1) if end > start else first

    def span(self, start: int, end: int) -> Span:
        """A piece of this text."""
        return Span(self, start, end)

    @property
    def byte_order_mark(self) -> Span:
        """The marks before the text, at negative offsets; an edit that replaces them by nothing removes them."""
        return Span(self, -self.marks, 0)

    def position(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) in the outermost file."""
        return self.root.position_here(self.to_root(offset))

    def position_here(self, offset: int) -> tuple[int, int]:
        """1-based (line, column) in this very text; offsets outside of it count as its beginning or end."""
        at = min(max(offset, 0), len(self.text))
        line = bisect_right(self.line_starts, at)
        return line, at - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Text of a 1-based line without its line end; empty beyond the last line."""
        starts = self.line_starts
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def __repr__(self) -> str:
        return f"Source({self.path!r}, {len(self.text)} characters)"


class Located(Protocol):
    """Anything with a place in a source: nodes, keys, CSV fields, spans. Offsets count characters, end exclusive."""

    @property
    def source(self) -> Source:
        """The text that the offsets count in."""

    @property
    def start(self) -> int:
        """Offset of the first character."""

    @property
    def end(self) -> int:
        """Offset after the last character."""


@frozen
class Span:
    """A bare piece of a source."""

    source: Source
    start: int
    end: int


@frozen
class Place:
    """Where a problem stands: 1-based lines and columns (columns count characters), end exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


def place_of(located: Located) -> Place:
    """The place of a node, key, field or span in its outermost file."""
    source = located.source
    root = source.root
    start, end = source.span_to_root(located.start, located.end)
    return Place(root.path, *root.position_here(start), *root.position_here(end))


def read_bytes(path: str) -> bytes:
    """The content of a regular file, or of standard input for ``-``.

    Raises `PaictlError` for a directory, a device, an unreadable or missing file, or one over `MAX_BYTES`.
    """
    if path == STDIN:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise _too_large("<stdin>", text("more than {most:,}", most=MAX_BYTES))
        return data
    try:
        with Path(path).open("rb") as handle:
            status = os.fstat(handle.fileno())
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
                raise PaictlError("not a regular file", where=path, hint="give a file or a folder of files")
            if status.st_size > MAX_BYTES:
                raise _too_large(path, f"{status.st_size:,}")
            data = handle.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise PaictlError("is a folder, not a file", where=path) from None
    except FileNotFoundError:
        raise PaictlError("no such file or folder", where=path, hint=_near(Path(path))) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PaictlError(
            text("cannot be read: {reason}", reason=reason), where=path, hint="check owner and permissions"
        ) from None
    if len(data) > MAX_BYTES:
        raise _too_large(path, text("more than {most:,}", most=MAX_BYTES))
    return data


def _near(missing: Path) -> str:
    """What to do about a file that is not there: name the one beside it that was probably meant."""
    try:
        beside = [entry.name for entry in islice(missing.parent.iterdir(), MAX_BESIDE)]
    except OSError:
        return "check the path"
    return did_you_mean(missing.name, beside) or "check the path"


def _too_large(path: str, size: str) -> PaictlError:
    return PaictlError(
        text("has {size} bytes, the limit is {max_bytes:,}", size=size, max_bytes=MAX_BYTES),
        where=path,
        hint="a file of this size is most likely not a configuration; split it or remove what does not belong in it",
    )


MAX_MESSAGE = 600
"""Longest message or hint, in characters; a name in a file may have millions."""

_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that can move the cursor, reorder the line, end it, or cannot be encoded."""


def printable(text: str) -> str:
    """The text with everything escaped that is not simply shown: control characters, escapes, direction marks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if shows(character) else escaped(character) for character in text)


def shows(character: str) -> bool:
    """Whether a character shows as itself and does nothing else."""
    return unicodedata.category(character) not in _HARMFUL


def escaped(character: str) -> str:
    r"""How a character that does not show is written: ``\t``, ``\x1b``, ``\u202e``."""
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str, limit: int = MAX_MESSAGE) -> str:
    """The text as one printable line, cut in the middle where it is longer than `limit` characters."""
    if isinstance(text, Text):
        sound = len(text) <= limit and printable(str(text)) == text
        return text if sound else text.shown_by(lambda words: one_line(str(words), limit))
    if len(text) > limit:
        half = (limit - 5) // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return printable(text)
