"""Edits of problems in the coordinates of the file: what `--fix` applies and what reports offer to editors."""

from __future__ import annotations

import json

from paictl.config.reading.problem import Edit, Problem
from paictl.config.reading.source import Source
from paictl.frozen import frozen


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
