"""`paictl lab report` and `check-report`: for the teacher."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import Output, localized, write, write_data
from paictl.cli.lab.language import LangOption, speaks
from paictl.cli.options import OutputOption
from paictl.config.reading.source import read_bytes
from paictl.errors import ExitCode
from paictl.i18n import listed
from paictl.lab.folders import labs_folder
from paictl.lab.messages import LabError, say, writing
from paictl.lab.report.consistency import copies, other_owner, strange_owners
from paictl.lab.report.content import Author, make_report
from paictl.lab.report.files import check_file, check_form, rendered

app = App()


@app.command(epilog="paictl lab report -o report.html --name 'Li Hua' --group 'Li Hua, Ann Li'")
def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="File: .md, .html or .json.")],
    name: Annotated[str, typer.Option("--name", help="Your name.")],
    group: Annotated[str, typer.Option("--group", help="All members of your group.")] = "",
    problems: Annotated[
        str, typer.Option("--problems", help="Problems of the deployment and their solutions, or @FILE.")
    ] = "",
    remarks: Annotated[str, typer.Option("--remarks", help="Other observations, or @FILE.")] = "",
    lang: LangOption = None,
) -> None:
    """Write a report on all labs you started: environment, observations, timeline, checks, answers, digest."""

    words = speaks(lang)
    check_form(output)
    if not name.strip():
        raise LabError("needs-name")
    author = Author(name, group, _written(problems), _written(remarks))
    made = make_report(labs_folder(), author, words)
    with writing(output):
        output.write_text(rendered(made, output.suffix.lower()), encoding="utf-8")
    count, digest = len(made["experiments"]), f"{made['digest'][:16]}…"
    console.info(say("reported", words, labs=_labs(count, words), file=output, digest=digest))


def _written(text: str) -> str:
    """What an option says: the text itself, or that of a file."""

    if not text.startswith("@"):
        return text
    return read_bytes(text[1:]).decode("utf-8", errors="replace")


def _labs(count: int, words: str) -> str:

    return say("labs.one" if count == 1 else "labs.many", words, number=count)


@app.command(
    "check-report",
    epilog="paictl lab check-report *.html; exit code 0: all consistent and no copies, 1: not",
)
def check_report(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Reports of students.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Check whether reports are consistent, and whether some come from the same run.

    Recorded events are compared with replayed commands, text with data, the digest with both.
    """

    read = [(str(path), *check_file(path)) for path in files]
    results = [_result(file, made, wrong, other_owner(made)) for file, made, wrong in read]
    named = [(file, made) for file, made, _ in read]
    findings = [*copies(named), *strange_owners(named)]
    if output is not Output.TABLE:
        write_data(
            [
                {**result, "copies": [finding for finding in findings if result["file"] in finding]}
                for result in results
            ],
            output,
        )
    for result in results if output is Output.TABLE else ():
        words = console.language()
        write(
            localized(
                "{file}: {verdict}; {name}, {labs}, {passed} of {checks} checks passed, digest {digest}…",
                file=result["file"],
                name=result["name"],
                labs=_labs(result["labs"], words),
                passed=result["passed"],
                verdict=say("class-inconsistent" if result["inconsistent"] else "class-consistent", words),
                checks=result["checks"],
                digest=result["digest"][:16],
            )
        )
        for problem in result["inconsistent"]:
            write(f"  {localized(problem)}")
        if result["owners"]:
            write(f"  {localized('note: its jobs belong to {owners}', owners=listed(result['owners']))}")
    for finding in findings if output is Output.TABLE else ():
        write(localized(finding))
    bad = bool(findings) or any(result["inconsistent"] for result in results)
    raise typer.Exit(ExitCode.NEGATIVE if bad else ExitCode.OK)


def _result(file: str, made: dict[str, Any], wrong: list[str], owners: list[str]) -> dict[str, Any]:
    checks = [check["standing"] for experiment in made["experiments"] for check in experiment["checks"]]
    return {
        "file": file,
        "name": made["name"],
        "digest": made["digest"],
        "labs": len(made["experiments"]),
        "passed": checks.count("passed"),
        "checks": len(checks),
        "inconsistent": wrong,
        "owners": owners,
    }
