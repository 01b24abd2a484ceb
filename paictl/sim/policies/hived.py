"""HiveD: tenants are promised cells; the scheduler core of this project decides, on simulated time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, Literal

import yaml

from paictl.frozen import frozen
from paictl.sim.actions import Preempt, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.base import Placer
from paictl.sim.placement.cells import Cells, for_nodes, from_text
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.policies.promised_starts import Row, SimulatedStarts, limit_of
from paictl.sim.view import JobView
from paictl.units import Millis
from paictl.workload.budgets import SECTION
from paictl.workload.departments import Departments, UnusedPromises
from paictl.workload.devicelimits import BorrowLimits
from paictl.workload.lending import LendLimits, LendUse, lend_use
from paictl.workload.lentorder import DecayedUse, Rank, Turns, Who
from paictl.workload.preemption import GroupTimes, PreemptionRules, SparingRules, VictimChoice, lost_time
from paictl.workload.sharing import Sharing, read_sharing
from paictl.workload.usage import UsageKind, UsageSpan

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group

Kind = tuple[int, int, str | None, str]
"""Waiting jobs that are alike to the core: (devices, devices of a pod, device type, pinned cell)."""


_GOLDEN: Final = (5**0.5 - 1) / 2
"""Multiples of it, without their whole parts, are spread evenly: so any row of jobs has its share."""


@frozen
class HivedParameters(Parameters):
    """Where the quotas are from if the cluster has none."""

    quotas: Literal["demand", "equal"] = parameter(
        "demand",
        "quotas without a configuration: whole nodes by the tenants' GPU time in the trace, or the same number "
        "for each",
    )
    order: Literal["share", "created"] = parameter(
        "share",
        "of one priority. share: the tenant that uses least outside its quota, a preempted job keeps its turn; "
        "created: as the placer, whoever was created first, and a preempted job is created again",
    )
    backfill: Literal["none", "easy", "conservative"] = parameter(
        "none",
        "easy: the first waiting guaranteed job of each tenant gets a promised start that others may not delay; "
        "conservative: each of the first 64 does",
    )
    factor: float = parameter(
        1.0,
        "with backfill or planned outages: run-time limit of a job without one, as a multiple of its duration",
        least=1,
    )
    victims: Literal["fewest-devices", "least-loss"] = parameter(
        "fewest-devices", "least-loss: of the jobs that may be preempted those go that lose the least work"
    )
    min_run_time: Span = parameter(
        Span(0), "for how long a job that started is not preempted by other jobs of its tenant, and by others last"
    )
    opportunistic_order: Literal["none", "decayed-use"] = parameter(
        "none", "decayed-use: the tenant that used least outside its quota lately goes first, then the user in it"
    )
    half_life: Span = parameter(Span(86_400_000), "with opportunistic-order: after how long use counts half")
    checkpoint: Span = parameter(
        Span(0), "how often jobs save a checkpoint, which limits what a preemption loses; 0: never"
    )
    on_sigterm: float = parameter(
        0.0, "share of the jobs that save their work when they are preempted, and lose none of it", least=0, most=1
    )
    sharing: Literal["config", "ignore"] = parameter(
        "config",
        "config: obey departments, lend limits and borrow limits in the section sharing beside the cluster's "
        "hivedscheduler configuration; ignore: decide as without them",
    )


class Tenant:
    """The guaranteed jobs of one VC that wait, by priority and order; and what it runs outside its quota."""

    __slots__ = ("changed", "heaps", "spare", "weight")

    def __init__(self, weight: int) -> None:
        self.heaps: dict[Kind, list[tuple[int, int, JobView]]] = {}
        self.changed = False
        """Whether something happened that may let one of them start."""
        self.weight = max(weight, 1)
        self.spare = 0
        """Devices of its opportunistic jobs."""


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
        self._spare: dict[Kind, dict[Who, deque[JobView]]] = {}
        """Opportunistic jobs that wait, by group, VC and, where use decides who goes first, user."""
        self._by_use = parameters.opportunistic_order == "decayed-use"
        self._used = DecayedUse(Millis(max(1000, parameters.half_life)))
        """What opportunistic jobs that do not run any more have used."""
        self._lent: Counter[Who] = Counter()
        """Devices of opportunistic jobs that run."""
        self._recent: tuple[Millis, Counter[Who]] | None = None
        self._spare_changed = False
        self._runs: dict[int, JobView] = {}
        self._turns: dict[int, int] = {}
        """By job: its place in line, where a job that was preempted goes behind those that came before."""
        self._last = 0
        self._starts: SimulatedStarts | None = None
        self._next_start: Millis | None = None
        """When the next job starts at the latest that is promised a start and not the head of its line."""
        self._windows = setup.windows
        self._window_end: Millis | None = None
        """When the next maintenance window ends, if any job waits."""
        if self._windows:
            self.cells.closed = self._closed
        if parameters.backfill != "none" or self._windows:
            self.knows = frozenset({Knowledge.DURATION})
        if parameters.backfill != "none":
            self._starts = SimulatedStarts(
                self.cells, parameters.factor, self._runs, parameters.backfill, self._windows
            )  # fmt: skip
        self._preempted_devices = 0
        self._lost_work = 0
        """Device-milliseconds that preempted jobs had run since they started, or since their last checkpoint."""
        self._began: dict[int, Millis] = {}
        """When jobs that run started, by number."""
        rules = PreemptionRules(VictimChoice(parameters.victims), {"": Millis(parameters.min_run_time)})
        self._departments, self._lending, self._borrowing = self._read_sharing()
        self._stand: tuple[int, LendUse] | None = None
        """How the promises stand at a version of the core."""
        self._sparing = SparingRules(rules, self._times, self._present, self._departments)
        self._shields = bool(parameters.min_run_time)
        self._shield_end: Millis | None = None
        """When the next job has run for its minimum run time, so that stronger ones may ask again."""
        if rules or self._departments:
            self.cells.engine.sparing = self._sparing

    def _read_sharing(self) -> tuple[Departments, LendLimits, BorrowLimits]:
        """What the configuration says of lending, if it counts; all of it can be written into a snapshot."""
        spec, rules = self.cluster.spec, Sharing()
        if self.p.sharing == "config" and spec.sharing is not None:
            rules = read_sharing(yaml.safe_load(spec.sharing), f"{spec.text}: {SECTION}")
        limits = LendLimits(dict(rules.lending.devices)), BorrowLimits(dict(rules.borrowing.devices))
        return rules.departments, *limits

    def _present(self) -> Millis:
        return self.now

    def _times(self, group: Group) -> GroupTimes | None:
        """Since when the job of a group of the core runs."""
        number = int(group.name)
        began = self._began.get(number)
        return None if began is None else GroupTimes(began, self._checkpoints(number))

    def _checkpoints(self, number: int) -> Millis | None:
        """How often a job saves its work; 0: when it is preempted."""
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

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Room for its own VC, and for whoever is opportunistic."""
        super().ended(job, devices)
        self._gone(job, len(devices))
        self._turns.pop(job.number, None)

    def _gone(self, job: JobView, number: int) -> None:
        self._runs.pop(job.number, None)
        if self._by_use and not self.cells.guaranteed(job):
            self._lent[self._owner(job)] -= number
            self._used.add(self._span(job, number))
        self._began.pop(job.number, None)
        if self._starts is not None:
            self._starts.gone(job)
        if self.cells.guaranteed(job):
            self.tenants[job.vc].changed = True
        else:
            self.tenants[job.vc].spare -= number
        self._spare_changed = True

    def hardware(self, failed: Devices, repaired: Devices) -> None:
        """Cells of any tenant may be free elsewhere now."""
        super().hardware(failed, repaired)
        for tenant in self.tenants.values():
            tenant.changed = True
        self._spare_changed = True

    def plan(self, moment: Trigger) -> None:
        """Only those whom an event can have helped are looked at: in a VC nobody depends on other VCs."""
        for job in moment.arrived:
            self._wait(job)
        due = min((at for at in (self._shield_end, self._next_start, self._window_end) if at is not None), default=None)
        if due is not None and self.now >= due:
            for tenant in self.tenants.values():
                tenant.changed = True
            self._spare_changed = self._spare_changed or bool(self._windows)
        while changed := [tenant for tenant in self.tenants.values() if tenant.changed]:
            tenant = changed[0] if self.p.order == "share" else min(changed, key=_first)
            tenant.changed = False
            self._serve(tenant)
        while self._spare_changed:
            self._spare_changed = False
            self._serve_spare()

    def wake(self) -> Millis | None:
        """When jobs that run may be preempted by others of their tenant that wait, a job is promised to start, or a
        maintenance window ends that jobs wait for."""
        self._shield_end = self._next_start = self._window_end = None
        if self._windows and (self._spare or any(tenant.heaps for tenant in self.tenants.values())):
            self._window_end = min((one.end for one in self._windows if one.end > self.now), default=None)
        if self._shields and any(tenant.heaps for tenant in self.tenants.values()):
            self._shield_end = self._sparing.next_end(self.cells.engine.state.groups.by_name)
        if self._starts is not None:
            self._next_start = self._starts.next_start(self.now)
        times = (self._shield_end, self._next_start, self._window_end)
        return min((at for at in times if at is not None), default=None)

    def _wait(self, job: JobView) -> None:
        group = job.gpus, job.pod, job.gpu_type, job.pinned_cell
        self._last += 1
        turn = self._turns[job.number] = job.number if self.p.order == "share" else self._last
        if self.cells.guaranteed(job):
            tenant = self.tenants[job.vc]
            heappush(tenant.heaps.setdefault(group, []), (-job.priority, turn, job))
            tenant.changed = True
        else:
            self._spare.setdefault(group, {}).setdefault(self._owner(job), deque()).append(job)
            self._spare_changed = True

    def _owner(self, job: JobView) -> Who:
        return job.vc, job.user if self._by_use else ""

    # --- guaranteed

    def _serve(self, tenant: Tenant) -> None:
        stuck: set[Kind] = set()
        while ahead := [(heap[0][:2], group) for group, heap in tenant.heaps.items() if group not in stuck]:
            group = min(ahead)[1]
            heap = tenant.heaps[group]
            rows = self._startable(tenant, group)
            row = next((one for one in rows if self.start(one[2]) or self._evict_and_start(one[2])), None)
            if row is not None:
                _remove(heap, row)
                self._runs[row[2].number] = row[2]
                self._began[row[2].number] = self.now
                if self._starts is not None:
                    self._starts.began(row[2], self.now)
                    stuck.clear()  # another may be the head now
                if not heap:
                    del tenant.heaps[group]
            else:
                stuck.add(group)

    def _startable(self, tenant: Tenant, group: Kind) -> Iterable[Row]:
        """The jobs of a group that are tried, in order."""
        heap = tenant.heaps[group]
        if self._starts is None:
            yield from self._shorter(heap)
        elif (row := self._harmless(tenant, group)) is not None:
            yield row
            if self._windows and self._starts.head(row[2].vc, lambda: row[2]) == row[2].number:
                for other in self._shorter(heap):
                    if other is not row and not self._starts.delays(other[2], row[2], self.now):
                        yield other

    def _closed(self, job: JobView) -> frozenset[str]:
        """The nodes on which a job would still run when a maintenance window begins."""
        return self._windows.closed(self.now, limit_of(job, self.p.factor))

    def _shorter(self, heap: list[Row]) -> Iterable[Row]:
        """The first job of a group, and each that fewer windows keep from nodes than those before it."""
        yield heap[0]
        if self._windows:
            least = self._crossed(heap[0][2])
            for row in sorted(heap, key=lambda one: one[:2])[1:]:
                if (crossed := self._crossed(row[2])) < least:
                    least = crossed
                    yield row

    def _crossed(self, job: JobView) -> int:
        limit = limit_of(job, self.p.factor)
        return sum(window.closes(self.now, limit) for window in self._windows)

    def _harmless(self, tenant: Tenant, group: Kind) -> tuple[int, int, JobView] | None:
        """The first job of a group that does not delay its tenant's promised start; the promised one if it is here."""
        assert self._starts is not None  # noqa: S101 - asked before
        heap = tenant.heaps[group]
        if self._starts.promises_all:
            return self._starts.harmless((row for rows in tenant.heaps.values() for row in rows), heap, self.now)
        first = min((heap[0] for heap in tenant.heaps.values()), key=lambda row: row[:2])
        number = self._starts.head(first[2].vc, lambda: first[2])
        rows = (row for heap in tenant.heaps.values() for row in heap if row[2].number == number)
        head = next(rows, first)
        if head[0] > first[0]:  # a job of a higher priority has come: it is the first in line now
            head = first
        if head in heap:
            return head
        if not self._starts.delays(heap[0][2], head[2], self.now):
            return heap[0]
        window = self._starts.window(head[2], self.now)
        short = (row for row in heap if window is not None and self._starts.limit(row[2]) <= window)
        return min(short, key=lambda row: row[:2], default=None)

    def _evict_and_start(self, job: JobView) -> bool:
        """Start a job in place of others, if that helps."""
        victims = self.cells.victims(job, job.gpus)
        if victims is None:
            return False
        for number in victims if self.p.order == "share" else sorted(victims, key=lambda one: self._turns[one]):
            self._evict(self._runs[number])
        return self.start(job)

    def _evict(self, job: JobView) -> None:
        devices = self.held(job)
        self._preempted_devices += len(devices)
        lost = lost_time(self._began[job.number], self.now, self._checkpoints(job.number))
        self._lost_work += len(devices) * lost
        self.placement.give(devices)
        self.let_go(job)
        self.act(Preempt(job))
        self._gone(job, len(devices))
        self._wait(job)

    # --- opportunistic

    def _serve_spare(self) -> None:
        stuck: set[Kind] = set()
        held: set[tuple[Kind, Who]] = set()
        while (found := self._next_spare(stuck, held)) is not None:
            group, who = found
            line = self._spare[group][who]
            if self._held_back(line[0]):
                held.add(found)
                continue
            job = self._start_spare(line) if self.placement.free >= group[0] else None
            if job is None:
                stuck.add(group)
                continue
            line.remove(job)
            self._runs[job.number] = job
            self._began[job.number] = self.now
            self.tenants[job.vc].spare += job.gpus
            self._lent[who] += job.gpus
            if not line:
                del self._spare[group][who]
                if not self._spare[group]:
                    del self._spare[group]

    def _start_spare(self, line: deque[JobView]) -> JobView | None:
        """Start the first job of a line, or one that ends before more of the windows; None if none starts."""
        rows = [(0, at, job) for at, job in enumerate(line)] if self._windows else [(0, 0, line[0])]
        return next((job for _, _, job in self._shorter(rows) if self.start(job)), None)

    def _next_spare(self, stuck: set[Kind], held: set[tuple[Kind, Who]]) -> tuple[Kind, Who] | None:
        """The first job of the tenant that uses least, by its quota, or has lately; or the first of all.

        With departments, jobs go before all others for which there are unused devices in theirs.
        """
        free, rank = self.placement.free, self._rank()
        ahead = [
            (rank(*who, group[0]), self._turns[line[0].number], group, who)
            for group, lines in self._spare.items()
            if group not in stuck and group[0] <= free
            for who, line in lines.items()
            if (group, who) not in held
        ]
        return min(ahead, key=lambda row: row[:2])[2:] if ahead else None

    def _held_back(self, job: JobView) -> bool:
        """Whether a limit keeps an opportunistic job from devices that are free."""
        if self._borrowing.refusal(job.vc, job.gpus, self.tenants[job.vc].spare) is not None:
            return True
        return bool(self._lending) and self._lending.refusal(job.vc, job.gpus, self._use()) is not None

    def _use(self) -> LendUse:
        """How the promises stand; a job of a tenant that was promised nothing borrows for itself."""
        version = self.cells.engine.version
        if self._stand is None or self._stand[0] != version:
            borrowed = {vc: tenant.spare for vc, tenant in self.tenants.items() if tenant.spare}
            self._stand = version, replace(lend_use(self.cells.engine.state), borrowed=borrowed)
        return self._stand[1]

    def _unused(self) -> UnusedPromises | None:
        """What departments leave unused; None where there are none."""
        if not self._departments:
            return None
        use = self._use()
        return UnusedPromises(self._departments, use.promised, use.used)

    def _rank(self) -> Callable[[str, str, int], Rank]:
        """Whose opportunistic jobs go first: less is earlier."""
        unused = self._unused()
        if not self._by_use:
            by_share, tenants = self.p.order == "share", self.tenants
            if unused is None:
                return lambda vc, _user, _devices: (0, by_share * tenants[vc].spare / tenants[vc].weight, 0)
            return lambda vc, _user, devices: (
                unused.of(vc, devices).level, by_share * tenants[vc].spare / tenants[vc].weight, 0
            )  # fmt: skip
        if self._recent is None or self._recent[0] != self.now:
            running = (self._span(job, job.gpus) for job in self._runs.values() if not self.cells.guaranteed(job))
            self._recent = self.now, self._used.until(self.now, running)
        weights = {vc: tenant.weight for vc, tenant in self.tenants.items()}
        return Turns(self._recent[1], self._lent, weights, self._used.half_life, unused).rank

    def _span(self, job: JobView, devices: int) -> UsageSpan:
        """What an opportunistic job has used since it started."""
        kind, began = UsageKind.OPPORTUNISTIC, self._began[job.number]
        return UsageSpan(kind, job.vc, job.user, "", "", devices, began, self.now)

    def counted(self) -> Mapping[str, float]:
        """Devices taken from jobs by preemption, and the device hours of work that this lost."""
        promised = {} if self._starts is None else self._starts.counted()
        lost = self._lost_work / 3_600_000
        return {"preempted_devices": self._preempted_devices, "preempted_hours": round(lost, 6), **promised}


