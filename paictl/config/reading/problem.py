"""A problem: place, rule, message, hint, and what would repair it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from paictl.config.reading.source import Source


class Severity(Enum):
    """How bad a finding is; `ERROR` and `WARNING` make the command answer "no" (exit code 1), `INFO` does not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst, so that sorting puts errors first."""
        return _RANKS[self]


_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


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


@dataclass(frozen=True, slots=True)
class Span:
    """A bare piece of a source."""

    source: Source
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters of `at` by `text`: one step of a repair with one obvious answer."""

    at: Located
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says; the engine adds the rule's id and severity and turns it into a `Problem`.

    `at` is where the reader should look, `message` what is wrong, `hint` what to do next (both one line, no full
    stop), `edits` a repair that `--fix` may apply, `severity` overrides the rule's own where a case is milder.
    """

    at: Located
    message: str
    hint: str | None = None
    edits: tuple[Edit, ...] = ()
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a problem stands: 1-based lines and columns (columns count characters), end exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding with its rule and its place in the outermost file."""

    place: Place
    rule: str
    name: str
    severity: Severity
    message: str
    hint: str | None = None
    edits: tuple[Edit, ...] = ()
    source: Source | None = None

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        """Order of reports: by file, position, rule, message."""
        return (self.place.path, self.place.line, self.place.column, self.rule, self.message)
