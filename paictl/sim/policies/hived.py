"""HiveD: tenants have quotas of cells; the scheduler core of this project decides, in simulated time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from paictl.sim.actions import Action, Migrate, Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.base import Placer
from paictl.sim.placement.cells import Cells, for_nodes, from_text
from paictl.sim.policies.base import Policy, Setup
from paictl.sim.policies.hived_lines import Kind, SpareLines, Tenant, first_in_line, take_out
from paictl.sim.policies.hived_parameters import HivedParameters, shares
from paictl.sim.policies.member_repairs import MemberRepairs
from paictl.sim.policies.promised_starts import Row, SimulatedStarts, limit_of
from paictl.sim.policies.simulated_defragmentation import SimulatedDefragmentation
from paictl.sim.policies.simulated_reservations import SimulatedReservations
from paictl.sim.policies.simulated_sharing import SimulatedSharing, sharing_of
from paictl.sim.view import JobView
from paictl.units import Millis
from paictl.workload.lentorder import Rank, Who
from paictl.workload.preemption import GroupTimes, PreemptionRules, SparingRules, VictimChoice, lost_time
from paictl.workload.usage import UsageKind, UsageSpan

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group
    from paictl.workload.windows import Windows

_GOLDEN: Final = (5**0.5 - 1) / 2
"""Fractional parts of its multiples are spread evenly, so any sequence of jobs has its share (`on_sigterm`)."""


class Hived(Policy):
    """Guaranteed jobs run on their VC's cells. Opportunistic jobs share the rest, weighted by quota. A guaranteed job
    preempts opportunistic jobs, and jobs of lower priority in its own VC.

    `--cluster` with a HiveD configuration gives cells and quotas. Example: `hived`, `hived:quotas=equal`.
    """

    id = "hived"
    title = "HiveD: cells for each tenant, no sharing anomaly"
    paper = "HiveD (OSDI'20); algorithm and decisions are those of the scheduler core"
    choices = (
        "within a VC, jobs are tried by priority, then by order of arrival; a job that does not fit is skipped",
        "a job of a VC without a promise, or with a promise that is too small, runs as opportunistic",
        "opportunistic jobs: the tenant with the least opportunistic use relative to its quota goes first (weighted "
        "max-min)",
        "a gang takes whole nodes and, for the remainder, part of one more",
        "a preempted job keeps its progress; `preempted_hours` is what it would lose otherwise",
    )
    Parameters = HivedParameters
    endures = True

    def __init__(self, parameters: HivedParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        promised = self.cells.promised
        self.tenants = {vc: Tenant(promised.get(vc, 0)) for vc in sorted(set(promised) | set(setup.tenants))}
        self._spare = SpareLines(self.tenants, parameters)
        self._runs: dict[int, JobView] = {}
        self._turns: dict[int, int] = {}
        """By job: its place in line; with `order=created` a preempted job gets a new one at the end."""
        self._last = 0
        self._look_ahead(parameters, setup.windows)
        self._preempted_devices = 0
        self._lost_work = 0
        """Device-milliseconds that preempted jobs had run since they started, or since their last checkpoint."""
        self._began: dict[int, Millis] = {}
        """By running job: when it started."""
        self._since: dict[int, Millis] = {}
        """By job whose devices a repair has changed: since when it has the present ones."""
        rules = PreemptionRules(VictimChoice(parameters.victims), {"": Millis(parameters.min_run_time)})
        sharing = sharing_of(self.cluster.spec, parameters.sharing)
        self._sharing = SimulatedSharing(self.cells, sharing, parameters.epoch, self._running)
        self.cells.repairs = parameters.repair == "member"
        self._repairs = MemberRepairs()
        self._month_end: Millis | None = None
        """When the month ends, if a job waits for it."""
        departments = self._sharing.rules.departments
        self._sparing = SparingRules(rules, self._times, self._present, departments)
        self._shields = bool(parameters.min_run_time)
        self._shield_end: Millis | None = None
        """When the next job has run for its minimum run time, so that stronger jobs may preempt it."""
        if rules or departments:
            self.cells.engine.sparing = self._sparing
        self._moves: SimulatedDefragmentation | None = None
        if parameters.defragment:
            every, lost, strained = Millis(parameters.defragment), self._lost_by, self._sharing.strained
            self._moves = SimulatedDefragmentation(self.cells, every, self.costs, lost, strained, self.cells.closed)

    def _look_ahead(self, parameters: HivedParameters, windows: Windows) -> None:
        """Set up what needs run-time limits: promised starts, maintenance windows, reservations."""
        self._starts: SimulatedStarts | None = None
        self._next_start: Millis | None = None
        """The next promised start of a job that is not the head of its line."""
        self._windows = windows
        self._window_end: Millis | None = None
        """When the next maintenance window ends, if any job waits."""
        reserved = SimulatedReservations(
            self.cells, parameters.reserved, self._windows, self._end_of, self._reservation_of
        )
        self._reserved = reserved if reserved else None
        self._reservation_change: Millis | None = None
        """When the next reservation begins or ends, if any job waits."""
        if self._windows or self._reserved:
            self.cells.closed = self._closed
        if parameters.backfill != "none" or self._windows or self._reserved:
            self.knows = frozenset({Knowledge.DURATION})
        if parameters.backfill != "none":
            self._starts = SimulatedStarts(
                self.cells,
                parameters.factor,
                self._runs,
                parameters.backfill,
                self._windows,
                self._reserved.kept if self._reserved else None,
            )

    def _end_of(self, group: str) -> Millis | None:
        """When the job of a group ends at the latest; None for a hypothetical group."""
        job = self._runs.get(self.cells.number_of(group))
        return None if job is None else Millis(self._began[job.number] + limit_of(job, self.p.factor))

    def _reservation_of(self, group: str) -> str:
        """The reservation that the job of a group is for."""
        job = self._runs.get(self.cells.number_of(group))
        return "" if job is None else job.reservation

    def _present(self) -> Millis:
        return self.now

    def _times(self, group: Group) -> GroupTimes | None:
        """When the job of a group of the core started, and its checkpoints; None if it does not run."""
        number = self.cells.number_of(group.name)
        began = self._began.get(number)
        return None if began is None else GroupTimes(began, self._checkpoints(number))

    def _checkpoints(self, number: int) -> Millis | None:
        """Interval at which a job saves its work; 0: it saves when it is preempted; None: never."""
        if number * _GOLDEN % 1 < self.p.on_sigterm:
            return Millis(0)
        return Millis(self.p.checkpoint) or None

    def make_placement(self) -> Placer:
        """The core, with the configuration of the cluster or one made for it."""
        spec = self.cluster.spec
        if spec.hived is not None:
            self.cells = Cells(self.cluster, from_text(spec.hived))
        else:
            sizes = [node.devices for node in spec.nodes]
            quotas = spec.quotas or shares(self.setup.tenants, sizes, equal=self.p.quotas == "equal")
            self.cells = Cells(self.cluster, for_nodes(self.cluster, quotas or {"all": self.cluster.size}))
        return self.cells

    # --- events

    def decide(self, moment: Trigger) -> Sequence[Action]:
        """Also note the failed devices and the next attempts that arrived, for the time of the decision."""
        self._repairs.begin(moment)
        return super().decide(moment)

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Free a job's devices, unless the rest of its gang keeps them for a repair."""
        after = self._repairs.next_attempt(job)
        if after is not None and self.cells.request(job).repair:
            spared = self.cells.lose(job, after, devices, self._repairs.failed)
            if spared:
                self._count(job, devices)
                self._lost(job, after, spared)
                return
        super().ended(job, devices)
        self._gone(job, len(devices))
        self._turns.pop(job.number, None)
        self._sharing.left(job)

    def _left_early(self, job: JobView) -> None:
        """Account for a job that loses its devices, perhaps before it has restarted after a move."""
        if self._moves is not None:
            self._moves.left(job, self._had_since(job), self.now)

    def _lost(self, job: JobView, after: JobView, spared: Devices) -> None:
        """Hand the spared devices of a job to its next attempt, which waits for the others."""
        del self._runs[job.number]
        self._runs[after.number], self._began[after.number] = after, self._began.pop(job.number)
        self._since[after.number] = self._since.pop(job.number)
        self._turns[after.number] = self._turns.pop(job.number)
        self._sharing.left(job)
        if self._starts is not None:
            self._starts.renumber(job, after)
        self.hold(after, spared)
        self._repairs.lost(after, self.now)

    def _lose_more(self) -> None:
        """Handle failures of devices that a gang under repair keeps; if none is left, the gang waits as a whole."""
        for job in self._repairs.waiting():
            devices = self.held(job)
            if self._repairs.failed.isdisjoint(devices):
                continue
            spared = self.cells.lose(job, job, devices, self._repairs.failed)
            if spared:
                self._count(job, devices)
                self.hold(job, spared)
            else:
                self._abandon(job)

    def _abandon(self, job: JobView) -> None:
        """Stop the repair of a gang: it gives up its remaining devices and waits as a whole."""
        self._repairs.drop(job, self.now)
        self._count(job, self.held(job))
        self.placement.give(self.held(job))
        self.let_go(job)
        self._gone(job, job.gpus)
        self._wait(job)

    def _count(self, job: JobView, devices: Devices) -> None:
        """Account for the devices that a job had until now, before it gets others."""
        self._ran(job, len(devices))
        self._left_early(job)
        self._since[job.number] = self.now

    def _ran(self, job: JobView, number: int) -> None:
        """Account for a job's use of `number` devices since it has had them."""
        if self._spare.by_use and not self.cells.guaranteed(job):
            self._spare.used.add(self._span(job, number))
        if self._sharing.rules.budgets:
            self._sharing.ran(self._span(job, number))

    def _mend(self) -> None:
        """Replace lost members before any other job gets a place; a gang runs again once it is whole."""
        for job in self._repairs.waiting():
            if not self._repairs.keeps(job):
                continue  # preempted by the repair of a gang before it
            victims: list[int] | None = None
            while victims is None or victims:
                before = self.held(job)
                devices, victims = self.cells.mend(job, before)
                if len(devices) > len(before):
                    self._count(job, before)
                self.hold(job, devices)
                for number in victims:
                    self._evict(self._runs[number])
            if len(devices) == job.gpus:
                self._repairs.whole(job, self.now)
                self.act(Start(job, devices))

    def _gone(self, job: JobView, number: int) -> None:
        self._runs.pop(job.number, None)
        if job.number in self._began:
            self._ran(job, number)
            self._left_early(job)
        self._began.pop(job.number, None)
        self._since.pop(job.number, None)
        if self._starts is not None:
            self._starts.gone(job)
        if self.cells.guaranteed(job):
            self.tenants[job.vc].changed = True
        else:
            self._spare.gone(job, number)
        self._spare.changed = True

    def hardware(self, failed: Devices, repaired: Devices) -> None:
        """Try all jobs again: cells of any tenant may be free elsewhere now."""
        self._lose_more()
        super().hardware(failed, repaired)
        for tenant in self.tenants.values():
            tenant.changed = True
        self._spare.changed = True

    def plan(self, moment: Trigger) -> None:
        """Try only jobs that an event can have helped: jobs of a VC do not depend on other VCs."""
        for job in moment.arrived:
            self._sharing.came(job)
            if self._repairs.keeps(job):
                continue
            if self._reserved:
                self._reserved.check(job)
            self._wait(job)
        self._mend()
        due = min((at for at in self._wakes() if at is not None), default=None)
        if (due is not None and self.now >= due) or self._reserved:  # other nodes may be open to a job now
            for tenant in self.tenants.values():
                tenant.changed = True
            others = bool(self._windows or self._reserved is not None or self._month_end is not None)
            self._spare.changed = self._spare.changed or others
        self._serve_changed()
        if self._moves is not None and self._moves.due(self.now):
            self._make_room(self._moves)

    def _serve_changed(self) -> None:
        while changed := [tenant for tenant in self.tenants.values() if tenant.changed]:
            tenant = changed[0] if self.p.order == "share" else min(changed, key=first_in_line)
            tenant.changed = False
            self._serve(tenant)
        while self._spare.changed:
            self._spare.changed = False
            self._serve_spare()

    def _make_room(self, moves: SimulatedDefragmentation) -> None:
        """Move gangs if that lets waiting jobs start, for one job after another."""
        for job in self._could_start():
            plan = None if job.number in self._runs else moves.plan(job, self._runs, self._began, self.now)
            if plan is not None:
                for move in plan.moves:
                    self._move(self._runs[int(move.key)], frozenset(plan.nodes), moves)
                for tenant in self.tenants.values():
                    tenant.changed = True
                self._spare.changed = True
                self._serve_changed()
                moves.made(job, started=job.number in self._runs)

    def _could_start(self) -> list[JobView]:
        """By kind of waiting jobs, the first that only a lack of devices holds back, in the order of service."""
        rows: list[tuple[bool, int, int, JobView]] = []
        for tenant in self.tenants.values():
            heaps = self._tried(tenant)
            rows += [(False, *row) for group in heaps for row in islice(self._startable(heaps, group), 1)]
        spare = (job for job in self._spare.firsts() if job.gpus <= self.placement.free)
        rows += [(True, 0, self._turns[job.number], job) for job in spare if not self._held_back(job)]
        jobs = [row[3] for row in sorted(rows, key=lambda row: row[:3])]
        reserved = self._reserved
        return [job for job in jobs if not reserved or not reserved.holds(job, limit_of(job, self.p.factor), self.now)]

    def _move(self, job: JobView, away: frozenset[str], moves: SimulatedDefragmentation) -> None:
        """Restart a gang on other nodes than `away`."""
        devices = self.held(job)
        self._ran(job, len(devices))
        lost = moves.moved(job, self._had_since(job), self._checkpoints(job.number), self.now)
        self._began[job.number] = self.now
        self._since.pop(job.number, None)
        if self._starts is not None:
            self._starts.moved(job, self.now)
        now_on = self.cells.move(job, devices, away)
        self.hold(job, now_on)
        self.act(Migrate(job, now_on, lost))

    def _lost_by(self, job: JobView) -> Millis:
        """The work that a job loses if it restarts now, in milliseconds."""
        since = self._had_since(job)
        works = since if self._moves is None else self._moves.works_from(job, since)
        return lost_time(works, self.now, self._checkpoints(job.number))

    def _had_since(self, job: JobView) -> Millis:
        """Since when a running job has its present devices."""
        return self._since.get(job.number, self._began[job.number])

    def wake(self) -> Millis | None:
        """When waiting jobs may start for another reason than the end of a job, or moves are planned for them."""
        self._shield_end = self._next_start = self._window_end = self._reservation_change = None
        self._month_end = self._sharing.month_end(self._firsts(), self.now)
        waiting = self._spare or any(tenant.heaps for tenant in self.tenants.values())
        if self._reserved and waiting:
            self._reservation_change = self._reserved.next_change(self.now)
        if self._windows and waiting:
            self._window_end = min((window.end for window in self._windows if window.end > self.now), default=None)
        if self._shields and any(tenant.heaps for tenant in self.tenants.values()):
            self._shield_end = self._sparing.next_end(self.cells.engine.state.groups.by_name)
        if self._starts is not None:
            self._next_start = self._starts.next_start(self.now)
        room = None if self._moves is None else self._moves.next(self.now, waits=bool(waiting and self._runs))
        return min((at for at in (*self._wakes(), room) if at is not None), default=None)

    def _wakes(self) -> tuple[Millis | None, ...]:
        return self._shield_end, self._next_start, self._window_end, self._month_end, self._reservation_change

    def _firsts(self) -> Iterator[JobView]:
        """The first waiting job of each kind."""
        yield from (heap[0][2] for tenant in self.tenants.values() for heap in tenant.heaps.values())
        yield from self._spare.firsts()

    def _wait(self, job: JobView) -> None:
        user = job.user if self._sharing.by_user else ""
        apart = (user, job.reservation, limit_of(job, self.p.factor)) if self._reserved else (user, "", 0)
        group = job.gpus, job.pod, job.gpu_type, job.pinned_cell, apart
        self._last += 1
        turn = self._turns[job.number] = job.number if self.p.order == "share" else self._last
        if self.cells.guaranteed(job):
            tenant = self.tenants[job.vc]
            heappush(tenant.heaps.setdefault(group, []), (-job.priority, turn, job))
            tenant.changed = True
        else:
            self._spare.add(group, job)

    # --- guaranteed

    def _serve(self, tenant: Tenant) -> None:
        stuck: set[Kind] = set()
        heaps = self._tried(tenant)
        while ahead := [(heap[0][:2], group) for group, heap in heaps.items() if group not in stuck]:
            group = min(ahead)[1]
            heap = heaps[group]
            rows = self._startable(heaps, group)
            row = next((row for row in rows if self._place(row[2])), None)
            if row is not None:
                take_out(heap, row)
                self._runs[row[2].number] = row[2]
                self._began[row[2].number] = self.now
                if self._starts is not None:
                    self._starts.began(row[2], self.now)
                    stuck.clear()  # another job may be the head now
                if not heap:
                    del tenant.heaps[group]
                heaps = self._tried(tenant)
                if self._reserved:  # cells of other jobs may be mapped elsewhere now
                    stuck.clear()
            else:
                stuck.add(group)

    def _place(self, job: JobView) -> bool:
        """Start a guaranteed job, preempting others if necessary; False if it has to wait."""
        if self._reserved and self._reserved.holds(job, limit_of(job, self.p.factor), self.now):
            return False
        return self.start(job) or self._evict_and_start(job)

    def _tried(self, tenant: Tenant) -> dict[Kind, list[Row]]:
        """The waiting jobs of a tenant, without the kinds that a budget or a limit holds back."""
        if not self._sharing.holds_back:
            return tenant.heaps
        return {group: heap for group, heap in tenant.heaps.items() if not self._held_back(heap[0][2])}

    def _startable(self, heaps: Mapping[Kind, list[Row]], group: Kind) -> Iterable[Row]:
        """The jobs of a group to try, in order; `heaps` are those of its tenant."""
        heap = heaps[group]
        if self._starts is None or group[-1][1]:  # a job for a reservation starts with the reservation
            yield from self._shorter(heap)
        elif (row := self._harmless(heaps, group)) is not None:
            yield row
            if self._windows and self._starts.head(row[2].vc, lambda: row[2]) == row[2].number:
                for other in self._shorter(heap):
                    if other is not row and not self._starts.delays(other[2], row[2], self.now):
                        yield other

    def _closed(self, job: JobView) -> frozenset[str]:
        """The nodes on which a job would run into a maintenance window, or that are reserved for others."""
        limit = limit_of(job, self.p.factor)
        return self._reserved.closed(job, limit, self.now) if self._reserved else self._windows.closed(self.now, limit)

    def _shorter(self, heap: list[Row]) -> Iterable[Row]:
        """The first job of a group, and each job that runs into fewer maintenance windows than all before it."""
        yield heap[0]
        if self._windows:
            least = self._crossed(heap[0][2])
            for row in sorted(heap, key=lambda entry: entry[:2])[1:]:
                if (crossed := self._crossed(row[2])) < least:
                    least = crossed
                    yield row

    def _crossed(self, job: JobView) -> int:
        limit = limit_of(job, self.p.factor)
        return sum(window.closes(self.now, limit) for window in self._windows)

    def _harmless(self, heaps: Mapping[Kind, list[Row]], group: Kind) -> Row | None:
        """The first job of a group that does not delay its tenant's promised start; the promised job if it is in it."""
        assert self._starts is not None  # noqa: S101 - the caller has checked it
        heap, heaps = heaps[group], {kind: heap for kind, heap in heaps.items() if not kind[-1][1]}
        if self._starts.promises_all:
            return self._starts.harmless((row for rows in heaps.values() for row in rows), heap, self.now)
        first = min((heap[0] for heap in heaps.values()), key=lambda row: row[:2])
        number = self._starts.head(first[2].vc, lambda: first[2])
        rows = (row for heap in heaps.values() for row in heap if row[2].number == number)
        head = next(rows, first)
        if head[0] > first[0]:  # a job of a higher priority has arrived and is now the first in line
            head = first
        if head in heap:
            return head
        if not self._starts.delays(heap[0][2], head[2], self.now):
            return heap[0]
        window = self._starts.window(head[2], self.now)
        short = (row for row in heap if window is not None and self._starts.limit(row[2]) <= window)
        return min(short, key=lambda row: row[:2], default=None)

    def _evict_and_start(self, job: JobView) -> bool:
        """Preempt jobs and start this one, if that helps."""
        victims = self.cells.victims(job, job.gpus)
        if victims is None:
            return False
        for number in victims if self.p.order == "share" else sorted(victims, key=lambda victim: self._turns[victim]):
            self._evict(self._runs[number])
        return self.start(job)

    def _evict(self, job: JobView) -> None:
        if self._repairs.keeps(job):
            self._abandon(job)
            return
        devices = self.held(job)
        self._preempted_devices += len(devices)
        self._lost_work += len(devices) * self._lost_by(job)
        self.placement.give(devices)
        self.let_go(job)
        self.act(Preempt(job))
        self._gone(job, len(devices))
        self._wait(job)

    # --- opportunistic

    def _serve_spare(self) -> None:
        stuck: set[Kind] = set()
        held: set[tuple[Kind, Who]] = set()
        while (first := self._spare.next(self.placement.free, self._turns, self._rank(), stuck, held)) is not None:
            group, owner = first
            line = self._spare.lines[group][owner]
            if self._held_back(line[0]):
                held.add(first)
                continue
            job = self._start_spare(line) if self.placement.free >= group[0] else None
            if job is None:
                stuck.add(group)
                continue
            self._spare.started(group, job)
            self._runs[job.number] = job
            self._began[job.number] = self.now

    def _start_spare(self, line: deque[JobView]) -> JobView | None:
        """Start the first job of a line, or one that runs into fewer maintenance windows; None if none starts."""
        rows = [(0, at, job) for at, job in enumerate(line)] if self._windows else [(0, 0, line[0])]
        if self._reserved and self._reserved.holds(line[0], limit_of(line[0], self.p.factor), self.now):
            return None  # all jobs in the line have the same reservation and limit
        return next((job for _, _, job in self._shorter(rows) if self.start(job)), None)

    def _held_back(self, job: JobView) -> bool:
        """Whether a budget or a limit keeps a job from free devices."""
        return self._sharing.holds_back and self._sharing.holds(job, self._spare.borrowed(), self.now)

    def _running(self) -> Iterator[UsageSpan]:
        """The use of the running jobs since they have had their devices."""
        return (self._span(job, len(self.held(job))) for job in self._runs.values())

    def _rank(self) -> Callable[[str, str, int], Rank]:
        """(tenant, user, devices) -> rank of an opportunistic job, the lowest first."""
        unused = self._sharing.unused(self._spare.borrowed()) if self._sharing.rules.departments else None
        running = (self._span(job, job.gpus) for job in self._runs.values() if not self.cells.guaranteed(job))
        return self._spare.rank(self.now, running, unused)

    def _span(self, job: JobView, devices: int) -> UsageSpan:
        """A job's use of `devices` devices since it has had them."""
        kind = UsageKind.GUARANTEED if self.cells.guaranteed(job) else UsageKind.OPPORTUNISTIC
        return UsageSpan(kind, job.vc, job.user, "", "", devices, self._had_since(job), self.now)

    def counted(self) -> Mapping[str, float]:
        """Preempted devices, device hours of work lost by that, and counters of promises, repairs and moves."""
        promised = {} if self._starts is None else self._starts.counted()
        lost = self._lost_work / 3_600_000
        counted = {"preempted_devices": self._preempted_devices, "preempted_hours": round(lost, 6)}
        moved = {} if self._moves is None else self._moves.counted()
        return {**counted, **promised, **self._repairs.counted(), **moved}

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """How often a member of the job was replaced, and how long it waited for that."""
        return self._repairs.notes(job)
