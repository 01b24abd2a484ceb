"""`paictl config validate`."""

from __future__ import annotations

import gc
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.options import KindOption, rule_ids
from paictl.config.linting.fix import Repair, fix
from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.validate import MOST_IN_A_TEXT, MOST_OF_A_RULE, Choice, Report
from paictl.config.linting.validate import validate as run_rules
from paictl.config.reading.load import Loaded, load, nothing_found
from paictl.config.reading.problem import Severity
from paictl.i18n import Text, counted, text

EPILOG = """
    paictl config validate cluster/
    paictl config validate hivedscheduler.yaml --format github
    cat job.yaml | paictl config validate - --kind job
    A comment silences a rule on its line: # paictl: ignore=ID

    Exit codes: 0 no errors and no warnings, 1 some, 2 something could not be read.
"""


class ReportFormat(StrEnum):
    """Names of `paictl.config.linting.report.FORMATS`, here because help need not import it; a test compares."""

    TEXT = "text"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"
    GITLAB = "gitlab"


def validate(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Files, folders (one cluster configuration each), or - for stdin."),
    ],
    form: Annotated[
        ReportFormat,
        typer.Option(
            "--format", "-f", "--output", "-o", metavar="FORM", help=f"Output format: {', '.join(ReportFormat)}."
        ),
    ] = ReportFormat.TEXT,
    kind: KindOption = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="RULE,...",
            autocompletion=rule_ids,
            help="Only these rules: ids (HVD525), prefixes (HVD), names.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="RULE,...", autocompletion=rule_ids, help="Skip these rules."),
    ] = None,
    severity: Annotated[Severity, typer.Option("--severity", help="Lowest severity to report.")] = Severity.INFO,
    skip_unknown: Annotated[
        bool,
        typer.Option(
            "--skip-unknown", help="Skip files that are not OpenPAI or HiveD configuration, even if you name them."
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Skip no file: report each that is not OpenPAI or HiveD configuration.")
    ] = False,
    all_findings: Annotated[
        bool, typer.Option("--all-findings", help=f"Report all findings, not only {MOST_OF_A_RULE} per rule and file.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Fix what has only one obvious solution.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change, and change nothing.")] = False,
) -> None:
    """Find every mistake in configuration files, with line and column."""
    # Parsing makes hundreds of thousands of objects that all stay: collecting garbage meanwhile finds none.
    gc.disable()
    choice = Choice(_words(select), _words(ignore), severity, None if all_findings else MOST_OF_A_RULE)
    choice.check()
    with console.progress(text("validating")):
        loaded = load(paths, kind, skip_unknown=skip_unknown, strict=strict)
        if not skip_unknown:
            loaded = replace(loaded, failures=(*loaded.failures, *nothing_found(loaded)))
        if not (fix or diff):
            report = run_rules(loaded, choice)
    if fix or diff:
        report = _repaired(loaded, choice, paths, dry=diff)
    if form is ReportFormat.TEXT and not all_findings:
        report = report.shortened(MOST_IN_A_TEXT, over_all_files=True)
    if not diff:
        _show(report, form, to_stderr=fix and paths == ["-"])
    if report.omitted and form is not ReportFormat.TEXT:
        omitted = sum(report.omitted.values())
        console.warning(text("{count} problems are left out; all of them: --all-findings", count=omitted))
    for failure in report.failures:
        console.error(failure)
    raise typer.Exit(report.exit_code)


def _show(report: Report, form: ReportFormat, *, to_stderr: bool) -> None:
    if to_stderr:  # stdout holds the repaired text
        shown = plain(FORMATS[form](report), console.language()).rstrip()
        if shown:
            console.info(shown)
    else:
        console.write_segments(FORMATS[form](report))


def _repaired(loaded: Loaded, choice: Choice, paths: list[str], *, dry: bool) -> Report:
    """Repair the files, or show what that would change; the report is on the files as they are then."""
    with console.progress(text("repairing")):
        repair: Repair = fix(loaded, choice)
    for file in repair.changed if dry else ():
        for line in file.diff():
            console.write(line)
    if dry:
        console.info(text("{problems} would be repaired in {files}", problems=_count(repair), files=_files(repair)))
        return repair.report
    if paths == ["-"]:
        for file in repair.files:  # none if standard input could not be read
            console.write_bytes(file.after)
    else:
        for file in repair.changed:
            file.write()
    if repair.changed:
        console.info(text("repaired {problems} in {files}", problems=_count(repair), files=_files(repair)))
    return repair.report


def _count(repair: Repair) -> Text:
    return counted("{count} problem", "{count} problems", sum(len(file.repaired) for file in repair.changed))


def _files(repair: Repair) -> Text:
    return counted("{count} file", "{count} files", len(repair.changed))


def _words(options: list[str] | None) -> tuple[str, ...]:
    """Words of a repeatable option that may also be separated by commas."""
    return tuple(word.strip() for option in options or () for word in option.split(",") if word.strip())
