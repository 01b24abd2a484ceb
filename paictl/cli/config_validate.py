"""`paictl config validate`."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from paictl.cli import console
from paictl.config.kinds import Kind
from paictl.config.load import load
from paictl.config.problem import Severity
from paictl.config.validate import Choice
from paictl.config.validate import validate as run_rules

EPILOG = (
    "Examples: paictl config validate cluster/ · paictl config validate hivedscheduler.yaml --format github · "
    "cat job.yaml | paictl config validate - --kind job · silence a line with `# paictl: ignore=ID`"
)


def validate(
    paths: Annotated[
        list[str], typer.Argument(help="Files, folders (one cluster configuration each), or - for stdin.")
    ],
    kind: Annotated[
        Kind | None, typer.Option("--kind", help="Kind of the files, where name and content do not tell.")
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", help="Only these rules: ids, prefixes, names.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Without these rules.")] = None,
    severity: Annotated[Severity, typer.Option("--severity", help="The mildest severity that counts.")] = Severity.INFO,
) -> None:
    """Find every mistake in configuration files, with line and column."""
    # Parsing makes hundreds of thousands of objects that all stay: collecting garbage meanwhile finds none.
    gc.disable()
    choice = Choice(_words(select), _words(ignore), severity)
    with console.progress("validating"):
        report = run_rules(load(paths, kind), choice)
    for problem in report.problems:
        console.write(f"{problem.place}: {problem.rule} {problem.severity.value}: {problem.message}")
    for failure in report.failures:
        console.error(failure)
    raise typer.Exit(report.exit_code)


def _words(options: list[str] | None) -> tuple[str, ...]:
    """Words of a repeatable option that may also be separated by commas."""
    return tuple(word.strip() for option in options or () for word in option.split(",") if word.strip())
