"""`paictl cluster tick`: let the time of a cluster on this machine pass, or wait in a lab on a real one."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import StateOption, clock_text, local_only, open_cluster
from paictl.cli.command import App
from paictl.cli.console import write
from paictl.cli.lab.location import lab_site, wait
from paictl.cluster.interface import UnsupportedError
from paictl.i18n import text
from paictl.operate import status

app = App()


@app.command(
    epilog="""
    paictl cluster tick 10m
    paictl cluster tick --until-idle
"""
)
def tick(
    span: Annotated[str | None, typer.Argument(help="How far: 90s, 10m, 1h30m.")] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Until nothing more happens.")] = False,
    state: StateOption = None,
) -> None:
    """Advance the cluster's time."""
    length, site = status.span_of(span, until_idle=until_idle), lab_site()
    if site is None:
        local_only("tick")
        write(clock_text(status.tick(open_cluster(state), length)))
    elif length is None:
        raise UnsupportedError(
            "the clock of a real cluster cannot advance until it is idle", hint="paictl cluster tick 5m"
        )
    else:  # a clock that cannot be set
        with console.progress(text("waiting")):
            write(clock_text(wait(open_cluster(None), length, site)))
