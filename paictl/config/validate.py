"""Run the rules over what was read, and keep what the user asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from paictl.config.document import Bundle
from paictl.config.kinds import Kind
from paictl.config.load import Loaded
from paictl.config.problem import Finding, Problem, Severity
from paictl.config.registry import Rule
from paictl.config.rules import all_rules, rules_across, rules_for
from paictl.config.source import Source, place_of
from paictl.config.text import one_line
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
            if not any(_matches(word, rule.id, rule.name) for rule in all_rules()):
                raise PaictlError(
                    f"no rule matches {word!r}", hint="list ids, names and prefixes with: paictl config rules"
                )

    def wants(self, problem: Problem) -> bool:
        """Whether a problem is to be reported."""
        if problem.severity.rank > self.severity.rank:
            return False
        if any(_matches(word, problem.rule, problem.name) for word in self.ignore):
            return False
        return not self.select or any(_matches(word, problem.rule, problem.name) for word in self.select)


def _matches(word: str, rule_id: str, name: str) -> bool:
    return rule_id.startswith(word.upper()) or name == word.lower()


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
        for problem in _problems(bundle):
            found.setdefault(problem.sort_key, problem)
    wanted = [problem for _, problem in sorted(found.items()) if choice.wants(problem)]
    silence = _Silence()
    kept = tuple(problem for problem in wanted if not silence.covers(problem))
    files = tuple(CheckedFile(document.path, document.kind) for document in loaded.documents if document.host is None)
    return Report(kept, files, loaded.skipped, loaded.failures, len(wanted) - len(kept))


def _problems(bundle: Bundle) -> Iterator[Problem]:
    for document in bundle.documents:
        for rule in rules_for(document.kind, readable=not document.fatal):
            yield from _as_problems(rule, rule.check(document))
    # Half of a broken file says nothing about the others: what is missing in it may stand behind the mistake.
    readable = Bundle(bundle.name, tuple(document for document in bundle.documents if not document.fatal))
    for rule in rules_across():
        yield from _as_problems(rule, rule.check_bundle(readable))


def _as_problems(rule: Rule, findings: Iterable[Finding]) -> Iterator[Problem]:
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


_COMMENT = re.compile(r"#\s*paictl:\s*(ignore(?:-file)?)\s*=\s*([\w-]+(?:\s*,\s*[\w-]+)*)")


class _Silence:
    """What inline comments silence: ``# paictl: ignore=ID`` its own line, or the next one if it stands alone."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[int, list[str]], list[str]]] = {}

    def covers(self, problem: Problem) -> bool:
        source = problem.source
        if source is None or "paictl:" not in source.text:
            return False
        known = self._known.get(id(source))
        if known is None:
            known = self._known[id(source)] = _comments(source)
        lines, whole = known
        words = lines.get(problem.place.line, []) + whole
        return any(_matches(word, problem.rule, problem.name) for word in words)


def _comments(source: Source) -> tuple[dict[int, list[str]], list[str]]:
    """(words by line, words for the whole file) of the comments in a source."""
    lines: dict[int, list[str]] = {}
    whole: list[str] = []
    carried: list[str] = []
    for number in range(1, len(source.line_starts) + 1):
        line = source.line(number)
        match = _COMMENT.search(line)
        words = [word.strip() for word in match.group(2).split(",") if word.strip()] if match else []
        if match and match.group(1) == "ignore-file":
            whole.extend(words)
        elif match and line.lstrip().startswith("#"):
            carried.extend(words)
        elif line.strip() and not line.lstrip().startswith("#"):
            if words or carried:
                lines[number] = [*words, *carried]
            carried = []
    return lines, whole
