"""Defragmentation for `hived`: moves are planned by the same code as on a cluster, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from paictl.scheduler.defrag import NoRoom, RoomPlan, RoomRequest, RunningGang, find_room, room_of, weight_of
from paictl.units import Millis
from paictl.workload.preemption import lost_time

if TYPE_CHECKING:
    from paictl.sim.placement.cells import Cells
    from paictl.sim.rates import Costs
    from paictl.sim.view import JobView

TRIALS: Final = 300
"""Trials for one plan: fewer than the 6000 of the command, because a run makes many plans."""


class SimulatedDefragmentation:
    """When moves are planned, which plans are worth their cost, and the figures of all moves."""

    def __init__(
        self,
        cells: Cells,
        every: Millis,
        costs: Costs,
        lost: Callable[[JobView], Millis],
        strained: Callable[[JobView, Millis], tuple[bool, bool]],
        closed: Callable[[JobView], frozenset[str]],
    ) -> None:
        """Plans are made at multiples of `every`; `costs` give the time of a start and of a restart after a move.

        Of a job, `lost` is the work that a restart loses now (milliseconds), `strained` is (whether a budget would keep
        it from restarting, whether one has reached its warning level), and `closed` are the nodes closed to it now.
        """
        self._cells = cells
        self._every = every
        self._costs = costs
        self._restart = Millis(costs.migrate)
        self._lost = lost
        self._strained = strained
        self._closed = closed
        self._next: Millis | None = None
        self._vain: set[int] = set()
        """Gangs that did not start although room was made: no second plan is made for them."""
        self._hopeless: dict[RoomRequest, object] = {}
        """By room for which no moves were found: the version of the core, and which gangs could move where.

        Without the weights, which change all the time but only decide the order of the search.
        """
        self._moved = self._rooms = self._undone = self._idle = 0
        """Moves, gangs that started after moves, and device-milliseconds of lost work and of restarts."""
        self._again: dict[int, tuple[Millis, Millis]] = {}
        """By moved gang: (when it was moved, from when on it works again)."""

    def next(self, now: Millis, *, waits: bool) -> Millis | None:
        """When to plan moves next; None while no job waits."""
        self._next = Millis((now // self._every + 1) * self._every) if waits else None
        return self._next

    def due(self, now: Millis) -> bool:
        """Whether to plan moves now."""
        return self._next is not None and now >= self._next

    def plan(
        self, job: JobView, running: Mapping[int, JobView], began: Mapping[int, Millis], now: Millis
    ) -> RoomPlan | None:
        """The cheapest moves after which a waiting job can start; None if there are none, or they cost too much.

        Moves may cost at most as much device time as the job has waited for. As in the ski-rental problem, that is
        never far from the best choice, whatever comes next.
        """
        room = None if job.number in self._vain else room_of(self._cells.engine.state, self._cells.request(job))
        if room is None:
            return None
        waited = 0 if job.running else now - job.since  # a job preempted at this instant still runs in its view
        worth = job.gpus * waited // 1000
        gangs = [self._gang(view, began[view.number], now) for view in running.values()]
        if worth < min((gang.weight for gang in gangs if not gang.fixed), default=0):
            return None  # even the cheapest move costs too much
        closed = self._closed(job)
        scene = self._cells.engine.version, room, closed, tuple((gang.key, gang.fixed, gang.closed) for gang in gangs)
        if self._hopeless.get(room) == scene:
            return None
        plan = find_room(self._cells.engine, room, gangs, closed, most_trials=TRIALS)
        if isinstance(plan, NoRoom) or not plan.moves or not plan.starts:
            self._hopeless[room] = scene
            return None
        return plan if plan.weight <= worth else None

    def _gang(self, job: JobView, began: Millis, now: Millis) -> RunningGang:
        request = self._cells.request(job)
        spent, near = self._strained(job, now)
        # a job that starts or moves at this instant is not moved: on a cluster its pods would not run yet
        fixed = "it would not start again" if spent else "it has just started" if began == now else ""
        weight = weight_of(
            job.gpus,
            self._lost(job) // 1000,
            priority=request.priority,
            guaranteed=request.guaranteed,
            near_budget=near,
            restart=self._restart // 1000,
        )
        return RunningGang(str(job.number), (request,), weight, fixed, self._closed(job))

    def works_from(self, job: JobView, since: Millis) -> Millis:
        """From when on a job works on devices that it has had `since` an instant; before, it has no work to lose."""
        moved, works = self._again.get(job.number, (Millis(-1), since))
        if moved == since:
            return works
        again = job.first_start is not None and job.first_start < since
        return Millis(since + self._costs.to_start(job.gpus, again=again))

    def moved(self, job: JobView, since: Millis, checkpoints: Millis | None, now: Millis) -> Millis:
        """Account for a gang that restarts elsewhere; returns the work that it loses, in milliseconds.

        It has had its devices `since` an instant. If it was still restarting after an earlier move, the rest of that
        time is not counted for the earlier move.
        """
        lost = lost_time(self.works_from(job, since), now, checkpoints)
        before = max(now, self.works_from(job, since))
        works = Millis(max(before, now + self._restart))
        self._again[job.number] = now, works
        self._moved += 1
        self._undone += job.gpus * lost
        self._idle += job.gpus * (works - before)
        return lost

    def left(self, job: JobView, since: Millis, now: Millis) -> None:
        """Account for a job that loses or changes its devices, perhaps while it restarts after a move."""
        moved, works = self._again.pop(job.number, (Millis(-1), now))
        if moved == since:
            self._idle -= job.gpus * max(0, works - now)

    def made(self, job: JobView, *, started: bool) -> None:
        """Room was made for a job, which has `started` or not."""
        self._rooms += started
        if not started:
            self._vain.add(job.number)

    def counted(self) -> Mapping[str, float]:
        """Moves, gangs that started after moves, and device hours of lost work and of restarts."""
        return {
            "moved": self._moved,
            "moved_for": self._rooms,
            "moved_hours": round(self._undone / 3_600_000, 6),
            "moved_idle_hours": round(self._idle / 3_600_000, 6),
        }
