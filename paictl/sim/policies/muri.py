"""Muri: jobs whose stages use different resources take turns on the same devices."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import NamedTuple

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Preempt, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.job import Job
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement import PLACEMENTS
from paictl.sim.policies.base import Parameters, Setup, Where
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.policies.ranked import Entry, Group, Ranked
from paictl.sim.programs.interleave import SLOTS, Grouping, JobsOfSize, StageKinds, Stages
from paictl.sim.rates import Rates
from paictl.sim.state import ONE, JobProgress
from paictl.sim.view import JobView

Members = tuple[JobView, ...]
"""A group, its most urgent job first."""
Running = tuple[Devices, Members]
"""A group and the devices that all of it has."""


class _Present(NamedTuple):
    """A job that is there."""

    job: JobView
    stages: int | None
    """Its kind by number; None where the trace does not tell its stages."""
    group: Group


@frozen
class MuriParameters(Parameters):
    """`muri:…`."""

    placement: Where = parameter("consolidate", "where devices come from: count (anywhere), consolidate (fewest nodes)")
    resume: Span = parameter(Span(10_000), "cost of a restart")
    duration: bool = parameter(True, "false: durations are unknown, and jobs with the least GPU time go first (Muri-L)")


def stages_of(job: Job | JobView) -> Stages | None:
    """The stages of a step (facts `stage.cpu`, `.gpu`, `.network`, `.step`); None where the trace does not say."""
    facts = job.facts
    load, compute, network = (facts.get(f"stage.{name}", 0.0) for name in ("cpu", "gpu", "network"))
    step = facts.get("stage.step", 0.0) or (job.work / job.iterations if job.iterations else 0.0)
    return Stages(load, compute, network, step) if step and load + compute + network > 0 else None


class Interleaved(Rates):
    """A group has one pace: that of its period."""

    def __init__(self, *given: object, **more: object) -> None:
        super().__init__(*given, **more)  # type: ignore[arg-type] # as the base class
        self._kinds = StageKinds()
        self._kind_of: dict[str, int | None] = {}
        """By job; None where the trace does not tell its stages."""

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """A step a period, by what a step takes on the reference."""
        own = self._of(state.job)
        if own is None:
            return super().rate(state, company)
        kinds, group = self._kinds, own
        for mate in company:
            other = self._of(mate.job)
            if other is not None:
                group = kinds.together(group, other)
        part = kinds.kind(own)[0].step / kinds.slowed(group)
        return round(part * self.alone(state.job, state.devices) * (1.0 - self.overhead) * ONE) * state.limit // ONE

    def _of(self, job: Job) -> int | None:
        if job.id not in self._kind_of:
            stages = stages_of(job)
            self._kind_of[job.id] = None if stages is None else self._kinds.number((stages,))
        return self._kind_of[job.id]


class Muri(Ranked):
    """Groups jobs of the same size whose stages interleave well, and runs each group on the same devices.

    Candidates are as many jobs as fit at four per device: those with the shortest remaining service, or the least
    attained service if durations are unknown. Candidates are matched in pairs, then groups in pairs, until they fit.
    Where every job has devices of its own, and new jobs find some, no job is moved or grouped.
    Example: `muri:duration=false`.
    """

    id = "muri"
    title = "interleaves the stages of up to four jobs on the same devices"
    paper = "Zhao et al., Muri (SIGCOMM'22); Rivendile/Muri@4e69a78 `--schedule=multi-resource-blossom-same-gpu`"
    knows = frozenset({Knowledge.DURATION, Knowledge.THROUGHPUT, Knowledge.FACTS})
    Parameters = MuriParameters
    choices = (
        "jobs with the same stages are interchangeable: pairs are counted by kind instead of matched one by one",
        "a group runs with the published period, which exceeds the planned one by a factor for its size",
        "only a job that restarts pays; the published simulator charges every running job 4 to 46 s at each event",
        "jobs without stages in the trace are not interleaved: `muri` is then shortest remaining service first",
        "jobs are placed again only if they do not fit otherwise",
        "of groups that are equally good, those that run stay together; pairs of the most urgent jobs are merged first",
    )

    def __init__(self, parameters: MuriParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._jobs: dict[int, _Present] = {}
        self._asked = 0
        """Devices that they ask for."""
        self._groups: dict[int, Running] = {}
        """Those that run, by the number of their first job."""
        self._group_of: dict[int, int] = {}
        self._grouping = Grouping()
        self._interleaves = False
        """Since a job with stages came."""
        self._idle = PLACEMENTS[self.p.placement](self.cluster)
        """All devices that work, and nobody on them: where it is tried which jobs would fit."""
        self._most = 0

    def make_rates(self) -> Rates:
        """Groups have a pace of their own."""
        return Interleaved(self.cluster, located=self.placement.located, overhead=self.p.overhead)

    def counted(self) -> Mapping[str, float]:
        """The largest group that ran."""
        return {"largest_group": self._most}

    # --- the ranking

    def key(self, job: JobView, *, runs: bool) -> int | float:
        """Remaining, or attained, service."""
        if not self.p.duration:
            return job.attained(self.now)
        if not runs or self._interleaves:
            return job.remaining(self.now) * job.gpus
        return float("inf") if job.due is None else (job.due - self.now) * job.gpus * ONE

    def lane(self, job: JobView, /) -> Hashable:
        """Jobs of one size; a larger one's service changes faster."""
        return job.gpus

    def lane_rank(self, job: JobView) -> int | float:
        """What does not change as time goes by."""
        if not self.p.duration:
            return job.attained(self.now) - self.now * job.gpus
        return float("inf") if job.due is None else job.due

    # --- groups

    def plan(self, moment: Trigger) -> None:
        """Rank; and group, from the first job on that has stages."""
        for job in moment.ended:
            del self._jobs[job.number]
            self._asked -= job.gpus
        came = {job.number: _Present(job, self._kind(job), self.group(job)) for job in moment.arrived}
        if not self._interleaves and any(other.stages is not None for other in came.values()):
            self._interleave()
        self._jobs |= came
        self._asked += sum(job.gpus for job in moment.arrived)
        if self._interleaves:
            self._regroup(moment)
        else:
            super().plan(moment)

    def _kind(self, job: JobView) -> int | None:
        stages = stages_of(job)
        return None if stages is None else self._grouping.kinds.number((stages,))

    def _interleave(self) -> None:
        """From now on jobs are grouped: those that run are groups of one."""
        self._interleaves = True
        self._waiting = {}
        for number, (job, *_) in self._jobs.items():
            if job.running:
                self._groups[number] = job.devices, (job,)
                self._group_of[number] = number
                self.let_go(job)
            else:
                self.enqueue(job)

    def _regroup(self, moment: Trigger) -> None:
        for job in moment.arrived:
            self.enqueue(job)
        if self._room_for_all():
            return
        self._switch(*self._devices_for(self._match(self._candidates())))

    def _room_for_all(self) -> bool:
        """Whether every job has devices of its own, once those that wait are started; if not, none of them is."""
        if self._asked > self._idle.free or len(self._groups) < len(self._group_of):
            return False
        waiting = sorted(chain.from_iterable(self._waiting.values()), key=lambda entry: (-entry[2].gpus, *entry[:2]))
        taken: list[Devices] = []
        for _, _, job in waiting:
            devices = self.placement.take(job, job.gpus)
            if devices is None:
                for other in taken:
                    self.placement.give(other)
                return False
            taken.append(devices)
        for (_, number, job), devices in zip(waiting, taken, strict=True):
            self._groups[number] = devices, (job,)
            self._group_of[number] = number
            self.act(Colocate(job, devices))
        self._waiting = {}
        self._most = max(self._most, min(1, len(self._groups)))
        return True

    def _forget(self, job: JobView) -> None:
        first = self._group_of.pop(job.number)
        devices, jobs = self._groups.pop(first)
        rest = tuple(other for other in jobs if other is not job)
        if not rest:
            self.placement.give(devices)
            return
        self._groups[rest[0].number] = devices, rest
        for other in rest:
            self._group_of[other.number] = rest[0].number

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Devices of a group are free when all of it has ended."""
        if job.number in self._group_of:
            self._forget(job)
        else:
            super().ended(job, devices)

    def hardware(self, failed: Devices, repaired: Devices) -> None:
        """In both books."""
        super().hardware(failed, repaired)
        if repaired:
            self._idle.repair(repaired)
        if failed:
            self._idle.fail(failed)

    def _candidates(self) -> dict[Group, list[Entry]]:
        """Of each size as many jobs as fit four to a device, by the ranking over all sizes."""
        lines = self._lines()
        groups = list(lines)
        count = [0] * len(groups)
        heads = [(line[0], place) for place, line in enumerate(lines.values())]
        heapify(heads)
        trial = self._idle.trial()
        while heads:
            head, place = heappop(heads)
            group, job = groups[place], head[2]
            if trial.take(job, job.gpus):
                count[place] += SLOTS
                if count[place] < len(lines[group]):
                    heappush(heads, (lines[group][count[place]], place))
        return {group: lines[group][:number] for group, number in zip(groups, count, strict=True) if number}

    def _lines(self) -> dict[Group, list[Entry]]:
        """Jobs of each size by the ranking, as far as there can be candidates among them."""
        now, known = self.now, self.p.duration
        lines: dict[Group, list[Entry]] = {}
        for number in self._group_of:
            job, _, group = self._jobs[number]
            service = job.remaining(now) * job.gpus if known else job.attained(now)  # `key`, without a call for each
            lines.setdefault(group, []).append((service, number, job))
        for group, waiting in self._waiting.items():
            lines.setdefault(group, []).extend(waiting[: SLOTS * (self._idle.free // group[0])])
        for line in lines.values():
            line.sort()
        return {group: line for group, line in lines.items() if line}

    def _match(self, candidates: Mapping[Group, Sequence[Entry]]) -> list[Members]:
        """Groups of candidates, those without stages alone; by the priority of the first in each."""
        ranking = sorted(chain.from_iterable(candidates.values()))
        rank = {number: place for place, (_, number, _) in enumerate(ranking)}
        made: list[list[int]] = []
        lines: list[JobsOfSize] = []
        alone = 0
        for group, entries in candidates.items():
            staged: list[tuple[int, int]] = []
            for _, number, _ in entries:
                stages = self._jobs[number].stages
                if stages is None:
                    made.append([rank[number]])
                else:
                    staged.append((number, stages))
            alone += group[0] * (len(entries) - len(staged))
            lines.append(JobsOfSize(group, group[0], staged))
        kinds = self._grouping.kinds
        for groups in self._grouping.groups(lines, self._idle.free - alone):
            for unit, stages in groups:
                if len(unit) == 1 or kinds.worth_it(stages):
                    made.append(sorted([rank[number] for number in unit]))
                else:
                    made += [[rank[number]] for number in unit]
        made.sort()
        return [tuple([ranking[place][2] for place in places]) for places in made]

    def _fit(self, groups: Sequence[Members]) -> list[Members]:
        """Those groups that find a place on an idle cluster, one after the other."""
        trial = self._idle.trial()
        full: set[Group] = set()
        fitting = []
        for members in groups:
            group = self._jobs[members[0].number].group
            if group in full:
                continue
            if trial.take(members[0], members[0].gpus):
                fitting.append(members)
            else:
                full.add(group)
        return fitting

    def _devices_for(self, groups: Sequence[Members]) -> tuple[Sequence[Members], dict[int, Devices]]:
        """The groups that run, and their devices by their places among these.

        Whoever can keeps its own, the others are placed, the largest first. Where they do not fit so, only those run
        that fit on an idle cluster; and where these do not fit so, all are placed anew, at last in the order in which
        they were found to fit.
        """
        all_fit = sum(members[0].gpus for members in groups) <= self._idle.free
        claimed = self._keep(groups) if all_fit else None
        if claimed is not None:
            return groups, claimed
        wanted = self._fit(groups)
        if not all_fit or len(wanted) < len(groups):  # else the same was tried above
            claimed = self._keep(wanted)
        return wanted, self._anew(wanted) if claimed is None else claimed

    def _anew(self, wanted: Sequence[Members]) -> dict[int, Devices]:
        """Devices for all, the largest first on an idle cluster; a group keeps its place where that is used again."""
        for devices, _ in self._groups.values():
            self.placement.give(devices)
        claimed: dict[int, Devices] = {}
        if not self._put(wanted, claimed, self._largest_first(wanted)):
            self._put(wanted, claimed, range(len(wanted)))
        places: dict[Group, dict[Devices, None]] = {}
        for place, devices in claimed.items():
            places.setdefault(self._jobs[wanted[place][0].number].group, {})[devices] = None
        moved = []
        for place in claimed:
            jobs = wanted[place]
            left = places[self._jobs[jobs[0].number].group]
            devices = next((job.devices for job in jobs if job.devices in left), ())
            if devices:
                del left[devices]
                claimed[place] = devices
            else:
                moved.append(place)
        for place in moved:
            left = places[self._jobs[wanted[place][0].number].group]
            claimed[place] = next(iter(left))
            del left[claimed[place]]
        return claimed

    def _keep(self, wanted: Sequence[Members]) -> dict[int, Devices] | None:
        """Devices for all, most of them as before; None, with the book as it was, if one finds none.

        Of the devices of its members a group keeps those of the most urgent.
        """
        claimed: dict[int, Devices] = {}
        kept: set[int] = set()
        for place, jobs in enumerate(wanted):
            for job in jobs:
                first = self._group_of.get(job.number)
                if first is not None and first not in kept:
                    kept.add(first)
                    claimed[place] = self._groups[first][0]
                    break
        given = [devices for first, (devices, _) in self._groups.items() if first not in kept]
        for devices in given:
            self.placement.give(devices)
        order = self._largest_first(wanted, without=claimed) if len(claimed) < len(wanted) else ()
        if self._put(wanted, claimed, order):
            return claimed
        for devices in given:
            self.placement.claim(devices)
        return None

    @staticmethod
    def _largest_first(wanted: Sequence[Members], without: Collection[int] = ()) -> list[int]:
        places = [place for place in range(len(wanted)) if place not in without]
        return sorted(places, key=lambda place: (-wanted[place][0].gpus, place))

    def _put(self, wanted: Sequence[Members], claimed: dict[int, Devices], order: Sequence[int]) -> bool:
        """Give devices to places in an order; False, with the book as it was, if one finds none."""
        made: list[int] = []
        for place in order:
            devices = self.placement.take(wanted[place][0], wanted[place][0].gpus)
            if devices is None:
                for other in made:
                    self.placement.give(claimed.pop(other))
                return False
            claimed[place] = devices
            made.append(place)
        return True

    def _switch(self, wanted: Sequence[Members], claimed: Mapping[int, Devices]) -> None:
        """Stop, move and start jobs so that these groups run."""
        before = self._groups
        self._groups = {wanted[place][0].number: (devices, wanted[place]) for place, devices in claimed.items()}
        running = {job.number: first for first, (_, jobs) in self._groups.items() for job in jobs}
        stopped = [self._jobs[number][0] for number in self._group_of if number not in running]
        self._group_of = running
        for job in stopped:
            self.act(Preempt(job))
        for first, group in self._groups.items():
            if before.get(first) == group:
                continue
            devices, jobs = group
            self._most = max(self._most, len(jobs))
            for job in jobs:
                if not job.running:
                    self.dequeue(job, self.key(job, runs=False))
                if job.devices != devices:
                    self.act(Colocate(job, devices))
        for job in stopped:
            self.enqueue(job)
