"""The other kind of cluster that labs have: one that was added by name (`paictl cluster add`), real machines and all.

As `embedded` it is known through `paictl.cluster.interface` only. Its clock cannot be set, its log cannot be replayed,
it cannot be put back to how it was, and others may work on it: a lab begins only where nobody does. What a lab pushes
has the lab's mark as its message, so that the configuration of before is known whatever ended half way: the newest one
without such a mark. `LabView` is a lab's part of it: in the lab's names, and in its time.
"""

from __future__ import annotations

import re
import secrets
import shlex
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from paictl.cluster.interface import (
    Cluster,
    ConfigVersion,
    DeviceTime,
    Event,
    JobView,
    NodeRole,
    NodeView,
    ServiceView,
    Users,
)
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import LAYOUT, SERVICES
from paictl.cluster.scheduling import JobExplanation
from paictl.cluster.targets import open_target, targets
from paictl.frozen import frozen
from paictl.lab.initial import initial_files
from paictl.lab.manifest import Lab
from paictl.lab.messages import LabError
from paictl.lab.site import LabSite, chosen_nodes, renamed
from paictl.operate import services
from paictl.operate.pushing.plan import PushRequest, newest, plan, plan_rollback, send
from paictl.service.plan import Action, ServiceRequest
from paictl.units import rfc3339


@frozen
class LabView:
    """A lab's part of a cluster, in the lab's own names and in its own time, which passes faster by its pace."""

    cluster: Cluster
    site: LabSite

    @property
    def name(self) -> str:
        """What the lab calls its cluster."""
        return f"lab{self.site.lab}"

    @property
    def users(self) -> Users:
        """All accounts."""
        return self.cluster.users

    @property
    def now(self) -> datetime:
        """The instant in the lab."""
        return self._at(self.cluster.now)

    @property
    def epoch(self) -> datetime:
        """When the lab began."""
        return self.site.beginning

    def jobs(self) -> Sequence[JobView]:
        """The lab's jobs, without tasks."""
        return [self._job(job) for job in self.cluster.jobs() if job.key.startswith(f"{self.site.user}~")]

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        return self._job(self.cluster.job(key))

    def nodes(self) -> Sequence[NodeView]:
        """The lab's nodes."""
        return [
            replace(node, machine=replace(node.machine, name=self.site.lab_name(node.machine.name)))
            for node in self.cluster.nodes()
            if node.machine.name in self.site.nodes.values()
        ]

    def services(self) -> Sequence[ServiceView]:
        """All services."""
        return self.cluster.services()

    def events(self) -> Sequence[Event]:
        """What has happened to the lab's jobs."""
        mine = (event for event in self.cluster.events() if event.subject.startswith(f"job/{self.site.user}~"))
        return [replace(event, at=self._at(event.at), data=self._placed(event.data)) for event in mine]

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions of the configuration."""
        return self.cluster.configurations()

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits."""
        return self.cluster.explain(key)

    def usage(self, start: datetime, end: datetime) -> DeviceTime:
        """Who used which devices in a span of time."""
        return self.cluster.usage(start, end)

    def _at(self, at: datetime) -> datetime:
        return self.epoch + (at - self.epoch) * self.site.pace

    def _job(self, job: JobView) -> JobView:
        return replace(
            job,
            submitted=self._at(job.submitted),
            started=None if job.started is None else self._at(job.started),
            ended=None if job.ended is None else self._at(job.ended),
            tasks=tuple(replace(task, node=self.site.lab_name(task.node)) for task in job.tasks),
        )

    def _placed(self, data: Mapping[str, object]) -> dict[str, object]:
        node = data.get("node")
        return {**data, "node": self.site.lab_name(node)} if isinstance(node, str) else dict(data)


ABLE: Final = frozenset({"01", "02", "03", "04", "05", "06", "07"})
"""Numbers of the labs that were tried there. The others need what only an embedded cluster has, or were not tried."""
NEEDED: Final = frozenset({"hivedscheduler", "frameworkcontroller"})
"""Services without which no job runs."""
READERS: Final = NEEDED | {"rest-server"}
"""Services that go by the cells."""
_LOOKS, _NAP = 40, 0.5
"""How many times to check that pods are gone, and seconds in between."""
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_.-]")
"""What the name of a user of a cluster cannot have, though that of this machine's may."""
_MARK: Final = re.compile(r"lab [0-9]{2} \(\S+\)")
"""What messages of versions begin with that a lab has pushed; see `LabSite.mark`."""


def require_able(lab: Lab) -> None:
    """Raise `LabError` if a lab is for an embedded cluster only, or for none."""
    if lab.number not in ABLE:
        why = "needs-embedded" if lab.has_cluster else "begins-without"
        raise LabError(why, lab=lab.number, able=", ".join(sorted(ABLE)))


def require_fit(lab: Lab, cluster: Cluster) -> dict[str, str]:
    """The nodes of a cluster for a lab's workers; raises `LabError` if it lacks something or jobs run there."""
    nodes = cluster.nodes()
    if not (lab.has_cluster or _masters(nodes)):
        raise LabError("no-master", lab=lab.number)
    busy = [job.key for job in cluster.jobs(ended=False)]
    busy += [pod for node in nodes for pod in node.pods]
    if busy:
        raise LabError("in-use", what=", ".join(busy[:5]), number=len(busy))
    machines = _machines(newest(cluster))
    listed = [node for node in nodes if not machines or node.machine.name in machines]
    return chosen_nodes(machines_in(initial_files(lab)), listed)


