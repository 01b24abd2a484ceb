"""Run the rules over what was read, and keep what the user asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from paictl.config.linting.rule import Rule
from paictl.config.linting.rules import is_known, nearest, rules_across, rules_for
from paictl.config.linting.suppressions import Suppressions, matches
from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import Kind
from paictl.config.reading.load import Loaded
from paictl.config.reading.problem import Finding, Problem, Severity
from paictl.config.reading.source import place_of
from paictl.config.reading.text import one_line
from paictl.errors import ExitCode, PaictlError

MOST_OF_A_RULE = 20
"""Problems of one rule in one file that are reported unless all are asked for: nobody reads thousands of them."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which problems to report.

    `select` and `ignore` hold rule ids, names or prefixes of ids (``HVD``, ``HVD5``); an empty `select` means all.
    `severity` is the mildest one reported, `most` how many problems of one rule are reported in one file.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Severity = Severity.INFO
    most: int | None = MOST_OF_A_RULE

    def check(self) -> None:
        """Raise `PaictlError` for a word that matches no rule: a typo would silently select nothing."""
        for word in (*self.select, *self.ignore):
            if not is_known(word):
                raise PaictlError(f"no rule matches {word!r}", hint=nearest(word))

    def runs(self, rule: Rule[Any]) -> bool:
        """Whether the findings of a rule are wanted at all: only then it is run."""
        if any(matches(word, rule.id, rule.name) for word in self.ignore):
            return False
        return not self.select or any(matches(word, rule.id, rule.name) for word in self.select)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that was looked at."""

    path: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome: `problems` by position.

    `suppressed` counts those that an inline comment silenced, `omitted` holds those beyond `Choice.most`, counted by
    severity; both are no part of `problems`.
    """

    problems: tuple[Problem, ...]
    files: tuple[CheckedFile, ...]
    skipped: tuple[str, ...] = ()
    failures: tuple[PaictlError, ...] = ()
    suppressed: int = 0
    omitted: Mapping[Severity, int] = field(default_factory=dict)

    def shortened(self, most: int | None) -> Report:
        """The report with at most so many problems of one rule, severity and file; the others are counted."""
        seen: Counter[tuple[str, Severity, str]] = Counter()
        kept: list[Problem] = []
        omitted = Counter(self.omitted)
        for problem in self.problems:
            key = problem.rule, problem.severity, problem.place.path
            seen[key] += 1
            if most is None or seen[key] <= most:
                kept.append(problem)
            else:
                omitted[problem.severity] += 1
        return replace(self, problems=tuple(kept), omitted=omitted)

    def count(self, severity: Severity) -> int:
        """Number of problems of one severity, omitted ones included."""
        return sum(problem.severity is severity for problem in self.problems) + self.omitted.get(severity, 0)

    @property
    def exit_code(self) -> ExitCode:
        """2 if something could not be read, 1 with errors or warnings, else 0 (information alone is no failure)."""
        if self.failures:
            return ExitCode.USAGE
        bad = any(self.count(severity) for severity in Severity if severity is not Severity.INFO)
        return ExitCode.NEGATIVE if bad else ExitCode.OK


def validate(loaded: Loaded, choice: Choice | None = None) -> Report:
    """Run every rule over everything that was read; all findings, ordered by position."""
    choice = choice or Choice()
    choice.check()
    found: dict[tuple[object, ...], Problem] = {}
    for bundle in loaded.bundles:
        for problem in _problems(bundle, choice):
            found.setdefault(problem.sort_key, problem)
    wanted = [problem for _, problem in sorted(found.items()) if problem.severity.rank <= choice.severity.rank]
    comments: dict[int, Suppressions] = {}
    heard = [problem for problem in wanted if not _silenced(problem, comments)]
    files = tuple(CheckedFile(document.path, document.kind) for document in loaded.documents if document.host is None)
    report = Report(tuple(heard), files, loaded.skipped, loaded.failures, len(wanted) - len(heard))
    return report.shortened(choice.most)


def _silenced(problem: Problem, comments: dict[int, Suppressions]) -> bool:
    """Whether a comment of its file silences a problem; `comments` are those read so far, by source."""
    source = problem.source
    if source is None:
        return False
    if id(source) not in comments:
        comments[id(source)] = Suppressions(source)
    return comments[id(source)].cover(problem)


def _problems(bundle: Bundle, choice: Choice) -> Iterator[Problem]:
    for document in bundle.documents:
        for rule in filter(choice.runs, rules_for(document.kind, readable=not document.fatal)):
            yield from _as_problems(rule, rule.check(document))
    # Half of a broken file says nothing about the others: what is missing in it may stand behind the mistake.
    readable = Bundle(bundle.name, tuple(document for document in bundle.documents if not document.fatal))
    for across in filter(choice.runs, rules_across()):
        yield from _as_problems(across, across.check(readable))


def _as_problems(rule: Rule[Any], findings: Iterable[Finding]) -> Iterator[Problem]:
    for finding in findings:
        yield Problem(
            place_of(finding.at),
            rule.id,
            rule.name,
            finding.severity or rule.severity,
            one_line(finding.message),
            None if finding.hint is None else one_line(finding.hint),
            finding.edits,
            finding.at.source.root,
        )
