"""Gangs of a cluster on this machine as defragmentation sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paictl.cluster.defrag import DefragScene, GangPods, weight
from paictl.cluster.embedded.services import CONTROLLER, SCHEDULER
from paictl.cluster.values import ClusterError
from paictl.i18n import text
from paictl.scheduler.defrag import RunningGang
from paictl.workload.budgets import BudgetLevel
from paictl.workload.preemption import lost_time
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.embedded.jobs import LiveJob, Run
    from paictl.cluster.embedded.world import World
    from paictl.workload.lifecycle import TaskRef


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
            pods.key, tuple(requests[group] for group in sorted(requests)), weight(pods, near_budget=near), fixed,
            closed,
        )  # fmt: skip
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
        f"{job.key}/{place.role}[{place.index}]" if group else job.key, job.key, group, job.job.vc, first.priority,
        guaranteed, sum(len(run.info.devices) for _, run in refs),
        lost_time(began, world.now, job.job.checkpoints),
        tuple((job.pod(ref).uid, run.info.node) for ref, run in refs), len(refs) == number,
    )  # fmt: skip


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
