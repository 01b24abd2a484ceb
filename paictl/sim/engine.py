"""The engine: arrivals, ends and timers; applies each decision of a policy as a whole, and accounts for work and time.

At each instant, first all ends, then all arrivals, then *one* call of the policy. Nothing here depends on a clock, on
a hash or on the order of a set: the same jobs and the same policy give the same run everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from paictl.sim.actions import Action, Colocate, Migrate, PolicyError, Preempt, Resize, Scheduler, Start, Stop, Trigger
from paictl.sim.cluster import Cluster, Devices
from paictl.sim.failures import DeviceOutages
from paictl.sim.job import WHOLE, Job, TraceStatus
from paictl.sim.loop import EventLoop, EventPriority
from paictl.sim.occupancy import FREE, AreaTimeline, occupancy
from paictl.sim.run import Ending, JobOutcome, LogEntry
from paictl.sim.state import ONE, FragileProgress, JobProgress
from paictl.sim.view import JobView, view_for
from paictl.units import Millis

IDLE_WAKES: Final = 10_000
"""Wake-ups of a policy without effect, with nothing running or arriving, after which the rest counts as unfinished."""
BARREN: Final = 10_000
"""Decisions without an end or an arrival after which some work must have been done, or the rest is unfinished."""

GIVE_UP: Final = 1_000
"""Failures of its devices after which a job counts as unfinished: it would never end."""

_TAKERS = (Preempt, Stop)
"""Actions that only take devices away."""
_ENDINGS = {TraceStatus.PASSED: Ending.PASSED, TraceStatus.KILLED: Ending.KILLED, TraceStatus.FAILED: Ending.FAILED}


class Simulation:
    """One cluster, one policy, one trace.

    `jobs` arrive by (submit, row), see `job.in_order`; outcomes are passed to `finish` as soon as they are known, so
    that memory depends on the jobs in the system, not on the length of the trace. `check` is called at every instant.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Scheduler,
        jobs: Iterable[Job],
        finish: Callable[[JobOutcome], None],
        *,
        log: list[LogEntry] | None = None,
        check: Callable[[Simulation], None] | None = None,
        hardware: DeviceOutages | None = None,
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.finish = finish
        self.log = log
        self.check = check
        self.hardware = hardware
        """What can fail; None: nothing fails."""
        self.live: dict[int, JobProgress] = {}
        """Jobs in the system, by number."""
        rates = policy.rates
        self.occupancy = occupancy(cluster, located=rates.located, groups=rates.vicinity())
        self.counters = dict.fromkeys(("events", "decisions", "preemptions", "migrations", "resizes", "impossible"), 0)
        if hardware is not None:
            self.counters |= dict.fromkeys(("failures", "interruptions", "down"), 0)
        self.timeline = AreaTimeline(Millis(0))
        self.now = Millis(0)
        self._loop: EventLoop[tuple[JobProgress, int]] = EventLoop()
        self._view_class = view_for(policy.knows)
        self._views: dict[int, JobView] = {}
        self._coming: Iterator[Job] = iter(jobs)
        self._next = next(self._coming, None)
        self._number = 0
        self._again = 0
        """Numbers given to further attempts of jobs whose devices failed."""
        self._running = 0
        self._queued = 0
        self._wake: Millis | None = None
        self._idle = 0
        self._barren = 0
        """Decisions since a job last arrived or ended."""
        self._least: int | None = None
        """The work that was left at the last check for progress."""

    def __getstate__(self) -> dict[str, object]:
        """Without what exists only in this process: `check`, and the class of views."""
        return {**self.__dict__, "check": None, "_view_class": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._view_class = view_for(self.policy.knows)

    @property
    def arrived(self) -> int:
        """How many jobs have arrived so far."""
        return self._number - self._again

    # --- time

    def run(self) -> None:
        """Play to the end: until no job is left or arrives, or nothing more can happen.

        An exception from `check` leaves the engine between two instants: calling `run` again resumes there.
        """
        if self._next is not None and not self._number:
            self.now = self._next.submit
            self.timeline = AreaTimeline(self.now)
        while (at := self._next_instant()) is not None:
            self._advance(at)
            ended = self._ends()
            interrupted, attempts, failed, repaired = self._failures()
            arrived = self._arrivals()
            woken = self._wake is not None and self._wake <= at
            if woken:
                self._wake = None
            if not (ended or arrived or woken or failed or repaired):
                continue  # only void ends
            news = bool(ended or arrived)
            self._ask(Trigger(at, (*ended, *interrupted), (*attempts, *arrived), woken, failed, repaired), news=news)
            if self.check is not None:
                self.check(self)
            if self._barren and self._barren % BARREN == 0 and not self._progresses():
                break
        while self._next is not None:  # later jobs would not finish either
            self._advance(max(self.now, self._next.submit))
            self._arrivals()
        for state in list(self.live.values()):
            if state.placed:
                self._drop(state)
            self._remove(state, Ending.UNFINISHED)

    def _progresses(self) -> bool:
        """Whether any work is done: none is if, say, time slices are always shorter than the cost of a start."""
        left = sum(state.left_at(self.now) - state.lost * ONE for state in self.live.values())  # lost work was done
        before, self._least = self._least, left
        return before is None or left < before

    def _next_instant(self) -> Millis | None:
        """The next instant at which something happens; None if nothing will."""
        times = [self._next.submit] if self._next is not None else []
        if self._next is None and not self.live:
            return None
        loop = self._loop
        while (end := loop.peek()) is not None:
            state, version = loop.first()
            if state.version == version:
                times.append(end)
                break
            loop.forget()  # void: the rate has changed since
        if self.hardware is not None and (change := self.hardware.next(busy=bool(times))) is not None:
            times.append(max(change, self.now))
        if self._wake is not None and (times or self._idle < IDLE_WAKES):
            times.append(self._wake)
        return min(times) if times else None

    def _advance(self, at: Millis) -> None:
        if at > self.now:
            places = self.occupancy
            waiting = len(self.live) - self._running
            self.timeline.add(at, (places.used, self._running, waiting, self._queued, places.stray))
            if self.hardware is not None:
                self.counters["down"] += len(self.hardware.down) * (at - self.now)
            self.now = at

    def _ends(self) -> list[JobView]:
        loop, ended = self._loop, []
        touched: dict[int, JobProgress] = {}
        while loop.peek() == self.now and (event := loop.pop()) is not None:
            state, version = event
            if state.version != version:
                continue
            self._mark_neighbours(state, touched)
            state.settle(self.now)
            self._drop(state)
            touched.pop(state.number, None)
            state.end = self.now
            ended.append(self._remove(state, _ENDINGS[state.job.fate]))
        for neighbour in touched.values():
            self._pace(neighbour)
        return ended

    def _failures(self) -> tuple[list[JobView], list[JobView], Devices, Devices]:
        """Jobs whose devices failed, their next attempts, devices that failed, devices that were repaired."""
        if self.hardware is None:
            return [], [], (), ()
        number, failed, repaired = self.hardware.pass_to(self.now)
        self.counters["failures"] += number
        numbers = sorted({job for device in failed for job in self.occupancy.on(device)})
        interrupted, attempts = [], []
        touched: dict[int, JobProgress] = {}
        for number in numbers:
            state = self.live[number]
            self._mark_neighbours(state, touched)
            touched.pop(number, None)
            view, next_attempts = self._interrupt(state)
            interrupted.append(view)
            attempts += next_attempts
        for neighbour in touched.values():
            if neighbour.number in self.live:
                self._pace(neighbour)
        return interrupted, attempts, failed, repaired

    def _interrupt(self, state: JobProgress) -> tuple[JobView, list[JobView]]:
        """Its devices failed: this attempt is over, and the next one waits; no next one after too many."""
        assert isinstance(state, FragileProgress)  # noqa: S101 `_progress` made it
        state.settle(self.now)
        wasted = state.wasted(self.now)
        self._drop(state)
        earlier = state.until_now(wasted)
        self.counters["interruptions"] += 1
        self._note("interrupt", state)
        attempt = state.again(self.now, self._number)
        attempt.earlier = earlier
        self._number += 1
        self._again += 1
        view = self._views.pop(state.number)
        del self.live[state.number]
        self.live[attempt.number] = attempt
        self._views[attempt.number] = new_view = self._view_class(attempt)
        if earlier.count < GIVE_UP:
            return view, [new_view]
        self._remove(attempt, Ending.UNFINISHED)
        return view, []

    def _progress(self, job: Job) -> JobProgress:
        if self.hardware is None:
            return JobProgress(job, self._number)
        return FragileProgress(job, self._number, self.hardware.checkpoint)

    def _arrivals(self) -> list[JobView]:
        arrived = []
        while self._next is not None and self._next.submit <= self.now:
            job = self._next
            if job.submit < self.now:
                raise PolicyError(f"job {job.id} comes after {self.now} ms was reached", hint="sort them: job.in_order")
            state = self._progress(job)
            self._number += 1
            self._next = next(self._coming, None)
            self._note("submit", state)
            self.live[state.number] = state
            self._queued += job.gpus
            self._views[state.number] = view = self._view_class(state)
            if self._impossible(job):
                self.counters["impossible"] += 1
                self._remove(state, Ending.IMPOSSIBLE)
            else:
                arrived.append(view)
        return arrived

    def _impossible(self, job: Job) -> bool:
        least = min(job.gpus, job.devices_range(tunes=self.policy.tunes)[0])
        types = self.cluster.types
        if job.gpu_types:
            return least > sum(types.get(kind, 0) for kind in job.gpu_types)
        if job.throughput:
            able = sum(number for kind, number in types.items() if job.throughput.get(kind, 0.0) > 0)
            if least > able:
                return True
        return least > (self.cluster.size if job.gpu_type is None else types.get(job.gpu_type, 0))

    # --- decisions

    def _ask(self, moment: Trigger, *, news: bool) -> None:
        """Call the policy and apply its actions. `news`: a job arrived or ended; failures do not count as progress."""
        actions = self.policy.decide(moment)
        self.counters["events"] += len(moment.ended) + len(moment.arrived) + moment.woken
        self.counters["decisions"] += 1
        self._idle = 0 if actions or moment.ended or moment.arrived else self._idle + 1
        if news:
            self._barren, self._least = 0, None
        else:
            self._barren += 1
        if actions:
            self._check_actions(actions)
            self._apply(actions)
        wake = self.policy.wake()
        if wake is not None and wake <= self.now:
            raise PolicyError(f"the policy wants to be woken at {wake} ms, and it is {self.now} ms already")
        self._wake = wake

    def _check_actions(self, actions: Sequence[Action]) -> None:
        """Raise `PolicyError` if any of the actions is impossible, before anything is changed."""
        devices_of: dict[int, Devices] = {}
        change: dict[int, int] = {}
        stopped: set[int] = set()
        for action in actions:
            state = self.live.get(action.job.number)
            if state is None or state.number in stopped:
                raise PolicyError(f"job {action.job.id} is not there (any more)", where=type(action).__name__)
            number = state.number
            devices = devices_of.get(number, state.devices)
            for device in devices:
                change[device] = change.get(device, 0) - state.job.gpu_milli
            if isinstance(action, _TAKERS):
                if not devices and isinstance(action, Preempt):
                    raise PolicyError(f"job {action.job.id} does not run", where=type(action).__name__)
                devices_of[number] = ()
                if isinstance(action, Stop):
                    stopped.add(number)
                continue
            self._shape(action, state, devices)
            self._room(
                action,
                change,
                state.job.gpu_milli,
                sharing=isinstance(action, Colocate) or (number in self._shared(devices)),
            )
            devices_of[number] = action.devices

    def _room(
        self, action: Start | Colocate | Migrate | Resize, change: dict[int, int], milli: int, *, sharing: bool
    ) -> None:
        """Check that the devices have room by then, unless it may share them; `change`: added thousandths by device."""
        first = self.occupancy.first
        if self.hardware is not None and (bad := self.hardware.down.intersection(action.devices)):
            raise PolicyError(
                f"device {min(bad)} is down and cannot be given to job {action.job.id}", where=type(action).__name__
            )
        for device in action.devices:
            change[device] = more = change.get(device, 0) + milli
            if not sharing and more + (first[device] != FREE and self.filled(device)) > WHOLE:
                raise PolicyError(f"device {device} is not free for job {action.job.id}", where=type(action).__name__)

    def filled(self, device: int) -> int:
        """Thousandths of a device that its jobs need."""
        return sum(self.live[number].job.gpu_milli for number in self.occupancy.on(device))

    def _shared(self, devices: Devices) -> set[int]:
        """Jobs on overfull devices: they were co-located, and may stay so when they move or grow."""
        full = [device for device in devices if len(self.occupancy.on(device)) > 1 and self.filled(device) > WHOLE]
        return {job for device in full for job in self.occupancy.on(device)}

    def _shape(self, action: Start | Colocate | Migrate | Resize, state: JobProgress, has: Devices) -> None:
        """Check that a job can have this set of devices at all."""
        job, devices, action_name = state.job, action.devices, type(action).__name__
        number = len(devices)
        if not job.gpus and not number:
            return  # CPUs alone
        if not number or (number > 1 and any(a >= b for a, b in pairwise(devices))):
            raise PolicyError(f"devices of job {job.id} are not a rising list: {devices}", where=action_name)
        if devices[0] < 0 or devices[-1] >= self.cluster.size:
            raise PolicyError(f"the cluster has no such devices: {devices}", where=action_name)
        if job.gpu_type is not None and any(self.cluster.type_of[device] != job.gpu_type for device in devices):
            raise PolicyError(f"job {job.id} runs on {job.gpu_type} only", where=action_name)
        if job.gpu_types and any(self.cluster.type_of[device] not in job.gpu_types for device in devices):
            raise PolicyError(f"job {job.id} runs on {', '.join(job.gpu_types)} only", where=action_name)
        least, most = job.devices_range(transparent=self.policy.transparent, tunes=self.policy.tunes)
        if number != job.gpus and not least <= number <= most:
            raise PolicyError(
                f"job {job.id} runs on {job.gpus} devices, all or none, not on {number}", where=action_name
            )
        if isinstance(action, Start) and has:
            raise PolicyError(f"job {job.id} runs already", where=action_name)
        if isinstance(action, Migrate | Resize) and not has:
            raise PolicyError(f"job {job.id} does not run", where=action_name)
        if isinstance(action, Migrate) and number != len(has):
            raise PolicyError(
                f"job {job.id} moves from {len(has)} devices to {number}: that is a Resize", where=action_name
            )

    def _apply(self, actions: Sequence[Action]) -> None:
        touched: dict[int, JobProgress] = {}
        for action in actions:
            state = self.live[action.job.number]
            match action:
                case Start() | Colocate():
                    self._start(state, action, touched)
                case Preempt():
                    self._preempt(state, touched, keep=action.keep)
                case Migrate():
                    self._move(state, action.devices, self.policy.costs.migrate, touched)
                    if action.undone is not None:
                        state.undo(action.undone)
                        state.started()
                    state.migrations += 1
                    self.counters["migrations"] += 1
                    self._note("migrate", state)
                case Resize():
                    state.limit = action.limit
                    self._move(state, action.devices, self.policy.costs.resize, touched)
                    state.resizes += 1
                    self.counters["resizes"] += 1
                    self._note("resize", state)
                case Stop():
                    if state.placed:
                        self._mark_neighbours(state, touched)
                        state.settle(self.now)
                        self._drop(state)
                    touched.pop(state.number, None)
                    state.end = self.now
                    self._remove(state, Ending.STOPPED)
        for state in touched.values():
            self._pace(state)

    def _start(self, state: JobProgress, action: Start | Colocate, touched: dict[int, JobProgress]) -> None:
        state.limit = action.limit
        if state.placed:
            self._move(state, action.devices, 0, touched)
            self._note("colocate", state)
            return
        is_restart = state.first_start is not None
        if not is_restart:
            state.first_start = self.now
        delay = self.policy.costs.to_start(len(action.devices), again=is_restart)
        state.begins = Millis(self.now + delay)
        state.held_since = self.now
        state.devices = action.devices
        state.placed = True
        state.started()
        self.occupancy.put(state.number, action.devices)
        self._running += 1
        self._queued -= state.job.gpus
        self._note("start" if isinstance(action, Start) else "colocate", state)
        self._mark_neighbours(state, touched)
        touched[state.number] = state

    def _preempt(self, state: JobProgress, touched: dict[int, JobProgress], *, keep: bool) -> None:
        self._mark_neighbours(state, touched)
        state.settle(self.now)
        self._drop(state)
        touched.pop(state.number, None)
        if not keep:
            state.lost += (state.job.true_work * ONE - state.left) // ONE
            state.left = state.job.true_work * ONE
        state.preemptions += 1
        state.waiting_since = self.now
        self.counters["preemptions"] += 1
        self._note("preempt", state)

    def _move(self, state: JobProgress, devices: Devices, delay: int, touched: dict[int, JobProgress]) -> None:
        """Move a running job to other devices; it progresses again after the delay."""
        state.settle(self.now)
        state.book(self.now)
        self._mark_neighbours(state, touched)
        self.occupancy.leave(state.number, state.devices)
        state.devices = devices
        self.occupancy.put(state.number, devices)
        self._mark_neighbours(state, touched)
        state.begins = Millis(max(state.begins, self.now + delay))
        touched[state.number] = state

    def _mark_neighbours(self, state: JobProgress, touched: dict[int, JobProgress]) -> None:
        """Add the jobs whose rate changes when a job comes or goes."""
        for number in self.occupancy.company(state.number, state.devices):
            touched[number] = self.live[number]

    def _pace(self, state: JobProgress) -> None:
        """Set the rate of a running job from now on, and queue its end."""
        company = [self.live[number] for number in self.occupancy.company(state.number, state.devices)]
        rate = self.policy.rates.rate(state, company)
        state.settle(self.now)
        state.rate = rate
        state.version += 1
        if (due := state.due()) is not None:
            self._loop.schedule(due, EventPriority.END, (state, state.version))

    # --- leaving

    def _drop(self, state: JobProgress) -> None:
        """Free its devices; it makes no progress any more."""
        state.book(self.now)
        self.occupancy.leave(state.number, state.devices)
        state.devices = ()
        state.placed = False
        state.rate = 0
        state.version += 1
        self._running -= 1
        self._queued += state.job.gpus

    def _remove(self, state: JobProgress, ending: Ending) -> JobView:
        view = self._views.pop(state.number)
        del self.live[state.number]
        self._queued -= state.job.gpus
        self._note(ending.value, state)
        self.finish(self._outcome(state, view, ending))
        return view

    def _outcome(self, state: JobProgress, view: JobView, ending: Ending) -> JobOutcome:
        job, before = state.job, state.earlier
        if before is None:
            return JobOutcome(
                job.id,
                job.user,
                job.vc,
                job.model,
                job.gpus,
                job.submit,
                job.true_work,
                job.share,
                job.urge,
                job.deadlines,
                ending,
                state.first_start,
                state.end,
                Millis(state.ran),
                state.service,
                state.preemptions,
                state.migrations,
                state.resizes,
                state.lost,
                self.policy.notes(view),
            )
        return JobOutcome(
            job.id,
            job.user,
            job.vc,
            job.model,
            job.gpus,
            job.submit,
            job.true_work,
            job.share,
            job.urge,
            job.deadlines,
            ending,
            before.first_start,
            state.end,
            Millis(before.ran + state.ran),
            before.service + state.service,
            before.preemptions + state.preemptions,
            before.migrations + state.migrations,
            before.resizes + state.resizes,
            before.lost + state.lost,
            self.policy.notes(view),
            before.count,
            before.wasted,
        )

    def _note(self, kind: str, state: JobProgress) -> None:
        if self.log is not None:
            self.log.append(LogEntry(self.now, kind, state.job.id, state.devices))
