"""Quotas of devices anywhere in the cluster: the baseline to which HiveD's paper compares cells."""

from __future__ import annotations

from paictl.sim.actions import Start
from paictl.sim.cluster import Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.count import BestFit
from paictl.sim.policies.base import Setup
from paictl.sim.policies.queue import Queue
from paictl.sim.view import JobView


class Quota(Queue):
    """A tenant may use as many devices as it is promised, on any node. Jobs start in the order of arrival, and jobs
    that fit overtake. Nothing is preempted, and idle quota is not lent.

    If devices of several types are promised, all devices of a job have the same type. Tenants and quotas come from
    the cluster (a HiveD configuration, or `quotas:` in a cluster file). Without quotas, every tenant may use all
    devices. Example: `quota`.
    """

    id = "quota"
    title = "devices promised by number, on any node; idle quota is not lent"
    paper = "HiveD (OSDI'20) §2, the quota-only baseline"
    choices = (
        "each pod goes to the fullest node with room; a placement with more fragmentation would make cells look "
        "better than they are",
        "a job of a tenant without a promise never starts",
    )

    def __init__(self, parameters: object, setup: Setup) -> None:
        super().__init__(parameters, setup)
        spec = setup.cluster.spec
        self._unused: dict[str, dict[str | None, int]] = {
            vc: dict(spec.quotas_by_type.get(vc, {}).items()) or {None: most} for vc, most in spec.quotas.items()
        }
        """By tenant, the unused devices of its quota: by device type, or under None if any type will do."""

    def make_placement(self) -> Placer:
        """Best fit, whatever `placement=` says."""
        self.nodes = BestFit(self.cluster)
        return self.nodes

    def key(self, _: JobView, /) -> int:
        """The same for all jobs: they go by the order of arrival."""
        return 0

    def start(self, job: JobView, number: int | None = None) -> bool:
        """Start a job if its tenant's unused quota covers it and there is a place."""
        if not self._unused:
            return super().start(job, number)
        unused = self._unused.get(job.vc, {})
        for kind in unused:
            if unused[kind] >= job.gpus and (kind is None or job.gpu_type in (None, kind)):
                devices = self.nodes.take_of(kind or job.gpu_type, job, job.gpus)
                if devices is not None:
                    unused[kind] -= job.gpus
                    self.hold(job, devices)
                    self.act(Start(job, devices))
                    return True
        return False

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Return the devices to the tenant's quota."""
        super().ended(job, devices)
        if self._unused and devices:
            unused, kind = self._unused[job.vc], self.cluster.type_of[devices[0]]
            unused[kind if kind in unused else None] += job.gpus
