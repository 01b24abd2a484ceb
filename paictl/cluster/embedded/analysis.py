"""What the scheduler of the embedded cluster can be asked beside its decisions, without changing anything.

Why a job is where it is, what another configuration would do to the jobs that run and wait, the gangs as
defragmentation sees them, and the figures that the doors have of theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.defrag import DefragPlan, DefragScene, GangPods, outrun, planned_moves, weight, with_moves
from paictl.cluster.embedded.dispatch import Dispatcher
from paictl.cluster.embedded.jobs import LiveJob, Run
from paictl.cluster.embedded.services import CONTROLLER, SCHEDULER
from paictl.cluster.embedded.store import Store
from paictl.cluster.embedded.views import WorldViews
from paictl.cluster.embedded.world import World
from paictl.cluster.figures import (
    AheadFigures,
    CellCounts,
    ClusterFigures,
    HardwareFigures,
    SchedulerFigures,
    cells_at_risk,
    count_cells,
)
from paictl.cluster.interface import EventKind, JobRequest
from paictl.cluster.jobwords import STATES
from paictl.cluster.movetotals import planned_weights
from paictl.cluster.reservations import state_of, waits_for_reservation
from paictl.cluster.scheduling import Impact, JobExplanation, JobImpact, JobSituation, harm_of_running
from paictl.cluster.storages import Storage, refuse_extras
from paictl.cluster.values import ClusterError
from paictl.cluster.whywaits import explained, waits_for_shield, waits_for_windows, with_start
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.scheduler.defrag import RunningGang
from paictl.scheduler.engine import Engine
from paictl.scheduler.freecells import free_cells
from paictl.units import Millis
from paictl.workload.backfill import LineGang
from paictl.workload.budgets import BudgetLevel
from paictl.workload.lifecycle import RunState, TaskRef
from paictl.workload.preemption import lost_time
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.scheduler.request import PodRequest
    from paictl.workload.usage import UsageAmount


NEEDED = (CONTROLLER, SCHEDULER)
"""The services between a job and its devices, in their order."""


def explain_job(world: World, job: LiveJob, epoch: datetime) -> JobExplanation:
    """What a job does, or why it waits and what would let it run."""
    waiting = [task for task in job.status.tasks if task.state is RunState.WAITING]
    known = JobExplanation(
        job.key, STATES[job.status.state], JobSituation.NOT_WAITING, waiting=len(waiting), tasks=len(job.status.tasks)
    )
    if job.status.state.final or not waiting:
        return known
    for service in NEEDED:
        if not world.services.runs(service):
            return replace(known, situation=JobSituation.SERVICE_STOPPED, service=service)
    engine = world.dispatcher.engine
    if engine is None:
        return replace(known, situation=JobSituation.NO_SCHEDULER)
    request = job.request(waiting[0].ref)
    if why := world.sharing.obstacle(request, job.plan.user):
        return replace(known, situation=JobSituation.HELD_BACK, reason=why)

    if world.dispatcher.sparing is not None and world.sharing.sparing is not None:
        shielded = waits_for_shield(known, engine, request, world.sharing.sparing, epoch)
        if shielded is not None:
            return shielded

    reserved, name, ahead = world.dispatcher.reserved, job.job.reservation, world.windows
    foresight = world.dispatcher.foresight(world.now, ahead)
    if foresight is not None and (name or reserved is not None):
        gang = LineGang(request, job.job.max_run_time)
        kept = waits_for_reservation(known, reserved, foresight, gang, name, epoch)
        if kept is not None:
            return kept
        ahead = ahead if reserved is None else reserved.windows(ahead, world.now, name)
    closed = waits_for_windows(known, engine, request, job.job.max_run_time, ahead, world.now, epoch)
    if closed is not None:
        return closed
    known = with_moves(explained(known, engine, request, job.groups.keys()), lambda: scene_of(world), request)
    known = replace(known, ahead=world.sharing.line_ahead(request, job.plan.user))
    if world.sharing.rules.backfill:
        return _with_start(world, known, request, job.job.max_run_time, epoch)
    return known


def _with_start(
    world: World, known: JobExplanation, request: PodRequest, limit: Millis | None, epoch: datetime
) -> JobExplanation:
    """When a job starts at the latest, or whom it would delay, where its virtual cluster has backfill."""
    dispatcher = world.dispatcher
    starts = dispatcher.starts(world.now, world.windows).get(request.vc)
    if starts is None or dispatcher.backfill is None or dispatcher.engine is None:
        return known
    if not dispatcher.backfill.rules.covers(request):
        return known
    foresight = dispatcher.backfill.foresight(dispatcher.engine, world.now, world.windows)
    owners = {group: job.key for job in world.jobs.values() for group in job.groups}
    gang = LineGang(request, limit)
    return with_start(known, foresight, gang, starts, epoch, lambda group: owners.get(group, group))


def foresee_job(world: World, request: JobRequest, epoch: datetime) -> JobExplanation:
    """What would happen to a job that was submitted now; raises as `World.admitted` does for one that never is."""
    (job,) = world.admitted([request])
    return explain_job(world, job, epoch)


def impact_of(world: World, files: Mapping[str, str]) -> Iterator[Impact]:
    """The jobs that would be worse off, in order of submission.

    A scheduler is started by the files beside the one that runs, and finds the pods as that would after a restart.
    Files with which no scheduler could start affect no job: the scheduler keeps the configuration that it has.
    """
    configuration, then = ConfigSnapshot(0, files), Dispatcher()
    try:
        then.start(configuration.spec, world.survivors())
    except PaictlError:
        return
    assert then.engine is not None  # noqa: S101 - started above
    for job in world.jobs.values():
        harm = _harm(job, configuration, world.dispatcher.engine, then.engine)
        if harm is not None:
            yield Impact(job.key, job.job.vc, harm)


def _harm(job: LiveJob, configuration: ConfigSnapshot, now: Engine | None, then: Engine) -> JobImpact | None:
    if any(True for _ in job.running()):
        return harm_of_running(job.groups, now, then)
    if job.job.vc not in configuration.supply.vcs:
        return JobImpact.NO_VC
    return JobImpact.NEVER if configuration.judge.refusal(job.plan) is not None else None


# --- gangs for defragmentation


def scene_of(world: World) -> DefragScene:
    """What a plan is made from; raises `ClusterError` while a service is stopped without which no gang comes back."""
    for service in (CONTROLLER, SCHEDULER):
        world.services.need(service)
    lasting = tuple(window for window in world.windows if not window.hold)  # ours: a plan starts from before it
    windows = Windows((*lasting, *world.reservations.holds(world.now)))
    engine = world.dispatcher.engine
    if engine is None:
        raise ClusterError("the cluster has no scheduler")
    gangs = []
    for pods, job, refs in _gangs(world):
        requests = {job.request(ref).group: job.request(ref) for ref, _ in refs}
        closed = windows.closed(world.now, job.job.max_run_time)
        fixed, near = _budget(world, job)
        row = RunningGang(
            pods.key,
            tuple(requests[group] for group in sorted(requests)),
            weight(pods, near_budget=near),
            fixed,
            closed,
        )
        gangs.append((row, pods))
    return DefragScene(engine, gangs, windows.closed(world.now, None))


def gangs_of(world: World) -> tuple[GangPods, ...]:
    """The gangs that run."""
    return tuple(pods for pods, _, _ in _gangs(world))


def gangs_in(world: World, job: LiveJob) -> tuple[GangPods, ...]:
    """Those of one job."""
    return tuple(pods for pods, _ in _gangs_in(world, job))


def _gangs(world: World) -> Iterator[tuple[GangPods, LiveJob, list[tuple[TaskRef, Run]]]]:
    for job in world.jobs.values():
        for pods, refs in _gangs_in(world, job):
            yield pods, job, refs


def _gangs_in(world: World, job: LiveJob) -> Iterator[tuple[GangPods, list[tuple[TaskRef, Run]]]]:
    running = list(job.running())
    if running and job.job.gang:  # starts again as a whole, whichever pod goes
        yield _pods(world, job, "", running), running
        return
    groups: dict[str, list[tuple[TaskRef, Run]]] = {}
    for ref, run in running:
        groups.setdefault(job.request(ref).group, []).append((ref, run))
    for group, refs in groups.items():
        yield _pods(world, job, group, refs), refs


def _pods(world: World, job: LiveJob, group: str, refs: list[tuple[TaskRef, Run]]) -> GangPods:
    began = min(run.started for _, run in refs)
    first = job.request(refs[0][0])
    guaranteed = world.dispatcher.guaranteed(first.group)
    number = len(job.status.tasks) if not group else sum(pods for _, pods in first.members)
    place = refs[0][0]
    return GangPods(
        f"{job.key}/{place.role}[{place.index}]" if group else job.key,
        job.key,
        group,
        job.job.vc,
        first.priority,
        guaranteed,
        sum(len(run.info.devices) for _, run in refs),
        lost_time(began, world.now, job.job.checkpoints),
        tuple((job.pod(ref).uid, run.info.node) for ref, run in refs),
        len(refs) == number,
    )


def _budget(world: World, job: LiveJob) -> tuple[str, bool]:
    """Why a budget would keep a job from starting again, and whether one of its budgets is nearly used up."""
    rules = world.sharing.rules
    if not rules.budgets:
        return "", False
    states = rules.budgets.concerning(job.job.vc, job.plan.user, world.sharing.used())
    holding = next((state for state in states if state.holds), None)
    if holding is not None:
        return text("it would not start again: {reason}", reason=holding.reason(world.sharing.now)), False
    return "", any(state.level is not BudgetLevel.OK for state in states)


# --- figures

HELD = "held back by a budget or a limit"


def scheduler_figures(world: World, engine: Engine) -> tuple[SchedulerFigures, CellCounts]:
    """What the scheduler of a world knows now."""
    state = engine.state
    bound = sum(1 for job in world.jobs.values() for _ in job.running())
    bad_devices = sum(len(node.bad_devices) for node in world.machines if node.machine.name in state.physical.nodes)
    hardware = HardwareFigures(len(world.machines), len(state.health.bad_nodes), bad_devices, cells_at_risk(state))
    figures = SchedulerFigures(
        _waiting(world), {"assumed": 0, "bound": bound}, world.sharing.figures(), _ahead(world), hardware
    )
    return figures, CellCounts(count_cells(state), free_cells(state))


def cluster_figures(world: World, spent: Iterable[UsageAmount], past: Callable[[EventKind], int]) -> ClusterFigures:
    """What the scheduler of a world knows now, the device time `spent`, and what happened beside what is `past`."""
    engine = world.dispatcher.engine
    known, cells = (None, None) if engine is None else scheduler_figures(world, engine)
    today: Counter[tuple[str, str]] = Counter()
    for amount in spent:
        today[amount.vc, amount.kind.value] += amount.amount
    fresh = Counter(event.kind for event in world.events)
    preempted, repaired = (fresh[kind] + past(kind) for kind in (EventKind.PREEMPTED, EventKind.REPAIRED))
    return ClusterFigures(known, cells, today, preempted, repaired)


def day_of(world: World) -> Millis:
    """The last midnight UTC on the world's clock, at the earliest its beginning."""
    now = datetime.fromtimestamp((world.epoch + world.now) / 1000, UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return Millis(max(0, round(midnight.timestamp() * 1000) - world.epoch))


def _waiting(world: World) -> Counter[str]:
    """Pods that wait; the scheduler keeps no reason for those that have no room."""
    by_reason: Counter[str] = Counter()
    for job in world.jobs.values():
        for task in job.status.tasks:
            if task.state is RunState.WAITING:
                held = world.sharing.obstacle(job.request(task.ref), job.plan.user)
                by_reason[HELD if held else "insufficient devices"] += 1
    return by_reason


def _ahead(world: World) -> AheadFigures:
    now, dispatcher = world.now, world.dispatcher
    windows, reservations = [w for w in world.windows if now < w.end], world.reservations.current(now)
    starts = dispatcher.starts(now, world.windows)
    foresight, kept = dispatcher.foresight(now, world.windows), dispatcher.reserved
    short = {} if foresight is None or kept is None else state_of(kept, foresight)
    heads = {vc: line.head for vc, line in starts.items()}
    return AheadFigures(
        _by_state(len(windows), sum(window.is_active(now) for window in windows)),
        _by_state(len(reservations.all), sum(reservation.is_active(now) for reservation in reservations)),
        {name: missing for name, (_, missing) in short.items()},
        {vc: (world.epoch + head.at) / 1000 for vc, head in heads.items() if head is not None and head.at is not None},
        {vc: len(line.times()) for vc, line in starts.items()},
        world.moves,
        planned_weights(world.moves, now),
    )


def _by_state(number: int, active: int) -> Mapping[str, int]:
    return {"planned": number - active, "active": active}


class WorldQuestions:
    """Questions to the scheduler of a world at its present; nothing that they ask changes it."""

    def __init__(self, views: WorldViews, store: Store, epoch: datetime) -> None:
        self._views = views
        self._world = views.world
        self._store = store
        self._epoch = epoch

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run; raises `NoJobError`."""
        return explain_job(self._world, self._views.live_job(key), self._epoch)

    def foresee(self, request: JobRequest, storages: Callable[[], Sequence[Storage]]) -> JobExplanation:
        """What would happen to a job that was submitted now."""
        refuse_extras([request], storages)
        return foresee_job(self._world, request, self._epoch)

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off by other configuration files."""
        return list(impact_of(self._world, files))

    def figures(self, amounts: Callable[[World, Millis, Millis], Iterable[UsageAmount]]) -> ClusterFigures:
        """What the scheduler knows, for Prometheus; `amounts` is the device time of a window."""
        spent = amounts(self._world, day_of(self._world), self._world.now)
        return cluster_figures(self._world, spent, self._store.count_events)

    def plan_moves(self, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room."""
        return planned_moves(self._world.name, scene_of(self._world), rooms)

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more."""
        return outrun(scene_of(self._world), room, kept, exactly=exactly) or ""

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""
        return gangs_of(self._world)
