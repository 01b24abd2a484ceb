"""`paictl cluster tick`: let the time of a cluster on this machine pass, or wait in a lab on a real one."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import StateOption, clock_text, lab_site, local_only, open_cluster
from paictl.cli.command import App
from paictl.cli.console import write
from paictl.cluster.interface import UnsupportedError
from paictl.lab.pacing import wait
from paictl.lab.site import LabSite
from paictl.operate import status
from paictl.units import Millis

app = App()


def _wait(site: LabSite, span: Millis | None) -> None:
    """Wait for a span of a lab's time on a cluster whose clock cannot be set; print the new time."""
    if span is None:
        raise UnsupportedError(
            "the clock of a real cluster cannot advance until it is idle", hint="paictl cluster tick 5m"
        )
    with console.progress("waiting"):
        write(clock_text(wait(open_cluster(None), span, site.pace)))


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
    if (site := lab_site()) is not None:
        _wait(site, status.span_of(span, until_idle=until_idle))
        return
    local_only("tick")
    wanted = status.span_of(span, until_idle=until_idle)
    cluster = open_cluster(state)
    write(clock_text(status.tick(cluster, wanted)))
