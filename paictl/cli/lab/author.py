"""`paictl lab selftest`: for the authors of labs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import write
from paictl.cli.lab.inprocess import called, printed, silent_runner, speaking
from paictl.errors import ExitCode
from paictl.lab.manifest import Lab, all_labs, find_lab, read_lab
from paictl.lab.selftest import USER, Bench, problems

app = App()


@app.command(epilog="paictl lab selftest 03 --update", hidden=True)
def selftest(
    labs: Annotated[list[str] | None, typer.Argument(help="Numbers or ids (default: all).")] = None,
    update: Annotated[bool, typer.Option("--update", help="Update the texts with the real output.")] = False,
) -> None:
    """For authors: prove that every check can fail, and that the texts show real output."""
    chosen: list[Lab] = [find_lab(word) for word in labs] if labs else all_labs()
    wrong = 0
    for lab in chosen:
        read_lab(lab.folder)  # checks the manifest, which other commands trust
        with tempfile.TemporaryDirectory() as folder:
            faults = self_test(lab, Path(folder), update=update)
        wrong += len(faults)
        for problem in faults:
            write(f"{lab.id}: {problem}")
        console.info(f"{lab.id}: {'ok' if not faults else f'{len(faults)} problems'}")
    raise typer.Exit(ExitCode.NEGATIVE if wrong else ExitCode.OK)


def self_test(lab: Lab, folder: Path, *, update: bool) -> list[str]:
    """Everything that is wrong with a lab, tested in an empty folder."""
    bench = Bench(folder, silent_runner, lambda session: lambda command: printed(session, command), speaking)
    with called(USER):
        return list(problems(lab, bench, update=update))
