"""Judging: expected against observed, as data.

A statement of a manifest becomes findings, one for each thing that it says; every finding tells what was observed,
whether it is as expected or not. The functions that find are in `statements`, listed in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from paictl.frozen import frozen
from paictl.lab import statements
from paictl.lab.figures import figures
from paictl.lab.findings import Mismatch
from paictl.lab.manifest import Check, Statement
from paictl.lab.observation import Observation

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


def judge(seen: Observation, check: Check) -> CheckVerdict:
    """Compare what a check expects with what is there."""
    return CheckVerdict(check, tuple(findings(seen, check.expect)))


def findings(seen: Observation, expected: Iterable[Statement]) -> Iterator[Mismatch]:
    """What was found for each statement."""
    for statement in expected:
        yield from KINDS[statement.kind](seen, statement.says)


def holds(seen: Observation, expected: Iterable[Statement]) -> bool:
    """Whether all statements are true."""
    return all(finding.ok for finding in findings(seen, expected))
