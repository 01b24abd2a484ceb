"""The other kind of cluster that labs have: one that was added by name (`paictl cluster add`), real machines and all.

As `embedded` it is known through `paictl.cluster.interface` only. Its clock cannot be set, its log cannot be replayed,
it cannot be put back to how it was, and others may work on it: a lab begins only where nobody does.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from paictl.cluster.interface import (
    Cluster,
    ConfigVersion,
    Event,
    JobView,
    NodeRole,
    NodeView,
    ServiceView,
)
from paictl.cluster.scheduling import JobExplanation
from paictl.cluster.targets import open_target
from paictl.lab.errors import LabError
from paictl.lab.manifest import Lab
from paictl.lab.site import Site, chosen_nodes, renamed
from paictl.units import rfc3339

ABLE: Final = frozenset({"02"})
"""Numbers of the labs that were tried there. The others need what only an embedded cluster has, or were not tried."""
NEEDED: Final = ("hivedscheduler", "frameworkcontroller")
"""Services without which no job runs."""


def require_able(lab: Lab) -> None:
    """Raise `LabError` if a lab is for an embedded cluster only."""
    if lab.number not in ABLE or not lab.has_cluster:
        raise LabError("needs-embedded", lab=lab.number)


def take(lab: Lab, name: str, user: str, pace: float) -> Site:
    """Make a cluster a lab's: its configuration is pushed, its services run.

    Raises `LabError` as `require_able` and `require_fit` do, before anything is changed.
    """
    require_able(lab)
    cluster, files = open_target(name), _files(lab)
    nodes = require_fit(lab, cluster)
    _push(cluster, lab, files, nodes)
    _serve(cluster)
    own = f"{user}-lab{lab.number}-{secrets.token_hex(2)}"
    return Site(name, cluster.name, own, pace, nodes, rfc3339(cluster.now))


def leave(site: Site) -> None:
    """Stop what a lab has running; its configuration stays until somebody pushes another one."""
    cluster = open_target(site.cluster)
    for job in cluster.jobs(ended=False):
        if job.key.startswith(f"{site.user}~"):
            cluster.stop_job(job.key)


def watched(site: Site) -> LabView:
    """What a lab sees of its cluster; raises `LabError` if another cluster has the name now."""
    cluster = open_target(site.cluster)
    if cluster.name != site.cluster_id:
        raise LabError("other-cluster", cluster=site.cluster, found=cluster.name, wanted=site.cluster_id)
    return LabView(cluster, site)


def require_fit(lab: Lab, cluster: Cluster) -> dict[str, str]:
    """The nodes of a cluster for a lab's workers; raises `LabError` if it is too small or jobs run there."""
    from paictl.cluster.machines import machines_in

    busy = [job.key for job in cluster.jobs(ended=False)]
    busy += [pod for node in cluster.nodes() for pod in node.pods]
    if busy:
        raise LabError("in-use", what=", ".join(busy[:5]), number=len(busy))
    return chosen_nodes(machines_in(_files(lab)), cluster.nodes())


def _files(lab: Lab) -> dict[str, str]:
    """The configuration with which the lab begins, as it is written."""
    from paictl.cluster.presets import DEFAULT, LAYOUT, SERVICES, preset_files

    if lab.layout is None:
        return preset_files(lab.preset or DEFAULT)
    files = {LAYOUT: (lab.folder / lab.layout).read_text(encoding="utf-8")}
    services = lab.folder / SERVICES
    return files | ({SERVICES: services.read_text(encoding="utf-8")} if services.is_file() else {})


def _push(cluster: Cluster, lab: Lab, files: Mapping[str, str], nodes: Mapping[str, str]) -> None:
    """Push the lab's layout and cells; what else the cluster's services are set to stays."""
    from paictl.operate.pushing.plan import Order, plan, send

    with tempfile.TemporaryDirectory(prefix="paictl-lab-") as folder:
        for name, text in _fitted(cluster, files, nodes).items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        order = Order(folder)
        made = plan(cluster, order)
        if made.changes:
            send(cluster, made, f"lab {lab.number}", order)


def _fitted(cluster: Cluster, files: Mapping[str, str], nodes: Mapping[str, str]) -> dict[str, str]:
    """A lab's files for the cluster's machines: names, addresses, and of the services' settings the scheduler's."""
    from paictl.cluster.machines import machines_in
    from paictl.cluster.presets import LAYOUT, SERVICES

    there = {view.machine.name: view.machine for view in cluster.nodes()}
    masters = sorted(name for name, one in there.items() if one.role is NodeRole.MASTER)
    words: dict[str, str] = dict(nodes)
    for machine in machines_in(files):
        if machine.role is NodeRole.MASTER and masters:
            words[machine.name] = masters.pop(0)
        found = there.get(words.get(machine.name, ""))
        if found is not None and found.address:
            words[machine.address] = found.address
    scheduler = files[SERVICES].partition("hivedscheduler:\n")[2]
    return {LAYOUT: renamed(files[LAYOUT], words), SERVICES: renamed(f"hivedscheduler:\n{scheduler}", words)}


def _serve(cluster: Cluster) -> None:
    """Let the services that a lab needs run by the configuration that was pushed."""
    from paictl.operate import services
    from paictl.service.plan import Action, ServiceRequest

    running = {view.name for view in cluster.services() if view.running}
    for action, names in (
        (Action.REFRESH, tuple(name for name in NEEDED if name in running)),
        (Action.START, tuple(name for name in NEEDED if name not in running)),
    ):
        if not names:
            continue
        request = ServiceRequest(action, names, with_prerequisites=action is Action.START)
        for outcome in services.perform(cluster, services.prepare(cluster, request)):
            if outcome.error is not None:
                raise outcome.error


@dataclass(frozen=True, slots=True)
class LabView:
    """A lab's part of a cluster, in the lab's own names and in its own time, which passes faster by its pace."""

    cluster: Cluster
    site: Site

    @property
    def name(self) -> str:
        """The cluster's id."""
        return self.cluster.name

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
        return [self._job(one) for one in self.cluster.jobs() if one.key.startswith(f"{self.site.user}~")]

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        return self._job(self.cluster.job(key))

    def nodes(self) -> Sequence[NodeView]:
        """The lab's nodes."""
        return [
            replace(one, machine=replace(one.machine, name=self.site.lab_name(one.machine.name)))
            for one in self.cluster.nodes()
            if one.machine.name in self.site.nodes.values()
        ]

    def services(self) -> Sequence[ServiceView]:
        """All services."""
        return self.cluster.services()

    def events(self) -> Sequence[Event]:
        """What has happened to the lab's jobs."""
        mine = (one for one in self.cluster.events() if one.subject.startswith(f"job/{self.site.user}~"))
        return [replace(one, at=self._at(one.at), data=self._placed(one.data)) for one in mine]

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions of the configuration."""
        return self.cluster.configurations()

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits."""
        return self.cluster.explain(key)

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
