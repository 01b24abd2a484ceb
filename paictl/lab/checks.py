"""Judging: expected against observed, as data.

A statement of a manifest becomes findings, one for each thing that it says; every finding tells what was observed,
whether it is as expected or not. The functions that find are in `statements`, listed in `KINDS`.

The table is read as text, so that judging a check never loads the simulator.
"""

from __future__ import annotations

import csv
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from paictl.frozen import frozen
from paictl.lab import statements
from paictl.lab.findings import NOTHING, Mismatch, bounds, span_text
from paictl.lab.manifest import Check, Statement
from paictl.lab.messages import Message, joined, literal, message
from paictl.lab.observation import Observation
from paictl.units import parse_duration

Says = Mapping[str, Any]

SPANS: Final = frozenset({"submit", "first_start", "end", "work", "jct", "queueing", "waiting", "ran", "gpu_seconds"})
"""Columns in seconds; all others are plain numbers."""

_OF: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "mean": lambda values: sum(values) / len(values),
    "most": max,
    "least": min,
    "sum": sum,
}
"""How the values of several jobs become one figure."""

_OF_WORDS: Final = {"mean": "of-mean", "most": "of-most", "least": "of-least", "sum": "of-sum"}
"""What to say of such a figure."""

_SAME: Final = 0.0005
"""Figures this close are the same: the table has milliseconds."""


def figures(observation: Observation, says: Says) -> Iterator[Mismatch]:
    """A figure of a run: `of` (mean) a `column` over its jobs, or over those whose id is as `job` says."""
    subject, written = message("file", name=says["file"]), observation.file(says["file"])
    if written is None:
        yield Mismatch(False, subject, "", message("exists"), message("no-such-file"))
        return
    figure = _figure(written, says, says.get("run"))
    observed = _described(says, _value(figure, says))
    if "is" in says:
        least, most, in_words = bounds(says["is"])
        ok = figure is not None and _number(least) - _SAME <= figure
        ok = ok and figure is not None and (most is None or figure <= _number(most) + _SAME)
        yield Mismatch(ok, subject, "", _described(says, in_words), observed)
    for key, words, compares in (("below", "below-run", operator.lt), ("above", "above-run", operator.gt)):
        if key in says:
            other = _figure(written, says, says[key])
            ok = figure is not None and other is not None and compares(figure, other)
            expected = message(words, run=says[key], value=_value(other, says))
            yield Mismatch(ok, subject, "", _described(says, expected), observed)


def _figure(written: str, says: Says, run: str | None) -> float | None:
    """The figure of the first run that is meant (None: of the only one); None if the table does not tell it."""
    try:
        rows = [row for row in csv.DictReader(written.splitlines(), strict=True) if _is(row.get("run"), run)]
        rows = [row for row in rows if row.get("run") == rows[0].get("run") and _is(row.get("id"), says.get("job"))]
        if "column" not in says:
            return float(len(rows))
        values = [float(row[says["column"]]) for row in rows if row.get(says["column"])]
    except (csv.Error, ValueError):  # no table: a student may write anything under its name
        return None
    return _OF[says.get("of", "mean")](values) if values else None


def _is(word: str | None, pattern: str | None) -> bool:
    return pattern is None or (word is not None and fnmatchcase(word, pattern))


def _number(value: object) -> float:
    return parse_duration(value) if isinstance(value, str) else float(str(value))


def _described(says: Says, value: Message) -> Message:
    several = "*" in says.get("job", "*")
    column = literal(says.get("column", ""))
    of = message(_OF_WORDS[says.get("of", "mean")], value=column) if several else column
    what = of if "column" in says else message("number-of-jobs")
    of_whom = " ".join(says[key] for key in ("run", "job") if key in says)
    if not of_whom:
        return joined("join.words", [what, value])
    return message("figure", run=of_whom, what=what, value=value)


def _value(figure: float | None, says: Says) -> Message:
    if figure is None:
        return NOTHING
    return literal(span_text(round(figure * 1000)) if says.get("column") in SPANS else f"{figure:g}")


KINDS: Final[Mapping[str, Callable[[Observation, Any], Iterator[Mismatch]]]] = {
    "job": statements.job,
    "placement": statements.placement,
    "events": statements.events,
    "never": statements.never,
    "count": statements.count,
    "together": statements.together,
    "explain": statements.explain,
    "service": statements.service,
    "configuration": statements.configuration,
    "promise": statements.promise,
    "node": statements.node,
    "cluster": statements.cluster,
    "usage": statements.usage,
    "user": statements.user,
    "asked": statements.asked,
    "typed": statements.typed,
    "refused": statements.refused,
    "file": statements.file,
    "figures": figures,
    "predicted": statements.predicted,
}
"""By the key of the manifest; the schema lists the same."""


@frozen
class CheckVerdict:
    """The outcome of one check at one moment."""

    check: Check
    findings: tuple[Mismatch, ...]

    @property
    def passed(self) -> bool:
        """Whether everything is as expected."""
        return all(finding.ok for finding in self.findings)


def judge(observation: Observation, check: Check) -> CheckVerdict:
    """Compare what a check expects with what is there."""
    return CheckVerdict(check, tuple(findings(observation, check.expect)))


def findings(observation: Observation, expected: Iterable[Statement]) -> Iterator[Mismatch]:
    """What was found for each statement."""
    for statement in expected:
        yield from KINDS[statement.kind](observation, statement.says)


def holds(observation: Observation, expected: Iterable[Statement]) -> bool:
    """Whether all statements are true."""
    return all(finding.ok for finding in findings(observation, expected))
