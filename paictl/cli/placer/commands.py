"""`paictl placer`: HiveD's guarantees on a kube-scheduler that cannot be configured."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.doors import ServeOptions, serves_door
from paictl.cli.extender.config import (
    ConfigFile,
    DeleteAfter,
    DeviceClasses,
    DeviceDrivers,
    DeviceMode,
    RequireGrants,
    print_manifests,
)
from paictl.i18n import text

HELP = "Place pods that carry the scheduling gate paictl.io/cells, on any stock kube-scheduler."
app = App(help=HELP)


@app.callback()
def placer() -> None:
    """Run the placer, and print what a cluster needs for it."""


@app.command(epilog="paictl placer serve --config hivedscheduler.yaml --kubeconfig ~/.kube/config")
@serves_door
def serve(
    options: ServeOptions,
    *,
    pin_deadline: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Report a pinned pod that is not bound by then.")
    ] = 60.0,
) -> None:
    """Place gated pods gang by gang, and preempt by eviction.

    The exit code is 0 after a clean end, 1 if the configuration does not validate, 2 if the process cannot continue,
    4 if there is no cluster.
    """
    from paictl.placer.term import PlacerService  # late: needs the extra k8s

    service = options.connect(PlacerService, options.settings(pin_deadline))
    console.info(
        text("placing pods of {where}, answering on {listen}", where=service.client.where, listen=options.listen)
    )
    service.run()


@app.command("config", epilog="paictl placer config --config hivedscheduler.yaml | kubectl apply -f -")
def config_(
    *,
    namespace: Annotated[str, typer.Option(help="Where the placer runs.")] = "paictl-system",
    image: Annotated[str, typer.Option(help="Image of the placer; paictl:VERSION by default.")] = "",
    replicas: Annotated[int, typer.Option(min=1, help="Number of replicas of the placer.")] = 2,
    config: ConfigFile = None,
    delete_after: DeleteAfter = None,
    require_grants: RequireGrants = True,
    tls: Annotated[
        bool, typer.Option("--tls/--no-tls", help="Whether the placer serves HTTPS and asks readers for a token.")
    ] = True,
    devices: DeviceMode = "environment",
    device_class: DeviceClasses = None,
    device_driver: DeviceDrivers = None,
    policy: Annotated[
        bool, typer.Option(help="Print the MutatingAdmissionPolicy that sets the gate (Kubernetes 1.36 and newer).")
    ] = True,
) -> None:
    """Print all manifests of the placer, for kubectl apply: short for
    `paictl extender config --door gates --gate-policy`.

    On Kubernetes 1.35 there is no v1 MutatingAdmissionPolicy: use --no-policy, and set the gate in each pod.
    """
    print_manifests(
        config,
        door="gates",
        gate_policy=policy,
        namespace=namespace,
        image=image,
        replicas=replicas,
        delete_after=delete_after,
        require_grants=require_grants,
        tls=tls,
        devices=devices,
        device_classes=tuple(device_class or ()),
        device_drivers=tuple(device_driver or ()),
    )
