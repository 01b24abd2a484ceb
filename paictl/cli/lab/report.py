"""`paictl lab report` and `check-report`: for the teacher."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from paictl.cli import console
from paictl.cli.command import Group
from paictl.cli.console import Output, write, write_data
from paictl.cli.lab.words import language_here, say
from paictl.cli.options import OutputOption
from paictl.errors import ExitCode
from paictl.lab.errors import LabError, writing
from paictl.lab.ground import labs_folder
from paictl.lab.report import make_report
from paictl.lab.report_file import check_file, check_form, rendered


class Language(StrEnum):
    """Languages of the labs."""

    EN = "en"
    ZH = "zh"


ASKED: Final = "paictl.lab.language"
"""Where the context of a command line keeps which language was asked for, if one was."""


def _remember(context: typer.Context, asked: Language | None) -> Language | None:
    if asked is not None:
        context.meta[ASKED] = asked.value
    return asked


LangOption = Annotated[
    Language | None,
    typer.Option("--lang", callback=_remember, help="Language (default: of the last lab, else of the locale)."),
]


class InLanguage(Group):
    """The lab commands: their errors are said in the language of the labs."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Carry a command out."""
        try:
            return super().invoke(ctx)
        except LabError as error:
            raise error.in_language(ctx.meta.get(ASKED) or language_here()) from None


def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="File: .md, .html or .json.")],
    name: Annotated[str, typer.Option("--name", help="Your name.")],
    lang: LangOption = None,
) -> None:
    """Write the report of all labs that you began: environment, observations, timeline, checks, answers, digest."""
    words = language_here() if lang is None else lang.value
    check_form(output)
    if not name.strip():
        raise LabError(
            ("a report needs your name", "报告需要你的姓名"),
            ('--name "YOUR NAME"', '--name "姓名"'),
        )
    made = make_report(labs_folder(), name, words)
    with writing(output):
        output.write_text(rendered(made, output.suffix.lower()), encoding="utf-8")
    count, digest = len(made["experiments"]), f"{made['digest'][:16]}…"
    console.info(say("reported", words, count=count, labs=_labs(count), file=output, digest=digest))


def _labs(count: int) -> str:
    return "1 lab" if count == 1 else f"{count} labs"


def check_report(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Reports of students.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell whether reports are consistent: recorded events against replayed commands, text against data, digest."""
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
            f"{result['file']}: {verdict}; {result['name']}, {_labs(result['labs'])}, "
            f"{result['passed']} of {result['checks']} checks passed, digest {result['digest'][:16]}…"
        )
        for problem in result["inconsistent"]:
            write(f"  {problem}")
    bad = any(result["inconsistent"] for result in results)
    raise typer.Exit(ExitCode.NEGATIVE if bad else ExitCode.OK)
