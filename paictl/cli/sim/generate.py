"""`paictl sim generate`: a trace from a published mix of jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paictl.cli.command import App
from paictl.cli.console import Output, localized, write, write_data, write_table
from paictl.cli.sim.shared import write_files
from paictl.sim.generate import MIXES
from paictl.sim.generate import generate as generated
from paictl.sim.traces.native import to_csv

app = App()


def mixes() -> list[str]:
    """The mixes, for completion."""
    return list(MIXES)


@app.command(
    epilog="""
    paictl sim generate
    paictl sim generate tiresias --jobs 480 --seed 1 -o trace.csv
"""
)
def generate(
    mix: Annotated[
        str | None,
        typer.Argument(metavar="[MIX]", autocompletion=mixes, help="Name of the mix; without it, list the mixes."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=1_000_000, help="How many.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same jobs.")] = 0,
    load: Annotated[float | None, typer.Option("--load", help="Multiply the arrival rate by this.")] = None,
    target: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE.csv", help="File to write (default: stdout).")
    ] = None,
) -> None:
    """Generate a trace from a published mix; the same seed gives the same bytes on every machine."""
    if mix is None:
        forms = [form.value for form in Output]
        if target in forms and target != Output.TABLE:
            data = [
                {"name": mix.name, "title": mix.title, "source": mix.source, "choices": mix.choices}
                for mix in MIXES.values()
            ]
            write_data(data, Output(target))
            return
        write_table(
            ("MIX", "WHAT IT IS", "FROM", "OUR CHOICE"),
            ((m.name, localized(m.title), localized(m.source), localized(m.choices)) for m in MIXES.values()),
        )
        return
    text = to_csv(generated(mix, jobs, seed, load))
    if target is None or target == "-":
        write(text.rstrip("\n"))
    else:
        write_files({Path(target): text})
