"""`paictl node add` and `remove` on a real cluster: the three files say which, and how to get into the machines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import confirm
from paictl.cli.console import said as in_words
from paictl.cli.console import spoken
from paictl.cli.deploy.files import BreakLock as BreakLock
from paictl.cli.deploy.files import read_deployment
from paictl.cli.settings import settings
from paictl.cluster.targets import open_target
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.places import runs_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paictl.cluster.interface import Cluster
    from paictl.deploy.inventory import Deployment, Machine
    from paictl.operate.membership import Membership
    from paictl.remote.kube.client import KubeClient

Masters = Annotated[str | None, typer.Option("--masters", "-m", metavar="FILE", help="master.csv of a real cluster.")]
Workers = Annotated[
    str | None,
    typer.Option("--workers", "-w", metavar="FILE", help="worker.csv of a real cluster; changed, too."),
]
Config = Annotated[str | None, typer.Option("--config", "-c", metavar="FILE", help="config.yaml of a real cluster.")]
Seconds = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=1, help="How long pods may take to leave a real machine.")
]


@frozen
class Files:
    """The three files of a real cluster."""

    masters: str
    workers: str
    config: str


def files_of(masters: str | None, workers: str | None, config: str | None) -> Files | None:
    """The three files; None where none is named, and `PaictlError` for one without the others."""
    if masters and workers and config:
        return Files(masters, workers, config)
    if masters or workers or config:
        raise PaictlError("a real cluster is said by three files", hint="-m master.csv -w worker.csv -c config.yaml")
    return None


def _opened(files: Files) -> tuple[Deployment, Cluster]:

    deployment = read_deployment(files.masters, files.workers, files.config)
    name = deployment.settings.cluster
    if settings.cluster not in (None, name):
        said = text("config.yaml belongs to cluster {name}, not {wanted}", name=name, wanted=settings.cluster)
        raise PaictlError(said, hint="nothing was done")
    return deployment, open_target(name)


def _client(deployment: Deployment) -> KubeClient:
    from paictl.deploy.kubeconfig import context_name, default_kubeconfig
    from paictl.remote.kube.client import connect

    return connect(default_kubeconfig(), context_name(deployment.settings.cluster))


def remove(names: Sequence[str], files: Files, seconds: float, *, yes: bool, break_lock: bool) -> None:
    """Take workers out, one after the other; the first that does not work ends it."""
    from paictl.operate.membership import plan_leaving, worker_of

    deployment, cluster = _opened(files)
    machines = [worker_of(deployment, name) for name in names]
    client = _client(deployment)
    for machine in machines:
        made = plan_leaving(cluster, machine)
        _ask(made, client, cluster.name, yes=yes)
        _take_out(made, deployment, cluster, client, seconds, break_lock=break_lock)
        _note(files, machine, there=False)
        console.outcome(spoken("node {name} removed", name=machine.name), name=machine.name)


def _ask(made: Membership, client: KubeClient, cluster: str, *, yes: bool) -> None:
    """Show who is harmed, and ask; pods that nobody would start again are refused."""
    from paictl.deploy.draining import pods_to_move, refuse_lonely
    from paictl.operate.membership import jobs_in_words

    name = made.machine.name
    pods = pods_to_move(client, name)
    refuse_lonely(pods, name)
    if made.harmed:
        jobs = jobs_in_words(made.harmed.items())
        console.warning(spoken("jobs affected, by virtual cluster: {jobs}", jobs=jobs))
    if made.plan is None:
        console.info(spoken("the configuration of {cluster} does not name {name}", cluster=cluster, name=name))
    leaving = "machine {name} will be removed from cluster {cluster} and cleaned; {count} pods move"
    confirm(spoken(leaving, name=name, cluster=cluster, count=len(pods)), name, yes=yes)


def _take_out(
    made: Membership, deployment: Deployment, cluster: Cluster, client: KubeClient, seconds: float, *, break_lock: bool
) -> None:
    from paictl.deploy.draining import REMOVAL, holding
    from paictl.deploy.growing import leaving
    from paictl.operate.membership import change_configuration

    name = made.machine.name
    with (
        leaving(deployment, made.machine, runs_folder(), _now, break_lock=break_lock) as leave,
        holding(client, seconds, REMOVAL) as held,
    ):
        held.drain([name], _tell)
        version = change_configuration(cluster, made, f"without {name}")
        if version:
            console.info(spoken("configuration version {version} is without {name}", version=version, name=name))
        leave(client, _tell)


def add(name: str, address: str | None, like: str | None, files: Files) -> None:
    """Let a worker join, and name it in the configuration."""
    from paictl.cli.deploy.showing import PhaseLines
    from paictl.deploy.apply import prepare
    from paictl.deploy.growing import join, limited
    from paictl.operate.membership import change_configuration, plan_joining

    deployment, cluster = _opened(files)
    machine = _machine(deployment, name, address)
    made = plan_joining(cluster, machine, like)
    desired = prepare(limited(deployment, machine))
    changed = join(desired, machine, runs_folder(), _now, PhaseLines())
    version = change_configuration(cluster, made, f"with {name}")
    if version:
        has = "configuration version {version} includes {name}; its cells are not promised to any VC yet"
        console.info(spoken(has, version=version, name=name))
    _note(files, machine, there=True)
    end = "node {name} added" if changed or version else "node {name} already exists"
    console.outcome(spoken(end, name=name), name=name)


def _machine(deployment: Deployment, name: str, address: str | None) -> Machine:
    """The machine of worker.csv, or a new one at an address."""
    from paictl.deploy.inventory import Machine, Role
    from paictl.operate.nodes import check_machine

    known = next((one for one in deployment.machines if one.name == name), None)
    if known is not None:
        if known.role is Role.MASTER or address not in (None, known.address):
            said = text(
                "{name} is {role} {address} in the lists", name=name, role=known.role.value, address=known.address
            )
            raise PaictlError(said, hint="nothing was done")
        return known
    if address is None:
        said = text("{name} is not in the list of workers", name=name)
        raise PaictlError(said, hint="write it there, or say --address ADDRESS")
    check_machine(name, address)
    taken = next((one for one in deployment.machines if one.address == address), None)
    if taken is not None:
        raise PaictlError(text("{address} is already the address of {name}", address=address, name=taken.name))
    return Machine(name, address, Role.WORKER)


def _note(files: Files, machine: Machine, *, there: bool) -> None:
    from paictl.operate.membership import note_in_list

    note_in_list(Path(files.workers), machine, there=there)


def _tell(said: str, about: str = "") -> None:
    (console.warning if about else console.detail)(f"{about}: {in_words(said)}" if about else in_words(said))


def _now() -> datetime:
    return datetime.now(UTC)
