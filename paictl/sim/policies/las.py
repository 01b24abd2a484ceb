"""Least attained service, in queues: Tiresias-L, with its placement (consolidation where it helps) and without it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Literal

from paictl.frozen import frozen
from paictl.sim.actions import Trigger
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.base import Placer
from paictl.sim.placement.consolidate import Skew
from paictl.sim.policies.base import Parameters, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.policies.queue import Key
from paictl.sim.policies.ranked import Entry, Ranked
from paictl.sim.view import JobView
from paictl.units import Millis


@frozen
class LasParameters(Parameters):
    """Thresholds and promotion."""

    queues: tuple[Span, ...] = parameter(
        (Span(3_200_000),), "thresholds of service between queues, device-seconds", 0.001
    )
    dimension: Literal[1, 2] = parameter(2, "service: time x devices (2) or time alone (1)")
    knob: float = parameter(
        math.inf, "a job that has waited knob times its run time returns to the first queue", most=math.inf
    )
    promote: Literal["reset", "total", "never"] = parameter(
        "total",
        "run time for the knob: in total, as in the published simulator, or since the last promotion (reset); "
        "never: no knob",
    )
    order: Literal["start", "running", "entry"] = parameter(
        "start",
        "order within a queue: by first start (the paper's text), running jobs before waiting ones (its simulator), or "
        "by when jobs entered the queue (entry; Pollux' simulator)",
    )
    quantum: Span = parameter(Span(0), "interval at which changes of queue take effect; 0: at once")


class Las(Ranked):
    """Jobs move to lower queues as they attain service. Queues are served in order; jobs that do not fit are skipped.
    Within a queue, jobs are ordered by first start, then jobs that never ran, by submission; with `order=running`,
    running jobs before waiting ones; with `order=entry`, by when they entered the queue.

    Example: `las:queues=3250/7200,knob=8`.
    """

    id = "las"
    title = "least attained service in queues (Tiresias-L): no prior knowledge"
    paper = "Tiresias (NSDI'19) §3.2; defaults of its testbed: 2 queues, 3,200 GPU-seconds, no promotion"
    choices: tuple[str, ...] = (
        "service counts while a job holds devices, including the cost of its start",
        "a promoted job's service restarts at zero, and its place in the first queue counts from the promotion",
        "the knob counts a job's total run time (`promote=total`): the published simulator does this, and its "
        "figures (2 queues, knob 2 and 8) are matched within 1 %; the paper's text resets it (`promote=reset`), "
        "which makes mean JCT worse",
        "the waiting time for a promotion is the time since a job last held devices",
        "within a queue, the paper orders jobs by their first start; its simulator, and so every figure published "
        "on its traces, puts running jobs before waiting ones (`order=running`)",
        "Pollux' simulator serves a queue in the order in which jobs entered it (`order=entry`): a job that lost its "
        "devices keeps its turn, and one that falls into a lower queue goes last there",
        "running jobs stay where they are; Tiresias' simulator places all jobs again at each event",
    )
    Parameters = LasParameters

    def __init__(self, parameters: LasParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.limits = sorted(parameters.queues)
        self._queue: dict[int, int] = {}
        """By job, its queue."""
        self._entered: dict[int, Millis] = {}
        """By job, when it entered that queue."""
        self._from: dict[int, tuple[int, int, Millis]] = {}
        """By promoted job: service and time that no longer count, and when it was promoted."""
        self._timers: list[tuple[Millis, int, JobView]] = []
        self._timer: dict[int, Millis] = {}
        """By job, when it crosses a threshold or is promoted; other entries of the heap are void."""

    # --- keys

    def key(self, job: JobView, *, runs: bool) -> Key:
        """(queue, whether it waits if `order=running`, first start or entry)."""
        if self.p.order == "entry":
            return self._queue[job.number], False, self._entered[job.number]
        first = self._from[job.number][2] if job.number in self._from else job.first_start
        behind = self.p.order == "running" and not runs
        return self._queue[job.number], behind, math.inf if first is None else first

    def from_last(self, _: Hashable, row: list[Entry], /) -> Iterator[Entry]:
        """The row itself is sorted, since keys change only at timers."""
        return reversed(row)

    def service(self, job: JobView) -> int:
        """The service that decides its queue, in (device-)milliseconds."""
        attained = job.attained(self.now) if self.p.dimension == 2 else job.ran(self.now)
        return attained - self._from.get(job.number, _NOTHING)[0]

    def queue_of(self, job: JobView) -> int:
        """The queue of a job, from 0."""
        return bisect_right(self.limits, self.service(job))

    # --- events

    def note(self, moment: Trigger) -> None:
        """Also move jobs that have crossed a threshold, and promote those that have waited long enough."""
        for job in moment.arrived:
            self._enter(job, 0)
        super().note(moment)
        for job in moment.ended:
            del self._queue[job.number], self._entered[job.number]
            self._from.pop(job.number, None)
            self._timer.pop(job.number, None)
        while self._timers and self._timers[0][0] <= self.now:
            at, number, job = heappop(self._timers)
            if self._timer.get(number) == at:
                del self._timer[number]
                self._cross(job) if job.running else self._promote(job)

    def _cross(self, job: JobView) -> None:
        self.strike(job)
        self._enter(job, self.queue_of(job))
        self.enlist(job)
        self.began(job)

    def _promote(self, job: JobView) -> None:
        self.dequeue(job, self.key(job, runs=False))
        attained = job.attained(self.now) if self.p.dimension == 2 else job.ran(self.now)
        self._from[job.number] = attained, 0 if self.p.promote == "total" else job.ran(self.now), self.now
        self._enter(job, 0)
        self.enqueue(job)

    def _enter(self, job: JobView, queue: int) -> None:
        self._queue[job.number] = queue
        self._entered[job.number] = self.now

    def began(self, job: JobView, /) -> None:
        """Set a timer for the time at which the job will cross the next threshold."""
        self._timer.pop(job.number, None)
        queue = self._queue[job.number]
        if queue < len(self.limits):
            pace = job.gpus if self.p.dimension == 2 else 1
            missing = self.limits[queue] - self.service(job)
            self._set(job, self.now - (-missing // pace))

    def stopped(self, job: JobView, /) -> None:
        """Set a timer for the promotion, after `knob` times the job's run time."""
        self._timer.pop(job.number, None)
        if self.p.promote != "never" and math.isfinite(self.p.knob) and self._queue[job.number]:
            ran = job.ran(self.now) - self._from.get(job.number, _NOTHING)[1]
            self._set(job, self.now + max(1, math.ceil(self.p.knob * ran)))

    def _set(self, job: JobView, at: int) -> None:
        if quantum := self.p.quantum:
            at = -(-at // quantum) * quantum
        self._timer[job.number] = Millis(at)
        heappush(self._timers, (Millis(at), job.number, job))

    def wake(self) -> Millis | None:
        """The next timer."""
        timers = self._timers
        while timers and self._timer.get(timers[0][1]) != timers[0][0]:
            heappop(timers)
        return timers[0][0] if timers else None


_NOTHING = (0, 0, Millis(0))


@frozen
class TiresiasParameters(LasParameters):
    """As `las`, and who must be consolidated."""

    placement: Literal["skew", "count", "consolidate"] = parameter(  # type: ignore[assignment] # one more
        "skew", "skew (consolidates models above packlimit; others fill fragments), count, consolidate"
    )
    packlimit: float = parameter(0.4, "skew (largest tensor by model size) above which a job is consolidated", most=1)


class Tiresias(Las):
    """`las` with placement by the skew of the model, which a profiler measures. Example: `tiresias:packlimit=0.3`."""

    id = "tiresias"
    title = "least attained service, models with one large tensor consolidated"
    paper = "Tiresias (NSDI'19) §3.2, §3.3"
    knows = frozenset({Knowledge.SKEW})
    choices = (
        *Las.choices,
        "packlimit is 0.4: any value between 0.15 and 0.6 divides the paper's models in the same way",
        "a job without a place is skipped, and no job is preempted for it in vain",
    )
    Parameters = TiresiasParameters

    def make_placement(self) -> Placer:
        """By skew unless told otherwise."""
        if self.p.placement == "skew":
            return Skew(self.cluster, self.p.packlimit)
        return super().make_placement()
