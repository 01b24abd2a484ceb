"""Comments that silence rules: ``# paictl: ignore=ID,ID`` and ``# paictl: ignore-file=ID``.

`ignore` counts for its own line, or for the next line that is no comment if it stands alone; `ignore-file` for the
whole file. The words are ids, names or prefixes of ids, as in ``--ignore``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from paictl.config.reading.problem import Problem
from paictl.config.reading.source import Source
from paictl.frozen import frozen

_COMMENT = re.compile(r"(?:^|\s)#\s*paictl:\s*(ignore(?:-file)?)\s*=\s*([\w-]+(?:\s*,\s*[\w-]+)*)")


@frozen
class Suppression:
    """One word of an ignore comment, with its place; `line` is the line it counts for, None for the whole file."""

    source: Source
    start: int
    end: int
    text: str
    line: int | None


class Suppressions:
    """What the comments of a file silence; a question costs the same however many comments there are."""

    def __init__(self, source: Source) -> None:
        self._lines: dict[int | None, set[str]] = {}
        for suppression in suppressions_in(source):
            self._lines.setdefault(suppression.line, set()).add(suppression.text.lower())

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._lines)

    def cover(self, problem: Problem) -> bool:
        """Whether a problem of this file is silenced."""
        for line in (None, problem.place.line):
            words = self._lines.get(line)
            if words and any(word in words for word in words_for(problem.rule, problem.name)):
                return True
        return False


def words_for(rule_id: str, name: str) -> Iterator[str]:
    """All words that mean a rule, in lower case: its name, its id and the prefixes of that."""
    yield name
    yield from (rule_id[:length].lower() for length in range(1, len(rule_id) + 1))


def matches(word: str, rule_id: str, name: str) -> bool:
    """Whether a word means a rule: its id, a prefix of the id, or its name."""
    return rule_id.startswith(word.upper()) or name == word.lower()


def suppressions_in(source: Source) -> Iterator[Suppression]:
    """The words of all ignore comments in a source, in order; cheap for a text without any."""
    if "paictl:" not in source.text:
        return
    carried: list[Suppression] = []
    for number, start in enumerate(source.line_starts, 1):
        line = source.line(number)
        words = list(_words_of(source, start, line, number))
        if line.lstrip().startswith("#"):
            yield from (word for word in words if word.line is None)
            carried.extend(word for word in words if word.line is not None)
        elif line.strip():
            yield from words
            yield from (Suppression(source, word.start, word.end, word.text, number) for word in carried)
            carried = []
    yield from carried


def _words_of(source: Source, start: int, line: str, number: int) -> Iterator[Suppression]:
    match = _COMMENT.search(line)
    if match is None:
        return
    at = number if match.group(1) == "ignore" else None
    for word in re.finditer(r"[\w-]+", match.group(2)):
        begin = start + match.start(2) + word.start()
        yield Suppression(source, begin, begin + len(word.group()), word.group(), at)
