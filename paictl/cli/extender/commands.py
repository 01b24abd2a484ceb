"""`paictl extender`: HiveD's guarantees on a running Kubernetes.

Heavy imports happen inside the commands, so that ``paictl --help`` stays fast.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl import __version__
from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import Output
from paictl.cli.doors import ServeOptions, serves_door
from paictl.cli.options import OutputOption
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.places import state_folder

if TYPE_CHECKING:
    from paictl.cluster.manifests.certificates import CertificateSet
    from paictl.cluster.pods.labels import Reading
    from paictl.doors.manifests import Choices

HELP = "Run the scheduler core behind kube-scheduler: answer its calls, print its manifests, explain pods."
app = App(help=HELP)


class Evictor(StrEnum):
    """Who evicts victims."""

    EXTENDER = "extender"
    KUBE_SCHEDULER = "kube-scheduler"


@app.callback()
def extender() -> None:
    """Ask and run the extender of kube-scheduler."""


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
    from paictl.extender.server import ExtenderService

    settings = options.settings(
        bind_deadline, own_preemption=preemption is Evictor.EXTENDER, gang_deadline=gang_deadline
    )
    service = options.connect(ExtenderService, settings)
    console.info(text("answering on {listen} for {where}", listen=options.listen, where=service.client.where))
    service.run()


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
    config: Annotated[
        Path | None, typer.Option(help="services-configuration.yaml or hivedscheduler.yaml to put into the ConfigMap.")
    ] = None,
    delete_after: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="As for serve (default: 600; inf: never).")
    ] = None,
    require_grants: Annotated[
        bool,
        typer.Option(
            "--require-grants/--no-require-grants",
            help="Whether a namespace needs a grant for each virtual cluster that its pods use.",
        ),
    ] = True,
    tls: Annotated[
        bool,
        typer.Option("--tls/--no-tls", help="Whether kube-scheduler and the extender use mutual TLS."),
    ] = True,
    devices: Annotated[str, typer.Option(metavar="MODE", help="As for serve.")] = "environment",
    device_class: Annotated[
        list[str] | None, typer.Option("--device-class", metavar="NAME", help="As for serve.")
    ] = None,
    device_driver: Annotated[
        list[str] | None, typer.Option("--device-driver", metavar="NAME", help="As for serve.")
    ] = None,
    scheduler_only: Annotated[
        bool, typer.Option("--scheduler-only", help="Print only the KubeSchedulerConfiguration.")
    ] = False,
) -> None:
    """Print the manifests of the scheduler, for kubectl apply.

    With --door extender they include a kube-scheduler and its configuration. With --door gates the cluster's own
    kube-scheduler stays as it is, so it also works on a managed control plane.
    """
    from paictl.doors import manifests

    choices = manifests.Choices(
        door=door, gate_policy=gate_policy, scheduler_name=scheduler_name, namespace=namespace, image=image,
        kube_image=kube_image, replicas=replicas, delete_after=delete_after, require_grants=require_grants, tls=tls,
        devices=devices, device_classes=tuple(device_class or ()), device_drivers=tuple(device_driver or ()),
    )  # fmt: skip
    if scheduler_only:
        configuration = manifests.scheduler_configuration(_with_text(choices, config))
        console.write_file(manifests.to_yaml([configuration]).rstrip())
    else:
        print_objects(choices, config)


def print_objects(choices: Choices, config: Path | None) -> None:
    """Print the manifests of a door, with what a file says about the cells. Raises `PaictlError` for a broken one."""
    from paictl.doors import manifests

    options = _with_text(choices, config)
    if options.require_grants:
        console.info(
            "namespaces need a grant for the virtual clusters that their pods use: "
            "kubectl annotate namespace NAMESPACE 'paictl.io/virtual-clusters=VC1,VC2' (--no-require-grants: none)"
        )
    console.write_file(manifests.to_yaml(manifests.objects(options, __version__, _certificates(options))).rstrip())


def _with_text(choices: Choices, config: Path | None) -> Choices:
    if config is None:
        return choices
    from paictl.doors.configuration import FindingsError, check_devices, read

    try:
        configuration = read(config)
        check_devices(configuration.spec, choices.devices, config)
        return replace(choices, hived_config=configuration.text, sharing=json.loads(configuration.shared))
    except FindingsError as error:
        console.info(error.report)
        raise


def _certificates(choices: Choices) -> CertificateSet | None:
    """The certificates to print, from the file that keeps them; placeholders on a terminal, which people look at."""
    from paictl.cluster.doors import scheduler_host, server_of
    from paictl.cluster.manifests.certificates import kept_in

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
            "the output holds private keys, in Secrets for kubectl: keep it out of version control; kept in {path}",
            path=path,
        )
    )
    return certificate_set


_YES_NO = {True: "yes", False: "no"}


@app.command(
    "explain-pod",
    epilog="""
    paictl extender explain-pod pod.yaml
    kubectl get pod train-0 -o yaml | paictl extender explain-pod -
""",
)
def explain_pod(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Pods, optionally with their Jobs (YAML, JSON), - for stdin.")
    ],
    *,
    config: Annotated[Path | None, typer.Option(help="Configuration, for the devices of a leaf cell by SKU.")] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", metavar="RESOURCE", help="Resource that counts as devices.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how the scheduler reads a pod: its virtual cluster, gang, leaf cells and door, and how it gets devices.

    If the file has the Job, JobSet, TrainJob, PyTorchJob, TFJob or MPIJob as well, it says how many pods that runs
    and which label says so. A pod with resourceClaims is checked against the ResourceClaimTemplates in the file.
    The exit code is 0 if all pods could be read, 1 if not.
    """
    from paictl.cli.extender.pods import counted, pods_of, reading_data, ways_of
    from paictl.cluster.pods.labels import DEVICES, Rules
    from paictl.cluster.pods.reading import asks, read_pod

    skus = {}
    if config is not None:
        from paictl.doors.configuration import read

        skus = dict(read(config).spec.sku_types)
    rules, good = Rules(tuple(device) if device else DEVICES, skus), True
    rows: list[dict[str, Any]] = []
    pods, owners = pods_of(file)
    for pod in pods:
        about = pod["metadata"]
        name = f"{about.get('namespace') or 'default'}/{about.get('name') or about.get('generateName') or '?'}"
        if not asks(pod):
            good = False
            rows.append({"pod": name, "read": "no", "why": "it does not ask for this scheduler"})
            continue
        try:
            reading: Reading = read_pod(pod, str(about.get("uid") or name), name, rules)
            details = reading_data(reading) | counted(pod, reading, owners, rules)
            details |= ways_of(pod, name, reading, owners)
        except PaictlError as error:
            good = False
            rows.append({"pod": name, "read": "no", "why": error.message})
            continue
        rows.append({"pod": name, "read": "yes", **details})
    if output is Output.TABLE:
        for row in rows:
            console.write(f"pod {row['pod']}" + ("" if row["read"] == "yes" else f": {console.said(row['why'])}"))
            for key, value in row.items():
                if key not in ("pod", "read", "why"):
                    words = _YES_NO[value] if isinstance(value, bool) else value
                    console.write(f"  {console.said(key)}: {console.said(words)}")
    else:
        console.write_data(rows, output)
    if not good:
        raise typer.Exit(1)
