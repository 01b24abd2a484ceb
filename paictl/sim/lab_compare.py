"""One trace under several policies: how long each tenant waits, and how long in a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from paictl.cells.spec import ClusterSpec
from paictl.sim.lab_places import Cells, Counts, Place, Policy, physical_nodes, private_nodes
from paictl.sim.loop import Loop, Urgency
from paictl.sim.trace import TraceError, TraceJob
from paictl.units import Millis


class Kind(StrEnum):
    """The policies that can be compared."""

    PRIVATE = "private"
    """Every VC has a cluster of its own, as large as its promise."""
    QUOTA = "quota"
    """One cluster; a VC is promised a number of devices, anywhere."""
    CELLS = "cells"
    """One cluster; a VC is promised cells."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that has run."""

    job: TraceJob
    started: Millis
    places: tuple[Place, ...]
    despite: Millis
    """How much of its waiting time the count of its VC would have let it run."""

    @property
    def waited(self) -> Millis:
        """From submission to start."""
        return Millis(self.started - self.job.at)

    @property
    def completion(self) -> Millis:
        """From submission to end."""
        return Millis(self.waited + self.job.runs)


@dataclass(frozen=True, slots=True)
class Course:
    """A trace under one policy."""

    policy: Kind
    jobs: tuple[Ran, ...]
    """In the order of the trace."""
    pieces: float
    """Free devices on nodes that are partly used, on average over the time in which anything ran."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """What one VC got under one policy; spans are in milliseconds."""

    policy: Kind
    vc: str
    jobs: int
    wait: int
    """Mean."""
    longest: int
    completion: int
    """Mean, from submission to end."""
    blocked: int
    """Jobs that waited although the count of the VC left enough devices free."""


def play(kind: Kind, jobs: Sequence[TraceJob], spec: ClusterSpec) -> Course:
    """Play a trace under a policy; raises `TraceError` if a job could never run there."""
    private = private_nodes(spec)
    promised = {vc: sum(nodes.values()) for vc, nodes in private.items()}
    for i, job in enumerate(jobs):
        if job.vc not in promised:
            raise TraceError(
                f"there is no virtual cluster {job.vc!r}", where=f"jobs[{i}].vc", hint=f"one of: {', '.join(promised)}"
            )
    if kind is not Kind.PRIVATE:
        policy: Policy = Cells(spec) if kind is Kind.CELLS else Counts(physical_nodes(spec))
        return _course(kind, jobs, [_Run(policy, promised).of(jobs)])
    mine = {vc: [job for job in jobs if job.vc == vc] for vc in private}
    return _course(kind, jobs, [_Run(Counts(private[vc]), promised).of(mine[vc]) for vc in private if mine[vc]])


def tenants(course: Course) -> list[Tenant]:
    """What each VC got, in the order in which they first appear in the trace."""
    rows = []
    for vc in dict.fromkeys(ran.job.vc for ran in course.jobs):
        mine = [ran for ran in course.jobs if ran.job.vc == vc]
        rows.append(
            Tenant(
                course.policy,
                vc,
                len(mine),
                wait=sum(ran.waited for ran in mine) // len(mine),
                longest=max(ran.waited for ran in mine),
                completion=sum(ran.completion for ran in mine) // len(mine),
                blocked=sum(ran.despite > 0 for ran in mine),
            )
        )
    return rows


def worse_off(course: Course, private: Course) -> list[str]:
    """The VCs of which some job waited longer than it would have in the VC's own cluster."""
    alone = {ran.job.name: ran.waited for ran in private.jobs}
    return list(dict.fromkeys(ran.job.vc for ran in course.jobs if ran.waited > alone[ran.job.name]))


# --- playing


@dataclass(slots=True)
class _Gathered:
    """What one run of the loop found; an area is devices times milliseconds."""

    jobs: list[Ran]
    pieces: int = 0
    busy: int = 0


class _Run:
    """One cluster through a trace."""

    def __init__(self, policy: Policy, promised: Mapping[str, int]) -> None:
        self.policy = policy
        self.left = dict(promised)
        self.used = dict.fromkeys(policy.nodes, 0)
        self.waiting: list[Ran] = []
        """In the order of submission; `started` is not known yet."""
        self.found = _Gathered([])

    def of(self, jobs: Iterable[TraceJob]) -> _Gathered:
        """Play all of it."""
        loop: Loop[TraceJob | Ran] = Loop()
        for job in jobs:
            loop.schedule(job.at, Urgency.ARRIVAL, job)
        while (event := loop.pop()) is not None:
            self._take(event)
            while loop.peek() == loop.now and (same := loop.pop()) is not None:
                self._take(same)
            for ran in self._start(loop.now):
                loop.schedule(Millis(loop.now + ran.job.runs), Urgency.END, ran)
            self._pass(loop)
        if self.waiting:
            job = self.waiting[0].job
            raise TraceError(
                f"job {job.name!r} never runs: {job.pods} × {job.devices} devices do not fit into what {job.vc} has",
                hint="ask for less, or promise the virtual cluster more",
            )
        return self.found

    def _take(self, event: TraceJob | Ran) -> None:
        if isinstance(event, TraceJob):
            self.waiting.append(Ran(event, event.at, (), Millis(0)))
            return
        self.policy.end(event.job)
        self.left[event.job.vc] += event.job.demand
        for place in event.places:
            self.used[place.node] -= place.number

    def _start(self, now: Millis) -> list[Ran]:
        """Start what can start: everybody is tried in the order of submission, and may overtake who does not fit."""
        started = []
        for ran in list(self.waiting):
            job = ran.job
            places = self.policy.start(job) if job.demand <= self.left[job.vc] else None
            if places is None:
                continue
            self.left[job.vc] -= job.demand
            for place in places:
                self.used[place.node] += place.number
            self.waiting.remove(ran)
            started.append(replace(ran, started=now, places=places))
        self.found.jobs += started
        return started

    def _pass(self, loop: Loop[TraceJob | Ran]) -> None:
        """Add up the time until the next event."""
        ahead = loop.peek()
        span = 0 if ahead is None else ahead - loop.now
        self.waiting = [
            replace(ran, despite=Millis(ran.despite + span)) if ran.job.demand <= self.left[ran.job.vc] else ran
            for ran in self.waiting
        ]
        if any(self.used.values()):
            sizes = self.policy.nodes
            self.found.busy += span
            self.found.pieces += span * sum(sizes[node] - used for node, used in self.used.items() if used)


def _course(kind: Kind, jobs: Sequence[TraceJob], found: Sequence[_Gathered]) -> Course:
    order = {job.name: number for number, job in enumerate(jobs)}
    ran = sorted((one for part in found for one in part.jobs), key=lambda one: order[one.job.name])
    pieces = sum(part.pieces / part.busy for part in found if part.busy)
    return Course(kind, tuple(ran), round(pieces, 1))
