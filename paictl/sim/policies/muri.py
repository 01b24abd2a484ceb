"""Muri: jobs whose stages use different resources take turns on the same devices."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Preempt, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.job import Job
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.base import Placer
from paictl.sim.placement.table import PLACEMENTS
from paictl.sim.policies.base import Parameters, Setup, Where
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.policies.ranked import Entry, Group, Ranked
from paictl.sim.programs.interleave import SLOTS, Stages, grouped, kind, slowed, worth_it
from paictl.sim.rates import Rates
from paictl.sim.state import ONE, JobProgress
from paictl.sim.view import JobView

Members = tuple[JobView, ...]
"""A group, its most urgent job first."""
Running = tuple[Devices, Members]
"""A group and the devices that all of it has."""


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
        self._known: dict[str, Stages | None] = {}

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """A step a period, by what a step takes on the reference."""
        own = self._of(state.job)
        others = [stages for one in company if (stages := self._of(one.job)) is not None]
        if own is None:
            return super().rate(state, company)
        part = own.step / slowed(kind((own,), tuple(others)))
        return round(part * self.alone(state.job, state.devices) * (1.0 - self.overhead) * ONE) * state.limit // ONE

    def _of(self, job: Job) -> Stages | None:
        if job.id not in self._known:
            self._known[job.id] = stages_of(job)
        return self._known[job.id]


class Muri(Ranked):
    """Groups jobs of the same size whose stages interleave well, and runs each group on the same devices.

    Candidates are as many jobs as fit at four per device: those with the shortest remaining service, or the least
    attained service if durations are unknown. Candidates are matched in pairs, then groups in pairs, until they fit.
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
    )  # fmt: skip

    def __init__(self, parameters: MuriParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._jobs: dict[int, tuple[JobView, Stages | None]] = {}
        self._groups: dict[int, Running] = {}
        """Those that run, by the number of their first job."""
        self._group_of: dict[int, int] = {}
        self._interleaves = False
        """Since a job with stages came."""
        self._scratch: Placer = PLACEMENTS[self.p.placement](self.cluster)
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
        came = {job.number: (job, stages_of(job)) for job in moment.arrived}
        if not self._interleaves and any(stages is not None for _, stages in came.values()):
            self._interleave()
        self._jobs |= came
        if self._interleaves:
            self._regroup(moment)
        else:
            super().plan(moment)

    def _interleave(self) -> None:
        """From now on jobs are grouped: those that run are groups of one."""
        self._interleaves = True
        self._waiting = {}
        for number, (job, _) in self._jobs.items():
            if job.running:
                self._groups[number] = job.devices, (job,)
                self._group_of[number] = number
                self.let_go(job)
            else:
                self.enqueue(job)

    def _regroup(self, moment: Trigger) -> None:
        for job in moment.arrived:
            self.enqueue(job)
        for job in moment.ended:
            if job.number in self._group_of:
                self._forget(job)
        wanted = self._fit(self._match(self._candidates()))
        before = self._groups
        self._switch(before, wanted, self._assign(before, wanted))

    def _forget(self, job: JobView) -> None:
        first = self._group_of.pop(job.number)
        devices, jobs = self._groups.pop(first)
        rest = tuple(one for one in jobs if one is not job)
        if not rest:
            self.placement.give(devices)
            return
        self._groups[rest[0].number] = devices, rest
        for one in rest:
            self._group_of[one.number] = rest[0].number

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Devices of a group are free when all of it has ended."""
        if not self._interleaves:
            super().ended(job, devices)

    def _candidates(self) -> dict[Group, list[Entry]]:
        """Of each size as many jobs as fit four to a device, by the ranking over all sizes."""
        running: dict[Group, list[Entry]] = {}
        for number in self._group_of:
            job = self._jobs[number][0]
            running.setdefault(self.group(job), []).append((self.key(job, runs=True), number, job))
        lines: dict[Group, Iterator[Entry]] = {
            group: merge(sorted(running.get(group, ())), self._waiting.get(group, ()))
            for group in dict.fromkeys([*running, *self._waiting])
        }
        found: dict[Group, list[Entry]] = {group: [] for group in lines}
        heads = {group: next(line, None) for group, line in lines.items()}
        taken: list[Devices] = []
        while heads:
            group = min(heads, key=lambda head: (heads[head] is None, heads[head] or ()))
            head = heads[group]
            if head is None:
                break
            place = self._scratch.take(head[2], head[2].gpus)
            if place is None:
                del heads[group]
                continue
            taken.append(place)
            found[group] += [head, *islice(lines[group], SLOTS - 1)]
            heads[group] = next(lines[group], None)
        for devices in taken:
            self._scratch.give(devices)
        return {group: rows for group, rows in found.items() if rows}

    def _match(self, candidates: Mapping[Group, Sequence[Entry]]) -> list[list[Entry]]:
        """Groups of candidates, those without stages alone; by the priority of the first in each."""
        made: list[list[Entry]] = []
        rows, kinds, sizes, alone = [], [], [], 0
        for entries in candidates.values():
            staged = [entry for entry in entries if self._jobs[entry[1]][1] is not None]
            made += [[entry] for entry in entries if self._jobs[entry[1]][1] is None]
            alone += entries[0][2].gpus * (len(entries) - len(staged))
            rows.append(staged)
            kinds.append([self._kind(entry) for entry in staged])
            sizes.append(entries[0][2].gpus)
        for entries, groups in zip(rows, grouped(kinds, sizes, self.cluster.size - alone), strict=True):
            for places in groups:
                members = [entries[place] for place in sorted(places)]
                if worth_it(kind(*map(self._kind, members))):
                    made.append(members)
                else:
                    made += [[member] for member in members]
        return sorted(made, key=lambda group: group[0][:2])

    def _kind(self, entry: Entry) -> tuple[Stages, ...]:
        stages = self._jobs[entry[1]][1]
        assert stages is not None  # noqa: S101 - others are not grouped
        return (stages,)

    def _fit(self, groups: Sequence[Sequence[Entry]]) -> list[Members]:
        """Those groups that find a place on an idle cluster, one after the other."""
        taken: list[Devices] = []
        fitting = []
        for group in groups:
            place = self._scratch.take(group[0][2], group[0][2].gpus)
            if place is not None:
                taken.append(place)
                fitting.append(tuple(job for _, _, job in group))
        for devices in taken:
            self._scratch.give(devices)
        return fitting

    def _assign(self, before: Mapping[int, Running], wanted: Sequence[Members]) -> dict[int, Devices]:
        """Devices by place in `wanted`: whoever can keeps its own, the others are placed, the largest first.

        Where they do not fit so, all are placed anew, at last in the order in which they were found to fit.
        """
        book, kept = self.placement, self._kept(before, wanted)
        for first, (devices, _) in before.items():
            if first not in kept.values():
                book.give(devices)
        claimed = {place: before[first][0] for place, first in kept.items()}
        largest_first = sorted(range(len(wanted)), key=lambda place: (-wanted[place][0].gpus, place))
        if self._put(wanted, claimed, [place for place in largest_first if place not in kept]):
            return claimed
        for devices in claimed.values():
            book.give(devices)
        claimed = {}
        if not self._put(wanted, claimed, largest_first):
            self._put(wanted, claimed, range(len(wanted)))
        return claimed

    @staticmethod
    def _kept(before: Mapping[int, Running], wanted: Sequence[Members]) -> dict[int, int]:
        """Place in `wanted` → first job of the group whose devices it keeps: that of its most urgent running member."""
        by_devices = {devices: first for first, (devices, _) in before.items()}
        kept: dict[int, int] = {}
        for place, jobs in enumerate(wanted):
            found = next((job.devices for job in jobs if job.devices in by_devices), None)
            if found is not None:
                kept[place] = by_devices.pop(found)
        return kept

    def _put(self, wanted: Sequence[Members], claimed: dict[int, Devices], order: Sequence[int]) -> bool:
        """Give devices to places in an order; False, with the book as it was, if one finds none."""
        made: list[int] = []
        for place in order:
            devices = self.placement.take(wanted[place][0], wanted[place][0].gpus)
            if devices is None:
                for one in made:
                    self.placement.give(claimed.pop(one))
                return False
            claimed[place] = devices
            made.append(place)
        return True

    def _switch(self, before: Mapping[int, Running], wanted: Sequence[Members], claimed: Mapping[int, Devices]) -> None:
        """Stop, move and start jobs so that these groups run."""
        self._groups = {wanted[place][0].number: (devices, wanted[place]) for place, devices in claimed.items()}
        self._group_of = {job.number: first for first, (_, jobs) in self._groups.items() for job in jobs}
        self._most = max([self._most, *(len(jobs) for _, jobs in self._groups.values())])
        stopped = [job for _, jobs in before.values() for job in jobs if job.number not in self._group_of]
        for job in stopped:
            self.act(Preempt(job))
        for devices, jobs in self._groups.values():
            for job in jobs:
                if not job.running:
                    self.dequeue(job, self.key(job, runs=False))
                if job.devices != devices:
                    self.act(Colocate(job, devices))
        for job in stopped:
            self.enqueue(job)
