"""`paictl sim`: play traces of jobs without a cluster."""

from __future__ import annotations

import typer

from paictl.cli.sim.compare import compare
from paictl.cli.sim.lists import generate, policies, traces
from paictl.cli.sim.run import run

app = typer.Typer(help="Play traces of jobs without a cluster.", no_args_is_help=True)


@app.callback()
def sim() -> None:
    """Play traces of jobs without a cluster."""


app.command(epilog="Example: paictl sim run tiny --policy fifo --cluster 2x4")(run)
app.command(
    epilog="Examples: paictl sim compare tiny --policy fifo --policy srtf --cluster 2x4 · "
    "paictl sim compare trace.yaml --config services-configuration.yaml --each-job"
)(compare)
app.command(epilog="Example: paictl sim policies fifo")(policies)
app.command(epilog="Example: paictl sim traces tiny --cluster 2x4")(traces)
app.command(epilog="Example: paictl sim generate tiresias --jobs 480 --seed 1 -o trace.csv")(generate)
