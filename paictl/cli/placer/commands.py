"""`paictl placer`: HiveD's guarantees on a kube-scheduler that cannot be configured.

Heavy imports happen inside the commands, so that ``paictl --help`` stays fast.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.extender.commands import check_certificate, print_objects
from paictl.cli.options import address, namespaced
from paictl.errors import PaictlError

HELP = "Place pods that carry the scheduling gate paictl.io/cells, on any stock kube-scheduler."
app = App(help=HELP)


@app.callback()
def placer() -> None:
    """Run the placer, and print what a cluster needs for it."""


@app.command(epilog="paictl placer serve --config hivedscheduler.yaml --kubeconfig ~/.kube/config")
def serve(
    config: Annotated[Path, typer.Option(help="services-configuration.yaml or hivedscheduler.yaml.")],
    *,
    kubeconfig: Annotated[Path | None, typer.Option(help="Cluster to talk to; in a pod, its own.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve health, metrics and explanations.")
    ] = "0.0.0.0:30096",
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM) to answer with HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            help="Authority (PEM) of client certificates; who shows none needs a token. Without it anyone is answered."
        ),
    ] = None,
    leader_elect: Annotated[bool, typer.Option("--leader-elect", help="One of several replicas places pods.")] = False,
    lease: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The Lease for it; also the extender's.")
    ] = "paictl-system/hivedscheduler-extender",
    pod: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="Pod to be labelled paictl.io/leader while it leads.")
    ] = "",
    delete_after: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Delete victims that a disruption budget protects for longer."),
    ] = None,
    longest_grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, help="Give victims no more time for their end, whatever they ask for."),
    ] = 300.0,
    heal_after: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Use a bad node or device again after it has been healthy for this long."
        ),
    ] = 0.0,
    bad_device_deadline: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Evict a gang if one of its devices has been bad for this long."),
    ] = None,
    pin_deadline: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Report a pinned pod that is not bound by then.")
    ] = 60.0,
    device: Annotated[
        list[str] | None, typer.Option("--device", metavar="RESOURCE", help="Resource that counts as devices.")
    ] = None,
    require_grants: Annotated[
        bool,
        typer.Option(
            "--require-grants/--no-require-grants",
            help="Refuse pods of namespaces that were not granted their virtual cluster.",
        ),
    ] = False,
    devices: Annotated[
        str, typer.Option(metavar="MODE", help="How pods get their devices: environment, claims or auto.")
    ] = "environment",
    device_class: Annotated[
        list[str] | None, typer.Option("--device-class", metavar="NAME", help="DeviceClass of claims on cells.")
    ] = None,
    device_driver: Annotated[
        list[str] | None, typer.Option("--device-driver", metavar="NAME", help="Driver whose devices are leaf cells.")
    ] = None,
    accounts: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE", help="Keep accounts of device time there; without this option, none are kept."
        ),
    ] = "",
    sharing: Annotated[
        Path | None,
        typer.Option(help="File with the section sharing: budgets and limits for users; default: that of --config."),
    ] = None,
    maintenance: Annotated[
        str, typer.Option(metavar="NAMESPACE", help="Heed the maintenance windows there; without it none are heeded.")
    ] = "",
    dump: Annotated[Path | None, typer.Option(help="Folder for the state if an invariant breaks.")] = None,
) -> None:
    """Place gated pods gang by gang, and preempt by eviction.

    The exit code is 0 after a clean end, 1 if the configuration does not validate, 2 if the process cannot continue,
    4 if there is no cluster.
    """
    from paictl.doors.service import DoorSettings
    from paictl.placer.term import PlacerService
    from paictl.remote.kube.client import connect

    host, port = address(listen)
    check_certificate(tls_cert, tls_key, tls_client_ca)
    settings = DoorSettings(
        config=config, sharing=sharing, host=host, port=port, elect=leader_elect, lease=namespaced("--lease", lease),
        pod=namespaced("--pod", pod) if pod else None, delete_after=delete_after, deadline=pin_deadline,
        certificate=tls_cert, key=tls_key, client_authority=tls_client_ca, require_grants=require_grants, dump=dump,
        longest_grace=longest_grace, bad_device_deadline=bad_device_deadline, heal_after=heal_after, accounts=accounts,
        maintenance=maintenance,
    )  # fmt: skip
    if device:
        settings = replace(settings, devices=tuple(device))
    settings = settings.with_devices(devices, device_class, device_driver)
    try:
        service = PlacerService(connect(kubeconfig, context), settings, console.info)
    except PaictlError as error:
        if report := getattr(error, "report", ""):
            console.info(report)
        raise
    console.info(f"placing pods of {service.client.where}, answering on {listen}")
    service.run()


@app.command("config", epilog="paictl placer config --config hivedscheduler.yaml | kubectl apply -f -")
def config_(
    *,
    namespace: Annotated[str, typer.Option(help="Where the placer runs.")] = "paictl-system",
    image: Annotated[str, typer.Option(help="Image of the placer; paictl:VERSION by default.")] = "",
    replicas: Annotated[int, typer.Option(min=1, help="Replicas of the placer.")] = 2,
    config: Annotated[
        Path | None, typer.Option(help="services-configuration.yaml or hivedscheduler.yaml to put into the ConfigMap.")
    ] = None,
    delete_after: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="As for serve; default 600, inf for never.")
    ] = None,
    require_grants: Annotated[
        bool,
        typer.Option(
            "--require-grants/--no-require-grants",
            help="Whether a namespace needs a grant for each virtual cluster that its pods use.",
        ),
    ] = True,
    tls: Annotated[
        bool, typer.Option("--tls/--no-tls", help="Whether the placer serves HTTPS and asks readers for a token.")
    ] = True,
    devices: Annotated[str, typer.Option(metavar="MODE", help="As for serve.")] = "environment",
    device_class: Annotated[
        list[str] | None, typer.Option("--device-class", metavar="NAME", help="As for serve.")
    ] = None,
    device_driver: Annotated[
        list[str] | None, typer.Option("--device-driver", metavar="NAME", help="As for serve.")
    ] = None,
    policy: Annotated[
        bool, typer.Option(help="Print the MutatingAdmissionPolicy that sets the gate (Kubernetes 1.36 and newer).")
    ] = True,
) -> None:
    """Print all manifests of the placer, for kubectl apply: short for
    `paictl extender config --door gates --gate-policy`.

    On Kubernetes 1.35 there is no v1 MutatingAdmissionPolicy: use --no-policy, and set the gate in each pod.
    """
    from paictl.doors.manifests import Choices

    choices = Choices(
        door="gates", gate_policy=policy, namespace=namespace, image=image, replicas=replicas,
        delete_after=delete_after, require_grants=require_grants, tls=tls, devices=devices,
        device_classes=tuple(device_class or ()), device_drivers=tuple(device_driver or ()),
    )  # fmt: skip
    print_objects(choices, config)
