"""`paictl extender serve`: answer kube-scheduler."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.doors import ServeOptions, serves_door
from paictl.i18n import text

app = App()


class Evictor(StrEnum):
    """Who evicts victims."""

    EXTENDER = "extender"
    KUBE_SCHEDULER = "kube-scheduler"


@app.command(epilog="paictl extender serve --config hivedscheduler.yaml --kubeconfig ~/.kube/config")
@serves_door
def serve(
    options: ServeOptions,
    *,
    preemption: Annotated[Evictor, typer.Option(help="Who evicts pods; kube-scheduler can since version 1.38.")] = (
        Evictor.EXTENDER
    ),
    gang_deadline: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=1, help="Evict the pods of a gang if the others have not arrived after this time."
        ),
    ] = None,
    bind_deadline: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Release devices if no binding follows within this time.")
    ] = 60.0,
) -> None:
    """Answer kube-scheduler's filter, bind and preempt calls, and preempt gang by gang.

    The exit code is 0 after a clean end, 1 if the configuration does not validate (its findings are printed),
    2 if the process cannot continue, 4 if there is no cluster.
    """
    from paictl.extender.server import ExtenderService  # late: needs the extra k8s

    settings = options.settings(
        bind_deadline, own_preemption=preemption is Evictor.EXTENDER, gang_deadline=gang_deadline
    )
    service = options.connect(ExtenderService, settings)
    console.info(text("answering on {listen} for {where}", listen=options.listen, where=service.client.where))
    service.run()
