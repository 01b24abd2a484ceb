"""A problem: place, rule, message, hint, and the edits that would repair it."""

from __future__ import annotations

import json
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


@frozen
class Replacement:
    """Replace the characters from `start` up to `end` of a file's text by `text`; byte order marks stand before 0."""

    start: int
    end: int
    text: str

    def clashes(self, other: Replacement) -> bool:
        """Whether the order of the two would matter."""
        return self.start == other.start or (self.start < other.end and other.start < self.end)


def replacements(problem: Problem) -> tuple[Replacement, ...]:
    """The edits of a problem in its outermost file; none at all where one of them cannot be carried over."""
    made = [_in_root(edit.at.source, edit.at.start, edit.at.end, edit.text) for edit in problem.edits]
    kept = tuple(replacement for replacement in made if replacement is not None)
    return kept if len(kept) == len(made) else ()


def _in_root(source: Source, start: int, end: int, text: str) -> Replacement | None:
    """An edit inside an embedded text, written as the string around it needs it; None where that is not plain."""
    if source.outer is None:
        return Replacement(start, end, text)
    if "\n" in text or "\n" in source.text[start:end]:
        return None  # lines of an embedded text carry indentation, folds or escapes that an edit knows nothing of
    first = source.to_outer(start)
    last = source.to_outer(end - 1) + 1 if end > start else first
    if source.outer.text[first:last] != source.text[start:end]:
        return None
    quoted = _quoted(source.style, text)
    return None if quoted is None else _in_root(source.outer, first, last, quoted)


def _quoted(style: str | None, text: str) -> str | None:
    """A text as it stands inside a scalar of some style."""
    match style:
        case "|" | ">":
            return text
        case "'":
            return text.replace("'", "''")
        case '"':
            return json.dumps(text, ensure_ascii=False)[1:-1]
        case _:
            return text if text.replace("-", "").replace("_", "").isalnum() else None


def edits_of(problem: Problem) -> tuple[Edit, ...]:
    """The edits of a problem as `Edit`s of its outermost file, without those that no line and column can name."""
    source = problem.source
    if source is None:
        return ()
    made = replacements(problem)
    if any(replacement.start < 0 for replacement in made):
        return ()
    return tuple(Edit(source.span(replacement.start, replacement.end), replacement.text) for replacement in made)
