"""Policies that order waiting jobs and never preempt: fifo, backfill, sjf, quota, and what they share.

`quota` promises devices anywhere in the cluster: the baseline to which HiveD's paper compares cells.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Hashable
from heapq import heappop, heappush

from paictl.sim.actions import Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.base import Placer
from paictl.sim.placement.count import BestFit
from paictl.sim.policies.base import Policy, Setup
from paictl.sim.view import JobView

Key = int | float | tuple[int | float, ...]


class Queue(Policy):
    """Starts waiting jobs by (key, submit, row) and skips those for which there is no place.

    Jobs wait in heaps by size and placement group: if the first of a heap does not fit, no other of the heap does, so
    a decision looks at one job of each size, however many wait.
    """

    endures = True

    @abstractmethod
    def key(self, job: JobView, /) -> Key:
        """The sort key of a waiting job; the lowest goes first."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type] # as Policy takes them
        self._waiting: dict[tuple[int, Hashable], list[tuple[Key, int, JobView]]] = {}

    def plan(self, moment: Trigger) -> None:
        """Start every job for which there is room, in order."""
        for job in moment.arrived:
            heap = self._waiting.setdefault((job.gpus, self.placement.group(job)), [])
            heappush(heap, (self.key(job), job.number, job))
        stuck: set[tuple[int, Hashable]] = set()
        while (group := self._first(stuck)) is not None:
            heap = self._waiting[group]
            if self.start(heap[0][2]):
                heappop(heap)
                if not heap:
                    del self._waiting[group]
            else:
                stuck.add(group)

    def _first(self, stuck: set[tuple[int, Hashable]]) -> tuple[int, Hashable] | None:
        """The group whose first job is next, among those not in `stuck`."""
        free = self.placement.free
        best: tuple[Key, int, JobView] | None = None
        chosen = None
        for group, heap in self._waiting.items():
            if group[0] <= free and group not in stuck and (best is None or heap[0] < best):
                best, chosen = heap[0], group
        return chosen


class Fifo(Policy):
    """Jobs start in the order of (submission, row). The first job without a place blocks all later ones.

    With `placement=consolidate` it is what Tiresias' paper calls "YARN-CS". Example: `fifo:placement=consolidate`.
    """

    id = "fifo"
    title = "first in, first out; the head of the line blocks"
    paper = "Tiresias (NSDI'19) §6, baseline; simulator SymbioticLab/Tiresias@959f9b0 `--schedule=fifo`"
    endures = True

    def __init__(self, parameters: object, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._line: deque[JobView] = deque()

    def plan(self, moment: Trigger) -> None:
        """Start from the head of the line until it does not fit."""
        self._line.extend(moment.arrived)
        while self._line and self._line[0].gpus <= self.placement.free and self.start(self._line[0]):
            self._line.popleft()


class Backfill(Queue):
    """Waiting jobs are tried in the order of (submission, row of the trace). Each starts if there is a place for it.

    Nothing is reserved for waiting jobs, so large jobs can starve (unlike EASY backfill, which knows durations). With
    `placement=consolidate` it is what Tiresias' paper calls "best-effort". Example: `backfill`.
    """

    id = "backfill"
    title = "first in, first out; jobs that fit overtake"
    paper = "Tiresias (NSDI'19) §6, baseline; simulator SymbioticLab/Tiresias@959f9b0 `--schedule=fjf`"

    def key(self, _: JobView, /) -> int:
        """The same for all jobs: they go by the order of arrival."""
        return 0


class Sjf(Queue):
    """Waiting jobs are tried by run time, shortest first, and start if there is a place. Running jobs keep running.
    Example: `sjf`."""

    id = "sjf"
    title = "shortest job first, no preemption"
    paper = "textbook; as a baseline in Tiresias (NSDI'19)"
    knows = frozenset({Knowledge.DURATION})
    choices = ("a job that does not fit is skipped, as in all policies of Tiresias' simulator except fifo",)

    def key(self, job: JobView, /) -> int:
        """The job's work, in milliseconds at the reference."""
        return job.work


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
