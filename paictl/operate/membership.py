"""Which machines a real cluster has, how they are reached, and what joining and leaving mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from paictl.cluster.interface import Cluster, ConfigVersion, Nodes
from paictl.config.models.layout import layout_of
from paictl.config.pushing.machines import csv_with, csv_without, with_machine, without_machine
from paictl.config.quotas.diff import broken
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode, PaictlError
from paictl.files import write_together
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.operate.pushing.plan import PushPlan, newest, plan_of, send
from paictl.remote.inventory import Host, Inventory, Login


@frozen
class Membership:
    """A machine that comes or goes; `plan` is the change of the configuration, None where it needs none."""

    machine: Machine
    plan: PushPlan | None

    @property
    def harmed(self) -> dict[str, int]:
        """Jobs that the change would harm, counted by virtual cluster."""
        counts: dict[str, int] = {}
        for impact in self.plan.harmed if self.plan else ():
            counts[impact.vc] = counts.get(impact.vc, 0) + 1
        return counts


def worker_of(deployment: Deployment, name: str) -> Machine:
    """The worker of a name; raises `PaictlError` where there is none, or it is a master."""
    machine = next((machine for machine in deployment.machines if machine.name == name), None)
    if machine is None:
        raise PaictlError(text("no machine {name} in the worker list", name=name))
    if machine.role is Role.MASTER:
        message = text("{name} is a master: masters cannot be added or removed", name=name)
        raise PaictlError(message, hint="only workers can be added and removed")
    return machine


def plan_leaving(cluster: Cluster, machine: Machine) -> Membership:
    """A worker leaves; raises `DeployError` naming the promises that would break."""
    now = newest(cluster)
    if now is None:
        return Membership(machine, None)
    after = without_machine(now.files, machine.name)
    _refuse_broken(now, after, machine.name)
    return Membership(machine, _plan(cluster, now, after))


def _refuse_broken(now: ConfigVersion, after: dict[str, str], name: str) -> None:
    breaches = broken(now.files, after)
    if breaches:
        message = text(
            "removing {name} would break promises: {what}",
            name=name,
            what="; ".join(str(breach.words) for breach in breaches),
        )
        hint = "lower the quota first: paictl config pull -o DIR, edit virtualClusters, paictl config push -p DIR"
        raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)


def plan_joining(cluster: Cluster, machine: Machine, like: str | None) -> Membership:
    """A worker joins with what `like` has; where all workers are of one kind, any of them can be meant.

    Raises `PaictlError` if it is not clear what the machine has.
    """
    now = newest(cluster)
    if now is None:
        return Membership(machine, None)
    model = like or _any_worker(now, machine.name)
    if model is None:
        return Membership(machine, None)
    return Membership(machine, _plan(cluster, now, with_machine(now.files, machine.name, machine.address, model)))


def _any_worker(now: ConfigVersion, name: str) -> str | None:
    """A worker of the layout that stands for all; None where there is no layout, or the machine is in it."""
    loaded = load_memory(now.files)
    layouts = [layout_of(document) for document in loaded.documents if document.kind is FileKind.LAYOUT]
    workers = [entry for layout in layouts for entry in layout.with_role("pai-worker")]
    same = [worker.key for worker in workers if worker.key == name]
    if same or not layouts:
        return same[0] if same else None
    if len({worker.sku.text for worker in workers if worker.sku}) != 1:
        raise PaictlError("there are several kinds of machines: name a node like the new one", hint="--like NODE")
    return workers[-1].key


def _plan(cluster: Cluster, now: ConfigVersion, after: dict[str, str]) -> PushPlan | None:
    return plan_of(cluster, now, after) if after != dict(now.files) else None


def change_configuration(cluster: Cluster, membership: Membership, message: str) -> int | None:
    """Store the new configuration, and let the services that read it load it; the version's number.

    Raises `ConflictError` if the configuration was changed since the plan was made.
    """
    if membership.plan is None:
        return None
    version = send(cluster, membership.plan, message)
    for name in membership.plan.readers.to_refresh:
        cluster.refresh_service(name)
    return version.number


def note_in_list(path: Path, machine: Machine, *, there: bool) -> None:
    """Write a worker into the site's worker.csv, or strike it off."""
    before = path.read_text(encoding="utf-8")
    after = csv_with(before, machine.name, machine.address) if there else csv_without(before, machine.name)
    if after != before:
        write_together(path.parent, {path.name: after}, force=True, mode=path.stat().st_mode & 0o777)


def jobs_in_words(harmed: Iterable[tuple[str, int]]) -> str:
    """Jobs by virtual cluster for people: ``default 2, vision 1``."""
    return ", ".join(f"{vc} {count}" for vc, count in harmed)


def hosts_of_cluster(cluster: Nodes, login: Login, user: str, port: int = 22) -> Inventory:
    """All nodes of a cluster by their addresses; raises `PaictlError` where there is none."""
    hosts = tuple(Host(node.machine.name, node.machine.address, user, port) for node in cluster.nodes())
    if not hosts:
        raise PaictlError("the cluster has no nodes")
    return Inventory(hosts, login)


def chosen(inventory: Inventory, patterns: Sequence[str]) -> Inventory:
    """The hosts that names or patterns (``gpu-*``) say, in the order of the inventory; all of them without any.

    Raises `PaictlError` for a word that means no host.
    """
    names = [host.name for host in inventory]
    matched: set[str] = set()
    for pattern in patterns:
        matches = {name for name in names if fnmatchcase(name, pattern)}
        if not matches:
            hint = did_you_mean(pattern, names) or text("known hosts: {names}", names=", ".join(names[:8]))
            raise PaictlError(text("no host {name!r}", name=pattern), hint=hint)
        matched |= matches
    return inventory.only([name for name in names if name in matched]) if patterns else inventory
