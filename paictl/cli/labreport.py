"""`paictl lab report` and `check-report`: for the teacher."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption
from paictl.cli.console import Output, write, write_data
from paictl.errors import ExitCode, PaictlError


class Language(StrEnum):
    """Languages of the labs."""

    EN = "en"
    ZH = "zh"


LangOption = Annotated[Language | None, typer.Option("--lang", help="Language (default: of the locale).")]


def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="File: .md, .html or .json.")],
    name: Annotated[str, typer.Option("--name", help="Your name.")],
    lang: LangOption = None,
) -> None:
    """Write the report of all labs that you began: environment, observations, timeline, checks, answers, digest."""
    from paictl.cli.labwords import language
    from paictl.lab.ground import labs_folder
    from paictl.lab.report import make_report
    from paictl.lab.report_file import rendered

    made = make_report(labs_folder(), name, language(lang))
    text = rendered(made, output.suffix.lower())
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PaictlError(f"cannot write: {error.strerror}", where=str(output)) from None
    console.info(f"report of {len(made['experiments'])} labs written to {output}, digest {made['digest'][:16]}…")


def check_report(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Reports of students.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell whether reports are consistent: recorded events against replayed commands, text against data, digest."""
    from paictl.lab.report_file import check_file

    results: list[dict[str, Any]] = []
    for path in files:
        made, wrong = check_file(path)
        checks = [check["standing"] for one in made["experiments"] for check in one["checks"]]
        results.append({
            "file": str(path), "name": made["name"], "digest": made["digest"], "labs": len(made["experiments"]),
            "passed": checks.count("passed"), "checks": len(checks), "inconsistent": wrong,
        })  # fmt: skip
    if output is not Output.TABLE:
        write_data(results, output)
    for result in results if output is Output.TABLE else ():
        verdict = "not consistent" if result["inconsistent"] else "consistent"
        write(
            f"{result['file']}: {verdict}; {result['name']}, {result['labs']} labs, "
            f"{result['passed']} of {result['checks']} checks passed, digest {result['digest'][:16]}…"
        )
        for problem in result["inconsistent"]:
            write(f"  {problem}")
    bad = any(result["inconsistent"] for result in results)
    raise typer.Exit(ExitCode.NEGATIVE if bad else ExitCode.OK)