def take(lab: Lab, name: str, user: str, pace: float) -> LabSite:
    """Make a cluster a lab's: its configuration is pushed, its services run.

    Raises `LabError` as `require_able` and `require_fit` do, before anything is changed; where a service does not
    start, the configuration of before is given back.
    """
    require_able(lab)
    cluster = open_target(name)
    nodes, addresses = _words(cluster, initial_files(lab), require_fit(lab, cluster))
    running = tuple(view.name for view in cluster.services() if view.running)
    own = f"{_STRANGE.sub('-', user)[:40]}-lab{lab.number}-{secrets.token_hex(2)}"
    site = LabSite(name, cluster.name, own, pace, nodes, rfc3339(cluster.now), running, addresses=addresses)
    try:
        _push(cluster, lab, site)
        _perform(cluster, Action.REFRESH, READERS & {*running})
        _perform(cluster, Action.START, (NEEDED | _named(lab)) - {*running})
    except BaseException:
        _give_back(cluster, site)
        raise
    return replace(site, version=cluster.configuration().number)


def leave(site: LabSite) -> None:
    """Stop what a lab has running, give the configuration of before back, and start what the student has stopped.

    What others have pushed since then stays. Nothing is left to do on a cluster whose name was removed.
    """
    if site.cluster not in targets():
        return
    cluster = _opened(site)
    _give_back(cluster, site)
    running = {view.name for view in cluster.services() if view.running}
    _perform(cluster, Action.START, {*site.services} - running)
    for job in cluster.jobs(ended=False):
        if job.key.startswith(f"{site.user}~"):
            cluster.stop_job(job.key)
    _perform(cluster, Action.REFRESH, READERS & running)
    _await_room(cluster, site)


def _await_room(cluster: Cluster, site: LabSite) -> None:
    """Wait until the pods of a lab's jobs have gone, for a while: who begins anew would find them in the way."""
    for _ in range(_LOOKS):
        if not any(node.pods for node in cluster.nodes() if node.machine.name in site.nodes.values()):
            return
        time.sleep(_NAP)


def watched(site: LabSite) -> LabView:
    """What a lab sees of its cluster; raises `LabError` if another cluster has the name now."""
    return LabView(_opened(site), site)


def _opened(site: LabSite) -> Cluster:
    cluster = open_target(site.cluster)
    if cluster.name != site.cluster_id:
        raise LabError("other-cluster", cluster=site.cluster, found=cluster.name, wanted=site.cluster_id)
    return cluster


def _named(lab: Lab) -> frozenset[str]:
    """The services that the lab's steps stop and start."""
    lines = (shlex.split(line) for step in lab.steps for line in step.done_by(step.solution))
    service_lines = (line for line in lines if line[1:2] == ["service"])
    return frozenset(name for line in service_lines for flag, name in pairwise(line) if flag == "-n")


# --- configuration


def _machines(version: ConfigVersion | None) -> set[str]:
    """The machines that a configuration lists."""
    files = version.files if version is not None else {}
    return {machine.name for machine in machines_in(files)} if LAYOUT in files else set()


def _push(cluster: Cluster, lab: Lab, site: LabSite) -> None:
    """Push the lab's cells, and its layout where there is none; what else the cluster's services are set to stays."""
    with tempfile.TemporaryDirectory(prefix="paictl-lab-") as folder:
        for name, text in _fitted(cluster, initial_files(lab), site.words).items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        order = PushRequest(folder)
        push_plan = plan(cluster, order)
        if push_plan.changes:
            send(cluster, push_plan, site.mark, order, keep_grants=True)


def _masters(nodes: Iterable[NodeView]) -> list[str]:
    return sorted(view.machine.name for view in nodes if view.machine.role is NodeRole.MASTER)


def _words(
    cluster: Cluster, files: Mapping[str, str], workers: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The lab's names of its machines and those there, masters too so far as there are any; and their addresses."""
    nodes, mine = cluster.nodes(), machines_in(files)
    masters = [spec.name for spec in mine if spec.role is NodeRole.MASTER]
    names = {**workers, **dict(zip(masters, _masters(nodes), strict=False))}
    there = {view.machine.name: view.machine.address for view in nodes}
    addresses = {spec.address: there.get(names.get(spec.name, ""), "") for spec in mine}
    return names, {name: address for name, address in addresses.items() if address}


def _fitted(cluster: Cluster, files: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    """A lab's files for the cluster's machines, and of the services' settings the scheduler's.

    A cluster's own list of machines is never replaced: it has those of the lab all the same (`require_fit`).
    """
    scheduler = files[SERVICES].partition("hivedscheduler:\n")[2]
    fitted = {SERVICES: renamed(f"hivedscheduler:\n{scheduler}", words)}
    return fitted if _machines(newest(cluster)) else {LAYOUT: renamed(files[LAYOUT], words), **fitted}


def _give_back(cluster: Cluster, site: LabSite) -> None:
    """Store the newest configuration that no lab has pushed again, if the newest of all is this lab's."""
    versions = cluster.configurations()
    before = [version for version in versions if not _MARK.match(version.message)]
    if before and versions[-1].message.startswith(site.mark):
        rollback = plan_rollback(cluster, before[-1].number)
        send(cluster, rollback, f"as before {site.mark}", keep_grants=True)


def _perform(cluster: Cluster, action: Action, names: Iterable[str]) -> None:
    """Do something to services and wait for it; nothing without names. Raises what kept one of them from it."""
    chosen = tuple(sorted(names))
    if not chosen:
        return
    request = ServiceRequest(action, chosen, with_prerequisites=action is Action.START)
    for outcome in services.perform(cluster, services.prepare(cluster, request)):
        if outcome.error is not None:
            raise outcome.error
