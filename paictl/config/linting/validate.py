"""Run the rules over what was read, and keep what the user asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from paictl.config.linting.rule import Rule
from paictl.config.linting.rules import is_known, nearest, rules_across, rules_on
from paictl.config.linting.suppressions import Suppressions, matches
from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded
from paictl.config.reading.problem import Finding, Problem, Severity
from paictl.config.reading.source import Source, one_line, place_of
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.suggestions import limited

MOST_OF_A_RULE = 20
"""Problems of one rule in one file that are reported unless all are asked for: nobody reads thousands of them."""


MOST_IN_A_TEXT = 100
"""Problems of one rule in all files that a report for people shows unless all are asked for."""

MOST_COMPARED = 4_000_000
"""Characters of names that are compared for `did you mean` in the files of one cluster: a second or two."""

MOST_MADE = 1_000
"""Findings of one rule in one file that are kept; the others are only counted, unless all are asked for."""


@frozen
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
                raise PaictlError(text("no rule matches {word!r}", word=word), hint=nearest(word))

    def runs(self, rule: Rule[Any]) -> bool:
        """Whether the findings of a rule are wanted at all: only then it is run."""
        if any(matches(word, rule.id, rule.name) for word in self.ignore):
            return False
        return not self.select or any(matches(word, rule.id, rule.name) for word in self.select)


@frozen
class CheckedFile:
    """A file that was looked at."""

    path: str
    kind: FileKind


@frozen
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

    def shortened(self, most: int | None, *, over_all_files: bool = False) -> Report:
        """The report with at most `most` problems of one rule and severity in a file, or in all; others are counted."""
        seen: Counter[tuple[str, Severity, str]] = Counter()
        kept: list[Problem] = []
        omitted = Counter(self.omitted)
        for problem in self.problems:
            key = problem.rule, problem.severity, "" if over_all_files else problem.place.path
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
    run = _Run(choice)
    distinct: dict[tuple[object, ...], Problem] = {}
    for bundle in loaded.bundles:
        with limited(MOST_COMPARED):
            for problem in run.problems(bundle):
                distinct.setdefault(problem.sort_key, problem)
    wanted = [problem for _, problem in sorted(distinct.items()) if problem.severity.rank <= choice.severity.rank]
    heard = [problem for problem in wanted if not run.silenced(problem)]
    files = tuple(CheckedFile(document.path, document.kind) for document in loaded.documents if document.host is None)
    silent = len(wanted) - len(heard)
    report = Report(tuple(heard), files, loaded.skipped, loaded.failures, silent, run.counted)
    return report.shortened(choice.most)


class _Run:
    """One run of the rules that were chosen.

    `counted` holds findings of which only the number is of interest: beyond `MOST_MADE` of a rule in a file nobody is
    shown any, and with a million of them nothing else would fit into memory.
    """

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.counted: Counter[Severity] = Counter()
        self.comments: dict[int, Suppressions] = {}

    def problems(self, bundle: Bundle) -> Iterator[Problem]:
        """What the rules find in the files of a cluster configuration."""
        chosen = self.choice.runs
        for document in bundle.documents:
            for rule in filter(chosen, rules_on(document)):
                yield from self.made(rule, rule.check(document))
        # Half of a broken file says nothing about the others: what is missing in it may stand behind the mistake, or
        # under the second of two equal keys.
        readable = Bundle(bundle.name, tuple(document for document in bundle.documents if document.whole))
        for across in filter(chosen, rules_across({document.kind for document in readable.documents})):
            yield from self.made(across, across.check(readable))

    def made(self, rule: Rule[Any], findings: Iterable[Finding]) -> Iterator[Problem]:
        """Findings as problems, as far as anybody may want to see them."""
        for number, finding in enumerate(findings):
            severity = finding.severity or rule.severity
            if number >= MOST_MADE and self.choice.most is not None and not self.of(finding.at.source.root):
                if severity.rank <= self.choice.severity.rank:
                    self.counted[severity] += 1
                continue
            yield Problem(
                place_of(finding.at),
                rule.id,
                rule.name,
                severity,
                one_line(finding.message),
                None if finding.hint is None else one_line(finding.hint),
                finding.edits,
                finding.at.source.root,
            )

    def of(self, source: Source) -> Suppressions:
        """The comments of a file that silence rules; read once."""
        if id(source) not in self.comments:
            self.comments[id(source)] = Suppressions(source)
        return self.comments[id(source)]

    def silenced(self, problem: Problem) -> bool:
        """Whether a comment of its file silences a problem."""
        return problem.source is not None and self.of(problem.source).cover(problem)
