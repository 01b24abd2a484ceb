"""A problem: place, rule, message, hint, and what would repair it."""

from __future__ import annotations

from enum import Enum

from paictl.config.reading.source import Located, Place, Source
from paictl.frozen import frozen


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


@frozen
class Edit:
    """Replace the characters of `at` by `text`: one step of a repair with one obvious answer."""

    at: Located
    text: str


@frozen
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


@frozen
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
