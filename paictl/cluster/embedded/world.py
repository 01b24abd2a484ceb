"""The embedded cluster as a deterministic state machine: commands and the passing of time in, events out.

Everything that happens follows from the commands and the instants at which they came, so replaying the command log
gives the same state. A command first advances the clock; after whatever happened, the scheduler runs until nothing
moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from paictl.cluster.admission import MOST_WAITING, refuse_excess, refuse_much_text
from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.dispatch import Action, Bound, Demoted, Dispatcher, Evicted
from paictl.cluster.embedded.jobs import (
    ENDS,
    LiveJob,
    NewJob,
    Notice,
    PodNews,
    Run,
    TaskRepair,
    Timer,
    isolation_of,
    take,
)
from paictl.cluster.embedded.machines import Machines, WithHardware
from paictl.cluster.embedded.present import END
from paictl.cluster.embedded.services import (
    API,
    CONFIGURATION,
    CONTROLLER,
    HISTORIANS,
    SCHEDULER,
    Configurations,
    EmbeddedService,
    EmbeddedServices,
)
from paictl.cluster.embedded.sharing import WorldSharing
from paictl.cluster.embedded.store import Happened, HistoryKind, Pushed
from paictl.cluster.embedded.windows import RESERVATION_TIMERS, WINDOW_TIMERS, WithReservations, WithWindows
from paictl.cluster.interface import (
    ClusterError,
    ConflictError,
    EventKind,
    JobRequest,
)
from paictl.cluster.movetotals import MoveTotal
from paictl.i18n import text
from paictl.scheduler.request import gang_of
from paictl.sim.loop import EventLoop, EventPriority
from paictl.units import Millis, unix_millis
from paictl.workload import lifecycle
from paictl.workload.duration import shortest_seconds
from paictl.workload.lifecycle import PodChange, RunState, TaskRef, Transition
from paictl.workload.reservations import Reservations
from paictl.workload.reserving import refuse_plan
from paictl.workload.runlimits import overran
from paictl.workload.tags import with_changes
from paictl.workload.usage import Holding, UsageLedger
from paictl.workload.windows import Windows


class World(WithWindows, WithReservations, WithHardware):
    """The whole state of an embedded cluster."""

    def __init__(self, name: str, services: Iterable[str]) -> None:
        self.name = name
        self.loop: EventLoop[Timer] = EventLoop()
        self.machines = Machines()
        self.services = EmbeddedServices(services)
        self.configs = Configurations()
        self.jobs: dict[str, LiveJob] = {}
        self.ended: list[LiveJob] = []
        """Jobs that ended since the caller last took them away."""
        self.events: list[Happened] = []
        """What happened since the caller last took it away."""
        self.pushed: list[Pushed] = []
        """Versions of the configuration that came since the caller last took them away."""
        self.wiped: set[HistoryKind] = set()
        """What the caller is to forget before it keeps any of the above."""
        self.dispatcher = Dispatcher()
        self.pods: dict[str, tuple[str, TaskRef]] = {}
        """Job and task of each pod that waits or runs, by uid."""
        self.backlog: list[Notice] = []
        """What the job controller will learn when it runs again."""
        self.numbers = {"event": 0, "job": 0}
        self.windows = Windows()
        """Maintenance windows that have not ended."""
        self.reservations = Reservations()
        """Reservations that are not over."""
        self.moves: dict[str, MoveTotal] = {}
        """What moves of gangs for larger ones have cost, by virtual cluster."""
        self.usage = UsageLedger(self.now)
        """Device time; its closed spans are the caller's to take away."""
        self.epoch = Millis(0)
        """Unix time of instant 0: months begin by it. The caller knows it."""
        self.sharing = WorldSharing(self, self._say)
        self.dispatcher.end_of = self.sharing.end_of

    @property
    def now(self) -> Millis:
        """The cluster's present."""
        return self.loop.now

    def job(self, key: str) -> LiveJob | None:
        """A job that waits or runs, or has just ended."""
        return self.jobs.get(key) or next((job for job in self.ended if job.key == key), None)

    # --- time

    @property
    def end(self) -> Millis:
        """When time ends."""
        return Millis(unix_millis(END) - self.epoch)

    def advance(self, until: Millis | None) -> None:
        """Let time pass until an instant, or until nothing more will happen before time ends."""
        until = None if until is None else min(until, self.end)
        while (timer := self._next(until)) is not None:
            self._happen(timer)
            self._settle()
        self.sharing.settle()

    def _next(self, until: Millis | None) -> Timer | None:
        """The next thing to happen; what is obsolete does not, so that no clock runs out to it."""
        while len(self.loop) and self._is_obsolete(self.loop.first()):
            self.loop.forget()
        if until is None and (self._only_endless() or (len(self.loop) and self.loop.first_at() > self.end)):
            return None
        return self.loop.pop(until)

    def _only_endless(self) -> bool:
        """Whether all that will happen comes again for ever; the first is asked first, as that needs no sorting."""
        some = len(self.loop) and self._is_endless(self.loop.first())
        return bool(some) and all(self._is_endless(timer) for _, _, timer in self.loop.pending())

    def _is_endless(self, timer: Timer) -> bool:
        """Whether a timer comes again for ever: of a recurring reservation, or of a task that always starts again."""
        if timer.kind == "end" and timer.subject in self.pods:
            key, ref = self.pods[timer.subject]
            return lifecycle.task_policy(self.jobs[key].job, ref.role).endless
        return self.is_recurring(timer)

    def _is_obsolete(self, timer: Timer) -> bool:
        """Whether a timer is the limit of an attempt that does not run any more, of a window that was removed, or of
        a promised start that has come already."""
        if timer.kind in WINDOW_TIMERS:
            return not self.is_due(timer)
        if timer.kind in RESERVATION_TIMERS:
            return not self.is_of_reservation(timer)
        if timer.kind == "start":
            return not self.sharing.is_promised(timer.detail)
        job = self.jobs.get(timer.subject)
        return timer.kind == "limit" and (job is None or job.started != timer.detail)

    def _happen(self, timer: Timer) -> None:
        if timer.kind == "end":
            if timer.subject in self.pods:
                self._pod_over(timer.subject, PodChange.SUCCEEDED, "")
        elif timer.kind in WINDOW_TIMERS:
            self.window_due(timer)
        elif timer.kind == "shield":
            self.dispatcher.waiting.reconsider()
        elif timer.kind in RESERVATION_TIMERS:
            self.reservation_due(timer)
        elif timer.kind == "limit":
            self._stop_overdue(self.jobs[timer.subject])
        elif timer.subject in self.machines:
            self.hardware_due(timer)

    def _settle(self) -> None:
        """Let the scheduler work until it has nothing to do."""
        while actions := self.dispatcher.next(self.now / 1000, self.windows):
            for action in actions:
                self._act(action)
        for group, guaranteed in self.dispatcher.take_reclassed().items():
            self.usage.change_class(group, self.now, guaranteed=guaranteed)
        self.sharing.settle()

    def _act(self, action: Action) -> None:
        match action:
            case Bound(uid, info):
                key, ref = self.pods[uid]
                job = self.jobs[key]
                isolation = isolation_of(self.dispatcher.engine, info)
                job.runs[ref.role, ref.index] = Run(ref.incarnation, self.now, info, isolation=isolation)
                self.book_pod(job, ref, job.runs[ref.role, ref.index])
                devices = isolation or ",".join(map(str, info.devices))
                self._say(
                    EventKind.STARTED,
                    f"job/{key}",
                    f"{_task(ref)} runs on {info.node}, devices {devices}",
                    ref,
                    node=info.node,
                    devices=list(info.devices),
                    **({"isolation": isolation} if isolation else {}),
                )
                duration = job.durations[ref.role]
                if duration is not None:
                    shortest = shortest_seconds(lifecycle.counted_retries(job.job, job.status, ref))
                    end = Millis(self.now + max(duration, round(1000 * shortest)))
                    self.loop.schedule(end, EventPriority.END, Timer("end", uid))
                if (repair := job.note_back(ref, self.now, info.node)) is not None:
                    self._say_repaired(job, ref, repair)
                self._notify(key, ref, PodChange.STARTED)
            case Evicted(uids, preemptor):
                for uid in uids:
                    if uid in self.pods:
                        self.jobs[self.pods[uid][0]].preemptions += 1
                        who = self._who(preemptor)
                        self._pod_over(uid, PodChange.PREEMPTED, f"preempted by {who}", by=who)
            case Demoted(group, preemptor):
                for key in {key for key, job in self.jobs.items() if group in job.groups}:
                    self.jobs[key].demoted_by = who = self._who(preemptor)
                    self._say(EventKind.DEMOTED, f"job/{key}", f"lost its guarantee to {who} but keeps running", by=who)

    def _say_repaired(self, job: LiveJob, ref: TaskRef, repair: TaskRepair) -> None:
        seconds = (self.now - repair.lost) / 1000
        where = (
            f"{repair.node} instead of {repair.before}" if repair.before not in (None, "", repair.node) else repair.node
        )
        self._say(
            EventKind.REPAIRED,
            f"job/{job.key}",
            f"{_task(ref)} runs on {where}, {seconds:g} s after it was lost",
            ref,
            node=repair.node,
            before=repair.before,
            seconds=seconds,
        )

    def _who(self, group: str) -> str:
        """The job that a group belongs to; the group where it belongs to none that goes on."""
        group = gang_of(group)
        return next((key for key, job in self.jobs.items() if group in job.groups), group)

    # --- pods and jobs

    def _pod_over(self, uid: str, what: PodChange, reason: str, **more: object) -> None:
        """A running pod has come to its end; its devices are free. `more` is what a machine may want to know."""
        key, ref = self.pods[uid]
        self._forget_pod(key, ref, reason, lost=what in (PodChange.PREEMPTED, PodChange.LOST))
        message = f"{_task(ref)}: {reason}" if reason else _task(ref)
        self._say(ENDS[what], f"job/{key}", message, ref, reason=reason, **more)
        self._notify(key, ref, what)

    def book_pod(self, job: LiveJob, ref: TaskRef, run: Run) -> None:
        """A pod's device time begins with its run."""
        request, info = job.request(ref), run.info
        sku, guaranteed = self.dispatcher.leaf_type(info.chain), self.dispatcher.guaranteed(request.group)
        self.usage.place(
            Holding(
                request.uid, request.group, job.job.vc, job.key, sku, len(info.devices), ((run.started, guaranteed),)
            )
        )

    def _forget_pod(self, key: str, ref: TaskRef, reason: str, *, lost: bool) -> bool:
        """A pod is gone, with `lost` before its work was done; returns whether it ran."""
        job = self.jobs[key]
        uid = job.pod(ref).uid
        self.usage.release(uid, self.now, lost=lost)
        self.dispatcher.remove(uid, self.now / 1000)  # it asks whose pod that is
        self.pods.pop(uid, None)
        run = job.runs.get((ref.role, ref.index))
        ran = run is not None and run.incarnation == ref.incarnation and run.ended is None
        if run is not None and ran:
            job.runs[ref.role, ref.index] = replace(run, ended=self.now, reason=reason)
        return ran

    def _notify(self, key: str, ref: TaskRef, what: PodChange) -> None:
        """Tell the job controller; it acts now, or when it runs again."""
        if not self.services.runs(CONTROLLER):
            self.backlog.append(PodNews(key, ref, what))
        elif key in self.jobs:
            job = self.jobs[key]
            step = lifecycle.advance(job.job, job.status, ref, what)
            if what is PodChange.LOST and step.start and step.status.attempt == job.status.attempt and job.job.repairs:
                run = job.runs.get((ref.role, ref.index))
                job.note_lost(ref, self.now, run.reason if run is not None else "")
            self._follow(job, step)

    def _follow(self, job: LiveJob, step: Transition) -> None:
        """Do what the life of a job asks for: kill pods, start others, end."""
        before, job.status = job.status, step.status
        if step.status.attempt > before.attempt or step.status.state.final:
            job.repairs = [repair for repair in job.repairs if repair.back is not None]
        if job.started is None and step.status.state is RunState.RUNNING:
            job.started = self.now
            if job.job.max_run_time is not None:
                timer = Timer("limit", job.key, self.now)
                at = Millis(self.now + job.job.max_run_time)
                self.loop.schedule(at, EventPriority.ARRIVAL, timer)  # after the ends of the same instant
        if step.status.attempt > before.attempt:
            job.started, job.demoted_by = None, ""
            self._say(
                EventKind.RETRIED,
                f"job/{job.key}",
                f"starts again from the beginning, attempt {step.status.attempt + 1}",
                next=step.status.attempt + 1,
            )
        restarts = bool(step.start)
        reason = "the job starts again" if restarts else "the job is over"
        for ref in step.kill:
            if self._forget_pod(job.key, ref, reason, lost=restarts):
                self._say(
                    EventKind.KILLED, f"job/{job.key}", f"{_task(ref)}: {reason}", ref, reason=reason, restarts=restarts
                )
        for ref in step.start:
            request = job.request(ref)
            self.pods[request.uid] = (job.key, ref)
            self.dispatcher.add(request, job.number, job.job.max_run_time, job.job.reservation)
        if step.status.state.final:
            job.ended = self.now
            del self.jobs[job.key]
            self.ended.append(job)
            self._say(EventKind(step.status.state.value.capitalize()), f"job/{job.key}", job.stopped_for)

    def _stop_overdue(self, job: LiveJob) -> None:
        """Stop a job that has run for as long as it may; the job controller does, now or when it starts again."""
        limit = job.job.max_run_time
        overdue = limit is not None and job.started is not None and job.started + limit <= self.now
        if limit is not None and overdue and self.services.runs(CONTROLLER):
            job.stopped_for = overran(limit)
            self._follow(job, lifecycle.stop(job.status))

    def submit(self, requests: Sequence[JobRequest]) -> list[LiveJob]:
        """Take jobs, all or none."""
        self.services.need(API)
        jobs = self.admitted(requests)
        taken = {*self.jobs, *(job.key for job in self.ended)}  # one may have ended on the way to this instant
        for job in jobs:
            if job.key in taken:
                raise ConflictError(
                    text("job {key!r} already exists", key=job.key), hint="give it another name: --name NAME"
                )
            taken.add(job.key)
        for job in jobs:
            self.numbers["job"] += 1
            job.number = self.numbers["job"]
            self.jobs[job.key] = job
            tasks = {role.name: role.instances for role in job.job.roles}
            self._say(
                EventKind.SUBMITTED,
                f"job/{job.key}",
                f"to {job.job.vc} as {job.job.priority_class}",
                tasks=tasks,
                vc=job.job.vc,
                priority=job.job.priority_class,
            )
            if self.services.runs(CONTROLLER):
                self._follow(job, lifecycle.submit(job.job))
            else:
                self.backlog.append(NewJob(job.key))
            self._settle()
        return jobs

    def admitted(self, requests: Sequence[JobRequest]) -> list[LiveJob]:
        """The jobs as they begin."""
        refuse_excess(requests)
        jobs = take(requests, self.configs, self._api_version(), self.now)
        waiting = sum(len(job.status.tasks) for job in self.jobs.values())
        if waiting + sum(len(job.status.tasks) for job in jobs) > MOST_WAITING:
            hint = "wait until some have ended, or stop them"
            raise ClusterError(
                text(
                    "{waiting} tasks wait or run, and at most {most} can",
                    waiting=waiting,
                    most=MOST_WAITING,
                ),
                hint=hint,
            )
        for user in sorted({job.plan.user for job in jobs}):
            refuse_much_text(user, (job.data for job in (*self.jobs.values(), *jobs) if job.plan.user == user))
        self.sharing.refuse(jobs)
        if any(job.job.reservation for job in jobs):
            self._refuse_unreserved(jobs)
        return jobs

    def _refuse_unreserved(self, jobs: Iterable[LiveJob]) -> None:
        """Raise `ReservationError` for a job that can never start in the reservation that it names."""
        for job in jobs:
            refuse_plan(self.reservations, job.plan)

    def _api_version(self) -> int | None:
        loaded = self.services.version(API)
        return loaded or self.configs.newest or None

    def stop_job(self, key: str) -> None:
        """End a job."""
        self.services.need(API)
        self.services.need(CONTROLLER)
        if key not in self.jobs:
            raise ClusterError(
                text("no running or waiting job {key!r}", key=key), hint="list them with: paictl job list"
            )
        self._follow(self.jobs[key], lifecycle.stop(self.jobs[key].status))
        self._settle()

    def tag_job(self, key: str, add: Sequence[str], remove: Sequence[str]) -> None:
        """Change the tags of a job that waits or runs, or has just ended."""
        self.services.need(API)
        if (job := self.job(key)) is not None:
            job.tags = with_changes(job.tags, add, remove)

    def evict_gang(self, key: str, group: str, reason: str) -> None:
        """Evict the running pods of one group of a job, of all with an empty `group`; they start again."""
        self.services.need(API)
        self.services.need(CONTROLLER)
        job = self.jobs.get(key)
        uids = (
            [job.pod(ref).uid for ref, _ in job.running() if not group or job.request(ref).group == group]
            if job is not None
            else []
        )
        if not uids:
            raise ConflictError(
                text("no pod of {gang} is running any more", gang=group or key),
                hint=text("the cluster has changed since; make a new plan"),
            )
        for uid in uids:
            if uid in self.pods:  # the others of a gang end with the first
                self._pod_over(uid, PodChange.LOST, reason)
        self._settle()

    # --- configuration and services

    def push(self, files: Mapping[str, str], message: str) -> Pushed:
        """A new version of the configuration; nobody has loaded it yet."""
        number = self.configs.push(files).number
        version = Pushed(number, self.now, message, dict(files))
        self.pushed.append(version)
        self._say(
            EventKind.PUSHED,
            "config/cluster",
            f"version {number}: {message}" if message else f"version {number}",
            version=number,
            note=message,
        )
        return version

    def set_service(self, name: str, *, running: bool) -> EmbeddedService:
        """Start a service with the newest configuration, or stop it."""
        service = self.services.get(name)
        if running == service.running:
            return service
        loaded = None
        if running:
            if name != CONFIGURATION:
                self.services.need(CONFIGURATION)
            loaded = self.configs.newest or None
            if name == SCHEDULER:
                self._start_scheduler(self.configs.get(loaded))
        elif name == SCHEDULER:
            self.dispatcher.resume(None)
        service = self.services.set(name, self.now, running=running, loaded=loaded)
        kind = EventKind.STARTED if running else EventKind.STOPPED
        if loaded:
            self._say(kind, f"service/{name}", f"configuration {loaded}", loaded=loaded)
        else:
            self._say(kind, f"service/{name}", "")
        if running and name == CONTROLLER:
            self._catch_up()
        if running and name == SCHEDULER:
            self.drain()
        self.configs.keep(self.services.loaded)
        self._settle()
        return service

    def restart_services(self, names: Sequence[str]) -> None:
        """Stop services, the last first, and start them again in order."""
        for name in reversed(names):
            self.set_service(name, running=False)
        for name in names:
            self.set_service(name, running=True)

    def wipe_service(self, name: str) -> None:
        """Stop a service and destroy its data; nothing to do for one that is not there."""
        if not self.services.get(name).there:
            return
        self.set_service(name, running=False)
        if name == CONFIGURATION:
            self.configs.forget(self.services.loaded)
            self.pushed.clear()
            self.wiped.add(HistoryKind.CONFIGURATIONS)
        elif name in HISTORIANS:
            self.ended.clear()
            self.wiped.add(HistoryKind.JOBS)
        elif name == CONTROLLER:
            self._drop_jobs()
        self.services.remove(name, self.now)
        self._say(EventKind.DELETED, f"service/{name}", "")
        self._settle()

    def _drop_jobs(self) -> None:
        """The job controller's objects are deleted: no job goes on."""
        for job in list(self.jobs.values()):
            self._follow(job, lifecycle.stop(job.status))
        self.backlog.clear()

    def _start_scheduler(self, configuration: ConfigSnapshot) -> None:
        """Rebuild the scheduler's state from the pods that run, whatever the configuration has become."""
        self.sharing.load(configuration.sharing)
        self.dispatcher.start(configuration.spec, self.survivors())
        self.watch_devices(self.machines, configuration.bad_device_deadline)
        self.usage.promise(self.now, self.dispatcher.promises())
        for group in self.usage.groups():
            self.usage.change_class(group, self.now, guaranteed=self.dispatcher.guaranteed(group))

    def _catch_up(self) -> None:
        """What happened while the job controller was stopped, in order."""
        backlog, self.backlog = self.backlog, []
        for notice in backlog:
            match notice:
                case NewJob(key) if key in self.jobs:
                    self._follow(self.jobs[key], lifecycle.submit(self.jobs[key].job))
                case PodNews(key, ref, what):
                    self._notify(key, ref, what)
        for job in list(self.jobs.values()):
            self._stop_overdue(job)

    # --- events

    def _say(self, kind: EventKind, subject: str, message: str, ref: TaskRef | None = None, **more: object) -> None:
        """Note what happened; `ref` is the pod that it happened to, `more` what a machine may want to know."""
        self.numbers["event"] += 1
        pod = {} if ref is None else {"role": ref.role, "index": ref.index, "attempt": ref.incarnation}
        self.events.append(Happened(self.numbers["event"], self.now, kind, subject, message, {**pod, **more}))


def _task(ref: TaskRef) -> str:
    return f"{ref.role}[{ref.index}]"
