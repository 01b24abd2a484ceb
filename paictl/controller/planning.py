"""The first look at a job: what its pods ask the scheduler for, by the configuration that was pushed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.kubernetes.paijob.record import JobRecord
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.store import VersionStore
from paictl.cluster.values import ClusterError
from paictl.remote.kube.client import KubeClient
from paictl.workload import lifecycle
from paictl.workload.pods import JobPlan, plan_job


class Planner:
    """Plans jobs by the newest configuration of a cluster, which is read again only when it has changed."""

    def __init__(self, client: KubeClient) -> None:
        self._store = VersionStore(client)
        self._known: ConfigSnapshot | None = None
        self._lock = threading.Lock()

    def record(self, pai: PaiJob) -> JobRecord:
        """The record with which a job begins.

        Raises `JobError` for one that cannot be planned, `ClusterError` if there is no configuration to plan by.
        """
        configuration = self._configuration()
        job = configuration.sharing.run_times.limited(pai.job)
        plan = plan_job(job, configuration.supply, pai.user)
        devices = sum(group.leaves for group in plan.groups.values())
        status = lifecycle.submit(job).status
        return JobRecord(status, scheduling_of(plan), devices, max_run_time=job.max_run_time)

    def _configuration(self) -> ConfigSnapshot:
        with self._lock:
            head = self._store.head()
            if head is None or not head.newest:
                raise ClusterError("no configuration has been pushed yet", hint="paictl config push -p DIR")
            if self._known is None or self._known.number != head.newest:
                version = self._store.version(head.newest)
                self._known = ConfigSnapshot(version.number, version.files)
            return self._known


def scheduling_of(plan: JobPlan) -> Mapping[str, Mapping[str, Any]]:
    """HiveD's spec for the pods of each role: the same for all of them."""
    first = {pod.role: pod for pod in reversed(plan.pods)}
    return {role: plan.spec(pod) for role, pod in sorted(first.items())}
