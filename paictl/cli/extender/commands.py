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
from paictl.cli.options import OutputOption, address, namespaced
from paictl.errors import PaictlError
from paictl.places import state_folder

if TYPE_CHECKING:
    from paictl.cluster.manifests.certificates import CertificateSet
    from paictl.cluster.pods.labels import Reading
    from paictl.doors.manifests import Choices

HELP = "The scheduler core behind kube-scheduler: serve its questions, make its manifests, read pods as it does."
app = App(help=HELP)


class Evictor(StrEnum):
    """Who evicts victims."""

    EXTENDER = "extender"
    KUBE_SCHEDULER = "kube-scheduler"


@app.callback()
def extender() -> None:
    """Ask and run the extender of kube-scheduler."""


@app.command(epilog="paictl extender serve --config hivedscheduler.yaml --kubeconfig ~/.kube/config")
def serve(
    config: Annotated[Path, typer.Option(help="services-configuration.yaml or hivedscheduler.yaml.")],
    *,
    kubeconfig: Annotated[Path | None, typer.Option(help="Cluster to talk to; in a pod, its own.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = "0.0.0.0:30096",
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate (PEM) to answer with HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(help="Authority (PEM) of kube-scheduler's client certificate; without it anyone is answered."),
    ] = None,
    leader_elect: Annotated[bool, typer.Option("--leader-elect", help="One of several replicas answers.")] = False,
    lease: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The Lease for it.")
    ] = "paictl-system/hivedscheduler-extender",
    pod: Annotated[
        str,
        typer.Option(metavar="NAMESPACE/NAME", help="Pod to be labelled paictl.io/leader while it leads."),
    ] = "",
    preemption: Annotated[Evictor, typer.Option(help="Who evicts; kube-scheduler can from 1.38 on.")] = (
        Evictor.EXTENDER
    ),
    delete_after: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Delete victims that a disruption budget protects for longer."),
    ] = None,
    longest_grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, help="Give victims no more time for their end, whatever they ask for."),
    ] = 300.0,
    gang_deadline: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=1, help="Evict the pods of a gang if the others have not come by then."),
    ] = None,
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
    bind_deadline: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Give devices back if no binding came by then.")
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
    """Answer kube-scheduler's filter, bind and preempt calls, and preempt gang by gang.

    The exit code is 0 after a clean end, 1 if the configuration does not validate (its findings are said), 2 if the
    process cannot go on, 4 if there is no cluster.
    """
    from paictl.cluster.pods.labels import DEVICES
    from paictl.doors.configuration import FindingsError
    from paictl.doors.service import DoorSettings
    from paictl.extender.server import ExtenderService
    from paictl.remote.kube.client import connect

    host, port = address(listen)
    check_certificate(tls_cert, tls_key, tls_client_ca)
    settings = DoorSettings(
        config=config, sharing=sharing, host=host, port=port, certificate=tls_cert, key=tls_key,
        client_authority=tls_client_ca, elect=leader_elect,
        lease=namespaced("--lease", lease), pod=namespaced("--pod", pod) if pod else None,
        own_preemption=preemption is Evictor.EXTENDER, delete_after=delete_after,
        deadline=bind_deadline, devices=tuple(device) if device else DEVICES, dump=dump,
        require_grants=require_grants, longest_grace=longest_grace,
        gang_deadline=gang_deadline, bad_device_deadline=bad_device_deadline, heal_after=heal_after, accounts=accounts,
        maintenance=maintenance,
    ).with_devices(devices, device_class, device_driver)  # fmt: skip
    try:
        service = ExtenderService(connect(kubeconfig, context), settings, console.info)
    except FindingsError as error:
        console.info(error.report)
        raise
    console.info(f"answering on {listen} for {service.client.where}")
    service.run()


def check_certificate(certificate: Path | None, key: Path | None, client_authority: Path | None) -> None:
    """Raise `PaictlError` unless the files that HTTPS needs are given together and exist."""
    if (certificate is None) != (key is None):
        raise PaictlError("--tls-cert and --tls-key belong together")
    if client_authority is not None and certificate is None:
        raise PaictlError("--tls-client-ca needs --tls-cert and --tls-key")
    for path in filter(None, (certificate, key, client_authority)):
        if not path.is_file():
            raise PaictlError("no such file", where=str(path))


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
    replicas: Annotated[int, typer.Option(min=1, help="Of the extender and of kube-scheduler.")] = 2,
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
        bool,
        typer.Option("--tls/--no-tls", help="Whether kube-scheduler and the extender show each other certificates."),
    ] = True,
    devices: Annotated[str, typer.Option(metavar="MODE", help="As for serve.")] = "environment",
    device_class: Annotated[
        list[str] | None, typer.Option("--device-class", metavar="NAME", help="As for serve.")
    ] = None,
    device_driver: Annotated[
        list[str] | None, typer.Option("--device-driver", metavar="NAME", help="As for serve.")
    ] = None,
    scheduler_only: Annotated[
        bool, typer.Option("--scheduler-only", help="Only the KubeSchedulerConfiguration.")
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
        console.write(manifests.to_yaml([configuration]).rstrip())
    else:
        print_objects(choices, config)


def print_objects(choices: Choices, config: Path | None) -> None:
    """Print the manifests of a door, with what a file says about the cells. Raises `PaictlError` for a broken one."""
    from paictl.doors import manifests

    found = _with_text(choices, config)
    if found.require_grants:
        console.info(
            "namespaces need a grant for the virtual clusters that their pods use: "
            "kubectl annotate namespace NAMESPACE 'paictl.io/virtual-clusters=VC1,VC2' (--no-require-grants: none)"
        )
    console.write(manifests.to_yaml(manifests.objects(found, __version__, _certificates(found))).rstrip())


def _with_text(choices: Choices, config: Path | None) -> Choices:
    if config is None:
        return choices
    from paictl.doors.configuration import FindingsError, read

    try:
        found = read(config)
        return replace(choices, hived_config=found.text, sharing=json.loads(found.shared))
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
    found = kept_in(path, scheduler_host(choices.namespace, choices.door), time.time())
    console.info(
        f"the output holds private keys, in Secrets for kubectl: keep it out of version control; kept in {path}"
    )
    return found


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
        str, typer.Argument(metavar="FILE", help="Pods, with their Jobs if you like (YAML, JSON), - for stdin.")
    ],
    *,
    config: Annotated[Path | None, typer.Option(help="Configuration, for the devices of a leaf cell by SKU.")] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", metavar="RESOURCE", help="Resource that counts as devices.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say how the scheduler would read a pod: whose it is, its gang and leaf cells, its door, and how it gets devices.

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
            found: Reading = read_pod(pod, str(about.get("uid") or name), name, rules)
            said = reading_data(found) | counted(pod, found, owners, rules)
            said |= ways_of(pod, name, found, owners)
        except PaictlError as error:
            good = False
            rows.append({"pod": name, "read": "no", "why": error.message})
            continue
        rows.append({"pod": name, "read": "yes", **said})
    if output is Output.TABLE:
        for row in rows:
            console.write(f"pod {row['pod']}" + ("" if row["read"] == "yes" else f": {console.said(row['why'])}"))
            for key, value in row.items():
                if key not in ("pod", "read", "why"):
                    told = _YES_NO[value] if isinstance(value, bool) else value
                    console.write(f"  {console.said(key)}: {console.said(told)}")
    else:
        console.write_data(rows, output)
    if not good:
        raise typer.Exit(1)
