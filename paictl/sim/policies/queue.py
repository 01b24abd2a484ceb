"""Policies that order those who wait and never take anything away: fifo, backfill, sjf, quota, and what they share.

`quota` is a promise of devices anywhere: what HiveD's paper compares cells with.
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
    """Starts waiting jobs by (key, submit, row), passing over those for which there is no place.

    Jobs wait in heaps by size and placement group: where the first of a heap finds no place, nobody behind it does, so
    a decision looks at one job of each size however many wait.
    """

    endures = True

    @abstractmethod
    def key(self, job: JobView, /) -> Key:
        """Lower goes first."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type] # as Policy takes them
        self._waiting: dict[tuple[int, Hashable], list[tuple[Key, int, JobView]]] = {}

    def plan(self, moment: Trigger) -> None:
        """Start whom there is room for."""
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
        """The group whose first job goes next."""
        free = self.placement.free
        best: tuple[Key, int, JobView] | None = None
        found = None
        for group, heap in self._waiting.items():
            if group[0] <= free and group not in stuck and (best is None or heap[0] < best):
                best, found = heap[0], group
        return found


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
        """From the head of the line, until there is no room for it."""
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
        """None beside the order of arrival."""
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
        """Its run time."""
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
        self._left: dict[str, dict[str | None, int]] = {
            vc: dict(spec.quotas_by_type.get(vc, {}).items()) or {None: most} for vc, most in spec.quotas.items()
        }
        """Of each tenant's promise, what it does not use: by device type, or under None where any type will do."""

    def make_placement(self) -> Placer:
        """Best fit, whatever `placement=` says."""
        self.nodes = BestFit(self.cluster)
        return self.nodes

    def key(self, _: JobView, /) -> int:
        """None beside the order of arrival."""
        return 0

    def start(self, job: JobView, number: int | None = None) -> bool:
        """Start it if its tenant has so many left and there is a place."""
        if not self._left:
            return super().start(job, number)
        left = self._left.get(job.vc, {})
        for kind in left:
            if left[kind] >= job.gpus and (kind is None or job.gpu_type in (None, kind)):
                devices = self.nodes.take_of(kind or job.gpu_type, job, job.gpus)
                if devices is not None:
                    left[kind] -= job.gpus
                    self.hold(job, devices)
                    self.act(Start(job, devices))
                    return True
        return False

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Its tenant has them back."""
        super().ended(job, devices)
        if self._left and devices:
            left, kind = self._left[job.vc], self.cluster.type_of[devices[0]]
            left[kind if kind in left else None] += job.gpus
