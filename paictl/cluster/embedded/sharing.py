"""What holds jobs of a cluster on this machine back beside the scheduler: budgets and limits for users.

The world asks before a gang is tried. Everything follows from the world's state and its clock, so a replay of the
command log holds back the same jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from paictl.cluster.admission import MOST_OF_USER
from paictl.cluster.embedded.jobs import Timer
from paictl.cluster.figures import SharingFigures
from paictl.cluster.interface import EventKind, PromisedStart
from paictl.cluster.jobwords import refuse_held, refuse_many_tasks
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.sim.loop import EventPriority
from paictl.units import Millis, instant, rfc3339
from paictl.workload.backfill import GRACE, BackfillMode
from paictl.workload.budgets import EACH, BudgetLevel, BudgetState, MonthUse, month_of, next_month
from paictl.workload.departments import DevicesInUse, UnusedPromises, UsedDevices
from paictl.workload.devicelimits import BorrowedDevices, HeldDevices, devices_of
from paictl.workload.lending import LendUse, lend_use, promises_by_vc
from paictl.workload.lentorder import DecayedUse, LentDevices, LineAhead, Turns, Who
from paictl.workload.preemption import GroupTimes, SparingRules
from paictl.workload.sharing import Sharing, SharingUse
from paictl.workload.startpromises import StartPromises
from paictl.workload.tasklimits import TaskLimits
from paictl.workload.usagereport import HOUR

if TYPE_CHECKING:
    from paictl.cluster.embedded.dispatch import Dispatcher
    from paictl.cluster.embedded.jobs import LiveJob
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.sim.loop import EventLoop
    from paictl.workload.lifecycle import TaskRef
    from paictl.workload.usage import UsageLedger, UsageSpan
    from paictl.workload.windows import Windows

_KINDS: Final = {BudgetLevel.WARNING: EventKind.BUDGET_WARNING, BudgetLevel.SPENT: EventKind.BUDGET_SPENT}


class SharedWorld(Protocol):
    """What is needed of a world."""

    epoch: Millis
    usage: UsageLedger
    dispatcher: Dispatcher
    loop: EventLoop[Timer]
    pods: dict[str, tuple[str, TaskRef]]
    jobs: dict[str, LiveJob]
    windows: Windows

    @property
    def now(self) -> Millis:
        """The world's present."""


