"""`paictl node add` and `remove` on a real cluster: the three files name it, and say how to sign in to machines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from paictl.cli import console
from paictl.cli.confirmation import confirm
from paictl.cli.console import localized
from paictl.cli.console import localized as in_words
from paictl.cli.deploy.files import accept_host_keys, read_deployment
from paictl.cli.deploy.progress import PhaseLines
from paictl.cli.node.files import Files
from paictl.cli.settings import settings
from paictl.cluster.targets import open_target
from paictl.deploy.apply import prepare
from paictl.deploy.draining import REMOVAL, holding, pods_to_move, refuse_lonely
from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.kubeconfig import context_name, default_kubeconfig
from paictl.deploy.partial_runs import join, leaving, limited
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.membership import (
    Membership,
    change_configuration,
    jobs_in_words,
    note_in_list,
    plan_joining,
    plan_leaving,
    worker_of,
)
from paictl.operate.nodes import check_machine
from paictl.places import runs_folder
from paictl.remote.kube.client import KubeClient, connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paictl.cluster.interface import Cluster


def _opened(files: Files) -> tuple[Deployment, Cluster]:
    deployment = read_deployment(files.masters, files.workers, files.config)
    name = deployment.settings.cluster
    if settings.cluster not in (None, name):
        message = text("config.yaml belongs to cluster {name}, not {wanted}", name=name, wanted=settings.cluster)
        raise PaictlError(message, hint="nothing was done")
    return deployment, open_target(name)


def _client(deployment: Deployment) -> KubeClient:
    return connect(default_kubeconfig(), context_name(deployment.settings.cluster))


def remove(names: Sequence[str], files: Files, seconds: float, *, yes: bool, break_lock: bool) -> None:
    """Remove workers one by one; stops at the first failure."""
    deployment, cluster = _opened(files)
    machines = [worker_of(deployment, name) for name in names]
    client = _client(deployment)
    for machine in machines:
        made = plan_leaving(cluster, machine)
        _ask(made, client, cluster.name, yes=yes)
        _take_out(made, deployment, cluster, client, seconds, break_lock=break_lock)
        _note(files, machine, there=False)
        console.outcome(localized("node {name} removed", name=machine.name), name=machine.name)


def _ask(made: Membership, client: KubeClient, cluster: str, *, yes: bool) -> None:
    """Show the affected jobs and ask for confirmation; refuses if nothing would restart a pod."""
    name = made.machine.name
    pods = pods_to_move(client, name)
    refuse_lonely(pods, name)
    if made.harmed:
        jobs = jobs_in_words(made.harmed.items())
        console.warning(localized("jobs affected, by virtual cluster: {jobs}", jobs=jobs))
    if made.plan is None:
        console.info(localized("the configuration of {cluster} does not name {name}", cluster=cluster, name=name))
    question = "machine {name} will be removed from cluster {cluster} and cleaned; {count} pods move"
    confirm(localized(question, name=name, cluster=cluster, count=len(pods)), name, yes=yes)


def _take_out(
    made: Membership, deployment: Deployment, cluster: Cluster, client: KubeClient, seconds: float, *, break_lock: bool
) -> None:
    name = made.machine.name
    with (
        leaving(deployment, made.machine, runs_folder(), _now, break_lock=break_lock) as leave,
        holding(client, seconds, REMOVAL) as held,
    ):
        held.drain([name], _tell)
        version = change_configuration(cluster, made, f"without {name}")
        if version:
            console.info(localized("configuration version {version} is without {name}", version=version, name=name))
        leave(client, _tell)


def add(name: str, address: str | None, like: str | None, files: Files, *, accept_new: bool) -> None:
    """Let a worker join, and add it to the configuration."""
    deployment, cluster = _opened(files)
    machine = _machine(deployment, name, address)
    made = plan_joining(cluster, machine, like)
    few = limited(deployment, machine)
    if accept_new:
        accept_host_keys(few)
    desired = prepare(few)
    changed = join(desired, machine, runs_folder(), _now, PhaseLines())
    version = change_configuration(cluster, made, f"with {name}")
    if version:
        has = "configuration version {version} includes {name}; its cells are not promised to any VC yet"
        console.info(localized(has, version=version, name=name))
    _note(files, machine, there=True)
    end = "node {name} added" if changed or version else "node {name} already exists"
    console.outcome(localized(end, name=name), name=name)


def _machine(deployment: Deployment, name: str, address: str | None) -> Machine:
    """The machine of worker.csv, or a new one at an address."""
    known = next((machine for machine in deployment.machines if machine.name == name), None)
    if known is not None:
        if known.role is Role.MASTER or address not in (None, known.address):
            message = text(
                "{name} is {role} {address} in the lists", name=name, role=known.role.value, address=known.address
            )
            raise PaictlError(message, hint="nothing was done")
        return known
    if address is None:
        message = text("{name} is not in the list of workers", name=name)
        raise PaictlError(message, hint="write it there, or give --address ADDRESS")
    check_machine(name, address)
    taken = next((machine for machine in deployment.machines if machine.address == address), None)
    if taken is not None:
        raise PaictlError(text("{address} is already the address of {name}", address=address, name=taken.name))
    return Machine(name, address, Role.WORKER)


def _note(files: Files, machine: Machine, *, there: bool) -> None:
    note_in_list(Path(files.workers), machine, there=there)


def _tell(message: str, about: str = "") -> None:
    (console.warning if about else console.detail)(f"{about}: {in_words(message)}" if about else in_words(message))


def _now() -> datetime:
    return datetime.now(UTC)
