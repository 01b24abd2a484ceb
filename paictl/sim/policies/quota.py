"""A promise of devices anywhere: what HiveD's paper compares cells with."""

from __future__ import annotations

from paictl.sim.cluster import Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.best_fit import BestFit
from paictl.sim.policies.base import Setup
from paictl.sim.policies.queue import Queue
from paictl.sim.view import JobView


class Quota(Queue):
    """A tenant may use as many devices as it is promised, on any node; jobs start in the order of arrival, and whoever
    fits overtakes. Nothing is preempted, idle quota is not lent.

    Tenants and quotas are those of the cluster (a HiveD configuration, or `quotas:` of a cluster file); where it has
    none, everybody may use everything. Example: `quota`.
    """

    id = "quota"
    title = "devices promised by number, on any node; idle quota is not lent"
    paper = "HiveD (OSDI'20) §2, the quota-only baseline"
    choices = (
        "each pod goes to the fullest node that has room; a placement that leaves more fragments would flatter cells",
        "a job of a tenant that is promised nothing never starts",
    )

    def __init__(self, parameters: object, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._left = dict(setup.cluster.spec.quotas)
        self._limited = bool(self._left)

    def make_placement(self) -> Placer:
        """Best fit, whatever `placement=` says."""
        return BestFit(self.cluster)

    def key(self, _: JobView, /) -> int:
        """None beside the order of arrival."""
        return 0

    def start(self, job: JobView, number: int | None = None) -> bool:
        """Start it if its tenant has so many left and there is a place."""
        if not self._limited:
            return super().start(job, number)
        if job.gpus > self._left.get(job.vc, 0) or not super().start(job, number):
            return False
        self._left[job.vc] -= job.gpus
        return True

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Its tenant has them back."""
        super().ended(job, devices)
        if self._limited and devices:
            self._left[job.vc] += job.gpus
