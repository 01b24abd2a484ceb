"""Run the rules over what was read, and keep what the user asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from paictl.config.linting.rule import Rule
from paictl.config.linting.rules import is_known, nearest, rules_across, rules_for
from paictl.config.linting.suppressions import Word, matches, suppressions_in
from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import Kind
from paictl.config.reading.load import Loaded
from paictl.config.reading.problem import Finding, Problem, Severity
from paictl.config.reading.source import place_of
from paictl.config.reading.text import one_line
from paictl.errors import ExitCode, PaictlError


@dataclass(frozen=True, slots=True)
class Choice:
    """Which problems to report.

    `select` and `ignore` hold rule ids, names or prefixes of ids (``HVD``, ``HVD5``); an empty `select` means all.
    `severity` is the mildest one reported.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Severity = Severity.INFO

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
    """The outcome: `problems` by position, `suppressed` counts those that an inline comment silenced."""

    problems: tuple[Problem, ...]
    files: tuple[CheckedFile, ...]
    skipped: tuple[str, ...] = ()
    failures: tuple[PaictlError, ...] = ()
    suppressed: int = 0

    def count(self, severity: Severity) -> int:
        """Number of problems of one severity."""
        return sum(problem.severity is severity for problem in self.problems)

    @property
    def exit_code(self) -> ExitCode:
        """2 if something could not be read, 1 with errors or warnings, else 0 (information alone is no failure)."""
        if self.failures:
            return ExitCode.USAGE
        bad = any(problem.severity is not Severity.INFO for problem in self.problems)
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
    silence = _Silence()
    kept = tuple(problem for problem in wanted if not silence.covers(problem))
    files = tuple(CheckedFile(document.path, document.kind) for document in loaded.documents if document.host is None)
    return Report(kept, files, loaded.skipped, loaded.failures, len(wanted) - len(kept))


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


class _Silence:
    """The ignore comments of the files, read once each."""

    def __init__(self) -> None:
        self._words: dict[int, tuple[Word, ...]] = {}

    def covers(self, problem: Problem) -> bool:
        source = problem.source
        if source is None:
            return False
        if id(source) not in self._words:
            self._words[id(source)] = tuple(suppressions_in(source))
        return any(word.covers(problem) for word in self._words[id(source)])
