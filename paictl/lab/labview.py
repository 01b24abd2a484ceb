"""A lab's part of a cluster that is not its own: in the lab's names, and in its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from paictl.cluster.interface import Cluster, ConfigVersion, DeviceTime, Event, JobView, NodeView, ServiceView, Users
from paictl.cluster.scheduling import JobExplanation
from paictl.frozen import frozen
from paictl.lab.site import LabSite


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
