"""`paictl extender config`: the manifests of a door, for kubectl apply."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl import __version__
from paictl.cli import console
from paictl.cli.command import App
from paictl.cluster.doors import scheduler_host, server_of
from paictl.cluster.manifests.certificates import kept_in
from paictl.i18n import text
from paictl.places import state_folder

if TYPE_CHECKING:
    from paictl.cluster.manifests.certificates import CertificateSet
    from paictl.doors.manifests import Choices

app = App()

ConfigFile = Annotated[
    Path | None, typer.Option(help="services-configuration.yaml or hivedscheduler.yaml to put into the ConfigMap.")
]
DeleteAfter = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0, help="As for serve (default: 600; inf: never).")
]
RequireGrants = Annotated[
    bool,
    typer.Option(
        "--require-grants/--no-require-grants",
        help="Whether a namespace needs a grant for each virtual cluster that its pods use.",
    ),
]
DeviceMode = Annotated[str, typer.Option("--devices", metavar="MODE", help="As for serve.")]
DeviceClasses = Annotated[list[str] | None, typer.Option("--device-class", metavar="NAME", help="As for serve.")]
DeviceDrivers = Annotated[list[str] | None, typer.Option("--device-driver", metavar="NAME", help="As for serve.")]


@app.command(
    "config",
    epilog="paictl extender config --config hivedscheduler.yaml | kubectl apply -f -\n"
    "paictl extender config --door gates --config hivedscheduler.yaml | kubectl apply -f -",
)
def config_(
    *,
    door: Annotated[str, typer.Option(help="How pods reach the scheduler: extender, or gates.")] = "extender",
    gate_policy: Annotated[
        bool, typer.Option(help="With --door gates: let an admission policy set the gate (Kubernetes 1.36+).")
    ] = False,
    scheduler_name: Annotated[str, typer.Option(help="schedulerName of the pods.")] = "hivedscheduler",
    namespace: Annotated[str, typer.Option(help="Where everything runs.")] = "paictl-system",
    image: Annotated[str, typer.Option(help="Image of the extender; paictl:VERSION by default.")] = "",
    kube_image: Annotated[str, typer.Option(help="Image of kube-scheduler.")] = "",
    replicas: Annotated[int, typer.Option(min=1, help="Number of replicas of the extender and of kube-scheduler.")] = 2,
    config: ConfigFile = None,
    delete_after: DeleteAfter = None,
    require_grants: RequireGrants = True,
    tls: Annotated[
        bool,
        typer.Option("--tls/--no-tls", help="Whether kube-scheduler and the extender use mutual TLS."),
    ] = True,
    devices: DeviceMode = "environment",
    device_class: DeviceClasses = None,
    device_driver: DeviceDrivers = None,
    scheduler_only: Annotated[
        bool, typer.Option("--scheduler-only", help="Print only the KubeSchedulerConfiguration.")
    ] = False,
) -> None:
    """Print the manifests of the scheduler, for kubectl apply.

    With --door extender they include a kube-scheduler and its configuration. With --door gates the cluster's own
    kube-scheduler stays as it is, so it also works on a managed control plane.
    """
    print_manifests(
        config,
        scheduler_only=scheduler_only,
        door=door,
        gate_policy=gate_policy,
        scheduler_name=scheduler_name,
        namespace=namespace,
        image=image,
        kube_image=kube_image,
        replicas=replicas,
        delete_after=delete_after,
        require_grants=require_grants,
        tls=tls,
        devices=devices,
        device_classes=tuple(device_class or ()),
        device_drivers=tuple(device_driver or ()),
    )


def print_manifests(config: Path | None, *, scheduler_only: bool = False, **chosen: Any) -> None:
    """Print the manifests of a door, or of kube-scheduler only, with the cells that a configuration file describes.

    `chosen` are fields of `Choices`. Raises `PaictlError` for a configuration that cannot be used.
    """
    from paictl.doors import configuration, manifests  # late: need the extra k8s

    choices = manifests.Choices(**chosen)
    if config is not None:
        try:
            read = configuration.read(config)
            configuration.check_devices(read.spec, choices.devices, config)
        except configuration.FindingsError as error:
            console.info(error.report)
            raise
        choices = replace(choices, hived_config=read.text, sharing=json.loads(read.shared))
    if scheduler_only:
        objects = [manifests.scheduler_configuration(choices)]
    else:
        if choices.require_grants:
            console.info(
                "namespaces need a grant for the virtual clusters that their pods use: "
                "kubectl annotate namespace NAMESPACE 'paictl.io/virtual-clusters=VC1,VC2' (--no-require-grants: none)"
            )
        objects = manifests.objects(choices, __version__, _certificates(choices))
    console.write_file(manifests.to_yaml(objects).rstrip())


def _certificates(choices: Choices) -> CertificateSet | None:
    """The certificates to print, from the file that keeps them; None for placeholders, as on a terminal."""
    server = server_of(choices.door)
    if not choices.tls:
        return None
    if sys.stdout.isatty():
        console.info("keys are not shown on a terminal: pipe this to `kubectl apply -f -`")
        return None
    path = state_folder() / server.removeprefix("hivedscheduler-") / f"{choices.namespace}.json"
    certificate_set = kept_in(path, scheduler_host(choices.namespace, choices.door), time.time())
    console.info(
        text(
            "the output contains private keys, as Secrets for kubectl: keep it out of version control; the keys are "
            "stored in {path}",
            path=path,
        )
    )
    return certificate_set