def _first(tenant: Tenant) -> tuple[int, int]:
    """Priority and turn of the first job that waits; behind all others if none does."""
    return min((heap[0][:2] for heap in tenant.heaps.values()), default=(1, 0))


def _remove(heap: list[tuple[int, int, JobView]], row: tuple[int, int, JobView]) -> None:
    if heap[0] is row:
        heappop(heap)
    else:
        heap.remove(row)
        heapify(heap)


def shares(tenants: Mapping[str, int], sizes: Sequence[int], *, equal: bool) -> dict[str, int]:
    """Devices for each tenant, in whole nodes of these sizes: one for each, the others by GPU time (or alike).

    Tenants without GPU time count as one device-millisecond; where nodes are fewer than tenants the largest get one.
    """
    order = sorted(tenants, key=lambda vc: (-tenants[vc], vc))
    given: dict[str, list[int]] = {vc: [] for vc in order}
    need = {vc: 1 if equal else max(1, tenants[vc]) for vc in order}
    for number, size in enumerate(sizes):
        if number < len(order):
            given[order[number]].append(size)
        elif order:
            # the one who has least by what it needs (highest averages, as seats in parliaments)
            poorest = min(order, key=lambda vc: (Fraction(sum(given[vc]) + size, need[vc]), vc))
            given[poorest].append(size)
    return {vc: sum(given[vc]) for vc in sorted(order)}