class WorldSharing:
    """Holds back by what the scheduler has loaded; with nothing loaded it only counts the month's use."""

    def __init__(self, world: SharedWorld, say: Callable[..., None]) -> None:
        self.rules = Sharing()
        self.month: MonthUse | None = MonthUse()
        """None where the state of an earlier version does not say it."""
        self._world = world
        self._say = say
        """Notes an event of the world."""
        self._entered = 0
        """Closed spans of the ledger that are in `month`."""
        self.sparing: SparingRules | None = None
        """What the core asks about groups that run, once rules are loaded."""
        self._held: HeldDevices | None = None
        self._borrowed: BorrowedDevices | None = None
        self._used: tuple[Millis, Counter[tuple[str, str]]] | None = None
        """The month's use at an instant: within one nothing is added to it."""
        self._recent: DecayedUse | None = None
        """What was used without a guarantee, where that decides who goes first."""
        self._lent: LentDevices | None = None
        self._used_devices: DevicesInUse | None = None
        self._recently: tuple[Millis, Counter[Who]] | None = None
        """The recent use at an instant: within one nothing is added to it."""
        self._levels: dict[str, str] = {}
        """What was said last of a budget: month and level."""
        self._heads: dict[str, str] = {}
        """Groups with a promised start by virtual cluster, as they were written down."""
        self._planned: dict[str, dict[str, Millis]] = {}
        """The promised starts by virtual cluster and group, where all gangs in line have one, as written down."""
        self._starts: dict[str, Millis] = {}
        """The start that each of them was told."""
        self._lost: dict[str, str] = {}
        """Of those that have none any more the reason that they were told."""

    # --- what is loaded

    def load(self, rules: Sharing) -> None:
        """The scheduler starts with these rules."""
        self.rules, self._held, self._borrowed, self._lent, self._used_devices = rules, None, None, None, None
        dispatcher = self._world.dispatcher
        self._remember_use()
        dispatcher.turns = self.turns if rules.orders else None
        dispatcher.obstacle, dispatcher.noted = self.obstacle, self._note
        if dispatcher.backfill is not None:
            self._heads, self._planned = dispatcher.backfill.heads, dispatcher.backfill.planned
        dispatcher.backfill = StartPromises(rules.backfill, self.end_of) if rules.backfill else None
        if dispatcher.backfill is not None:
            dispatcher.backfill.heads, dispatcher.backfill.reserved = dict(self._heads), dispatcher.reserved
            dispatcher.backfill.planned = {vc: dict(planned) for vc, planned in self._planned.items()}
        self.sparing = SparingRules(rules.preemption, self._times, lambda: self._world.now, rules.departments)
        dispatcher.spare(self.sparing if rules.chooses_victims else None)
        by_owner = bool(rules) or rules.orders
        if by_owner or dispatcher.waiting.owner is not None:
            dispatcher.hold_by(self.owner if by_owner else None)

    def owner(self, request: PodRequest) -> str:
        """The user of a pod that waits or runs."""
        return self._user(request.uid)

    def _user(self, uid: str) -> str:
        known = self._world.pods.get(uid)
        return known[0].partition("~")[0] if known is not None else ""

    # --- what is used

    @property
    def now(self) -> datetime:
        """The world's present."""
        return datetime.fromtimestamp((self._world.epoch + self._world.now) / 1000, UTC)

    def lend_use(self) -> LendUse | None:
        """How the promises stand, for lend limits; None without a scheduler."""
        engine = self._world.dispatcher.engine
        return None if engine is None else lend_use(engine.state)

    def count_month(self, closed: Callable[[Millis, Millis], Iterable[UsageSpan]]) -> None:
        """Know the month's use of a cluster of an earlier version, which did not note it, by its books."""
        start = Millis(month_of(Millis(self._world.epoch + self._world.now)) - self._world.epoch)
        self.month = MonthUse()
        for span in closed(start, self._world.now):
            self.month.add(span, self._world.epoch)

    def enter(self) -> MonthUse:
        """The month's use with every span that has been closed."""
        if self.month is None:
            raise ValueError("the use of this month is not known")
        spans = self._world.usage.closed
        for span in spans[self._entered :]:
            self.month.add(span, self._world.epoch)
            if self._recent is not None:
                self._recent.add(span)
        self._entered = len(spans)
        return self.month

    def used(self) -> Counter[tuple[str, str]]:
        """Device-milliseconds of the month by (virtual cluster, user), until now."""
        now = self._world.now
        if self._used is None or self._used[0] != now:
            open_spans = self._world.usage.open_spans(now)
            self._used = now, self.enter().until(now, self._world.epoch, open_spans)
        return self._used[1]

    def held(self) -> Mapping[tuple[str, str], int]:
        """Devices with a guarantee by (virtual cluster, user)."""
        engine = self._world.dispatcher.engine
        if engine is None:
            return {}
        if self._held is None:
            self._held = HeldDevices(self._user)
            self._held.start(engine.state.groups.by_name)
        return self._held.devices

    def borrowed(self) -> Mapping[str, int]:
        """Devices without a guarantee by virtual cluster."""
        engine = self._world.dispatcher.engine
        if engine is None:
            return {}
        if self._borrowed is None:
            self._borrowed = BorrowedDevices()
            self._borrowed.start(engine.state.groups.by_name)
        return self._borrowed.devices

    # --- who goes first

    def _remember_use(self) -> None:
        """Count recent use from now on if it decides who goes first, and no more if not."""
        if self.month is not None:
            self.enter()  # what ended before belongs to what was counted before
        order, self._recently = self.rules.order, None
        if order is None:
            self._recent = None
        elif self._recent is None:
            self._recent = DecayedUse(order.half_life)
        else:
            self._recent.change(order.half_life, self._world.now)

    def turns(self) -> Turns | None:
        """Who of the opportunistic gangs goes first now; None: whoever was submitted first."""
        engine, order = self._world.dispatcher.engine, self.rules.order
        if engine is None or not self.rules.orders:
            return None
        promised = promises_by_vc(engine.state)
        unused = self._unused(engine, promised) if self.rules.departments else None
        if order is None or self._recent is None:
            return None if unused is None else Turns.by_departments(unused)
        if self._lent is None:
            self._lent = LentDevices(self._user)
            self._lent.start(engine.state.groups.by_name)
        now = self._world.now
        if self._recently is None or self._recently[0] != now:
            self.enter()
            self._recently = now, self._recent.until(now, self._world.usage.open_spans(now))
        return Turns(self._recently[1], self._lent.devices, promised, order.half_life, unused)

    def _unused(self, engine: Engine, promised: Mapping[str, int]) -> UnusedPromises:
        """What departments leave unused."""
        return UnusedPromises(self.rules.departments, promised, self._in_use(engine))

    def _in_use(self, engine: Engine) -> UsedDevices:
        """Devices of groups by virtual cluster."""
        if self._used_devices is None:
            self._used_devices = DevicesInUse()
            self._used_devices.start(engine.state.groups.by_name)
        return self._used_devices.devices

    def line_ahead(self, request: PodRequest, user: str) -> LineAhead | None:
        """Whose gangs are tried before one that waits; None if nobody's are for their departments or what they used."""
        turns = None if request.guaranteed else self.turns()
        if turns is None:
            return None
        waiting = self._world.dispatcher.waiting_opportunistic()
        gangs = [(request.vc, self.owner(request), devices_of(request.members)) for request in waiting]
        return turns.ahead((request.vc, user, devices_of(request.members)), gangs)

    def _note(self, outcomes: Sequence[object]) -> None:
        for counted in (self._held, self._borrowed, self._lent, self._used_devices):
            if counted is not None:
                counted.note(outcomes)

    def figures(self) -> SharingFigures:
        """Budgets, limits and what is lent now, for the metrics; nothing without a scheduler."""
        engine, rules = self._world.dispatcher.engine, self.rules
        if engine is None:
            return SharingFigures()
        promised, used, borrowed = promises_by_vc(engine.state), self._in_use(engine), self.borrowed()
        lendable = rules.lending.lendable(lend_use(engine.state, promised, used)) if rules.lending else {}
        recent: Counter[str] = Counter()
        if rules.order is not None and self._recent is not None:
            self.enter()
            recent.update(dict.fromkeys(promised, 0))
            for (vc, _), amount in self._recent.until(
                self._world.now, self._world.usage.open_spans(self._world.now)
            ).items():
                recent[vc] += amount
        return SharingFigures(
            tuple(rules.budgets.states(self.used())) if rules.budgets else (),
            tuple(
                (vc, user, devices, most)
                for (vc, user), devices in sorted(self.held().items())
                if (most := rules.limits.of(vc, user)) is not None
            ),
            tuple((vc, borrowed.get(vc, 0), most) for vc, most in sorted(rules.borrowing.devices.items())),
            tuple((vc, lendable.get(vc, 0), most) for vc, most in sorted(rules.lending.devices.items())),
            recent,
            tuple(rules.departments.use(promised, used)),
        )

    # --- who is preempted

    def _times(self, group: Group) -> GroupTimes | None:
        """Since when a group runs; None if none of its pods does."""
        pods = [self._world.pods[uid] for row in group.pods for uid in row if uid in self._world.pods]
        job = next((self._world.jobs[key] for key, _ in pods if key in self._world.jobs), None)
        if job is None:
            return None
        runs = (job.runs.get((ref.role, ref.index)) for _, ref in pods)
        began = min((run.started for run in runs if run is not None and run.ended is None), default=None)
        return None if began is None else GroupTimes(began, job.job.checkpoints)

    def _wake_after_shield(self) -> None:
        """Ask again when the next group may be preempted for which a stronger one of its virtual cluster waits."""
        if self.sparing is None or not self.rules.preemption.min_run_times:
            return  # before the engine is asked for, which may have to be restored
        engine = self._world.dispatcher.engine
        if engine is None:
            return
        waiting = self._world.dispatcher.waiting.strongest()
        groups = engine.state.groups.by_name
        weaker = {
            name: group for name, group in groups.items() if group.priority < waiting.get(group.vc, OPPORTUNISTIC)
        }
        at = self.sparing.next_end(weaker)
        known = (due for due, _, timer in self._world.loop.pending() if timer.kind == "shield")
        if at is not None and at not in known:
            self._world.loop.schedule(at, EventPriority.HARDWARE, Timer("shield", ""))

    # --- what is promised

    def end_of(self, group: str) -> Millis | None:
        """When a group that holds devices ends at the latest; None: its job may run for ever."""
        job = self._job_of(group)
        if job is None or job.job.max_run_time is None:
            return None
        began = self._world.now if job.started is None else job.started
        return Millis(began + job.job.max_run_time)

    def reservation_of(self, group: str) -> str:
        """The reservation that a group which holds devices is for; empty: for none."""
        job = self._job_of(group)
        return "" if job is None else job.job.reservation

    def _job_of(self, group: str) -> LiveJob | None:
        """The job of a group that holds devices."""
        engine = self._world.dispatcher.engine
        known = None if engine is None else engine.state.groups.by_name.get(group)
        uids = () if known is None else (*(uid for row in known.pods for uid in row if uid), *sorted(known.preempting))
        keys = (self._world.pods[uid][0] for uid in uids if uid in self._world.pods)
        return next((self._world.jobs[key] for key in keys if key in self._world.jobs), None)

    def _tell_starts(self) -> None:
        """Say who has a promised start, and whose start is later than it was promised."""
        made = self._world.dispatcher.starts(self._world.now, self._world.windows)
        starts = {
            promise.group: (promise.gang.request, promise.at)
            for line in made.values()
            for promise in line.promises
            if promise.at is not None and promise.at > self._world.now
        }
        dispatcher = self._world.dispatcher
        for group in [group for group in self._starts if group not in starts and not dispatcher.vc_of(group)]:
            del self._starts[group]  # who waits on may get another start, and is told how late that is
        self._tell_lost({group: at for group, at in self._starts.items() if group not in starts})
        for group, (request, at) in starts.items():
            before = self._starts.get(group)
            again = group in self._lost
            if before is not None and not again and before < at <= max(before, self._world.now) + GRACE:
                continue  # while a job is past its limit, starts move with the clock
            self._starts[group] = at
            when = rfc3339(instant(self.epoch, at))
            if before is None or again:
                message = f"starts at {when} at the latest"
                self._say(EventKind.START_PROMISED, f"job/{self._job(request.uid)}", message, at=when)
            elif at > before:
                was = rfc3339(instant(self.epoch, before))
                message = f"was promised to start at {was} at the latest, which does not hold: {when}"
                self._say(EventKind.START_DELAYED, f"job/{self._job(request.uid)}", message, at=when, before=was)
        self._lost = {group: why for group, why in self._lost.items() if group in self._starts and group not in starts}

    def promised_starts(self) -> tuple[PromisedStart, ...]:
        """The gangs that wait and were promised a start, by that instant."""
        owners = {group: job.key for job in self._world.jobs.values() for group in job.groups}
        waiting = (
            (at, owners.get(group, group)) for group, at in self._starts.items() if self._world.dispatcher.vc_of(group)
        )
        return tuple(PromisedStart(job, instant(self.epoch, at)) for at, job in sorted(waiting))

    def _tell_lost(self, starts: Mapping[str, Millis]) -> None:
        """Say of gangs that wait and had a promised start why they have none any more, where that is known."""
        dispatcher = self._world.dispatcher
        foresight = dispatcher.foresight(self._world.now, self._world.windows) if starts else None
        for group, at in starts.items():
            vc = dispatcher.vc_of(group)
            conservative = self.rules.backfill.mode(vc) is BackfillMode.CONSERVATIVE
            why = foresight.lost_by(vc) if foresight is not None and conservative else ""
            if not why or self._lost.get(group) == why:
                continue
            self._lost[group], was = why, rfc3339(instant(self.epoch, at))
            job = next((key for key, job in self._world.jobs.items() if group in job.groups), group)
            message = f"was promised to start at {was} at the latest, which does not hold: {why}"
            self._say(EventKind.START_DELAYED, f"job/{job}", message, before=was, why=why)

    def _wake_for_start(self) -> None:
        """Ask again at the next promised start: it may come at an instant at which no job ends.

        Not where a job is past its limit: starts move with the clock there, and who ends it wakes those who wait.
        """
        backfill = self._world.dispatcher.backfill
        if backfill is None or not backfill.planned:
            return
        at = backfill.next_start(self._world.now, [vc for vc in backfill.planned if self._has_overrun(vc)])
        if at is not None and not any(timer == Timer("start", "", at) for _, _, timer in self._world.loop.pending()):
            self._world.loop.schedule(at, EventPriority.HARDWARE, Timer("start", "", at))

    def _has_overrun(self, vc: str) -> bool:
        """Whether a group of a virtual cluster is past its limit."""
        engine, now = self._world.dispatcher.engine, self._world.now
        groups = () if engine is None else engine.by_vc.of(vc)
        return any((end := self.end_of(group)) is not None and end < now for group in groups)

    def is_promised(self, at: int) -> bool:
        """Whether a gang in line is promised a start at an instant; the head of a line is not asked for."""
        backfill = self._world.dispatcher.backfill
        return backfill is not None and any(at in planned.values() for planned in backfill.planned.values())

    def _job(self, uid: str) -> str:
        return self._world.pods[uid][0] if uid in self._world.pods else uid

    @property
    def epoch(self) -> datetime:
        """The world's instant 0."""
        return datetime.fromtimestamp(self._world.epoch / 1000, UTC)

    # --- what is held back

    def obstacle(self, request: PodRequest, user: str = "") -> str:
        """Why a gang may not start now; empty if it may, or has its place already."""
        engine = self._world.dispatcher.engine
        if not self.rules or engine is None or request.group in engine.state.groups.by_name:
            return ""
        counts = self.rules.spares if request.guaranteed else self.rules.lending
        promised, used = (promises_by_vc(engine.state), self._in_use(engine)) if counts else ({}, {})
        use = SharingUse(
            self.used() if self.rules.budgets else {},
            self.held() if self.rules.limits else {},
            self.borrowed() if self.rules.borrowing else {},
            self.rules.spares.use(request.vc, promised, used),
            lend_use(engine.state, promised, used) if counts and not request.guaranteed else None,
        )
        return self.rules.obstacle(request, user or self.owner(request), use, self.now)

    def refuse(self, jobs: Iterable[LiveJob]) -> None:
        """Raise `ClusterError` for a job that a spent budget refuses, or that is larger than its user's limits."""
        jobs = tuple(jobs)
        refuse_many_tasks(self.rules.task_limits, (job.plan for job in jobs), self._tasks_of)
        for job in jobs if self.rules else ():
            refuse_held(self.rules, job.plan, self.used() if self.rules.budgets else {}, self.now)

    def refuse_many(self, user: str, keys: Iterable[str]) -> None:
        """Raise `ClusterError` if a user has too many tasks with these jobs, and no limit of the configuration counts.

        Not in `refuse`: a log of an earlier version may have more, and its replay must take them.
        """
        if self.rules.task_limits.of(user) is None:
            plans = [self._world.jobs[key].plan for key in keys if key in self._world.jobs]
            held = self._tasks_of(user) - sum(plan.tasks for plan in plans)
            refuse_many_tasks(TaskLimits({EACH: MOST_OF_USER}), plans, lambda _: held)

    def _tasks_of(self, user: str) -> int:
        return sum(job.plan.tasks for job in self._world.jobs.values() if job.plan.user == user)

    def settle(self) -> None:
        """Say what is new of budgets and promised starts, and wake up when a month begins for which somebody waits."""
        self._wake_after_shield()
        if self.rules.backfill:
            self._tell_starts()
            self._wake_for_start()
        if not self.rules.budgets:
            return
        month = f"{self.now:%Y-%m}"
        for state in self.rules.budgets.states(self.used()):
            self._tell(state, month)
        if any(self._anew(request) for request in self._world.dispatcher.held()):
            self._wake()

    def _tell(self, state: BudgetState, month: str) -> None:
        key, now = f"{state.budget.vc}/{state.budget.user}/{state.user}", f"{month} {state.level}"
        before = self._levels.get(key, "")
        if state.level is BudgetLevel.OK:
            self._levels.pop(key, None)
        elif now != before:
            self._levels[key] = now
            self._say(
                _KINDS[state.level],
                state.subject,
                str(state.sentence),
                hours=state.used / HOUR,
                budget=state.budget.hours,
                level=state.level.value,
                vc=state.budget.vc,
                user=state.user,
            )

    def _anew(self, request: PodRequest) -> bool:
        """Whether a gang can go on when the next month begins, as nothing but budgets that have hours holds it back."""
        holding = self.rules.budgets.holding(request.vc, self.owner(request), self.used())
        return bool(holding) and all(state.budget.most for state in holding)

    def _wake(self) -> None:
        at = Millis(round(next_month(self.now).timestamp() * 1000) - self._world.epoch)
        if not any(timer.kind == "month" for _, _, timer in self._world.loop.pending()):
            self._world.loop.schedule(at, EventPriority.HARDWARE, Timer("month", ""))

    # --- what is written down

    def dump(self) -> dict[str, Any]:
        """The month's use, and what was said of budgets."""
        levels = {"told": self._levels} if self._levels else {}
        backfill = self._world.dispatcher.backfill
        heads = self._heads if backfill is None else backfill.heads
        planned = self._planned if backfill is None else backfill.planned
        starts = {"heads": heads, "starts": self._starts} if heads or self._starts else {}
        starts |= {"planned": planned} if planned else {}
        starts |= {"lost": self._lost} if self._lost else {}
        month = self.enter().dump()
        recent = {} if self._recent is None else {"recent": self._recent.dump()}
        return {**month, **levels, **starts, **recent}

    def restore(self, data: Mapping[str, Any] | None) -> None:
        """The inverse of `dump`."""
        self.month = None if data is None else MonthUse.load(data)
        recent = (data or {}).get("recent")
        self._recent = None if recent is None else DecayedUse.load(recent)
        self._levels = dict((data or {}).get("told", {}))
        self._heads = dict((data or {}).get("heads", {}))
        self._lost = dict((data or {}).get("lost", {}))
        self._starts = {group: Millis(at) for group, at in (data or {}).get("starts", {}).items()}
        planned = (data or {}).get("planned", {})
        self._planned = {vc: {group: Millis(at) for group, at in row.items()} for vc, row in planned.items()}
