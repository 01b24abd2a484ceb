"""The reconcile loop, from the first look at a job until what is there is what is wanted.

Which jobs have to be looked at is a queue: each once however often it was named, by one worker at a time, and not too
often.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.kubernetes.paijob.names import paijobs_path
from paictl.cluster.kubernetes.paijob.record import JobRecord
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.store import VersionStore
from paictl.cluster.values import ClusterError
from paictl.controller import cache as caches
from paictl.controller.cache import Cache
from paictl.controller.deciding import closed, follow, wanted
from paictl.controller.execution import LaterError, RefusedError, execute, release_ports, write_record
from paictl.controller.manifests import JobContext
from paictl.errors import PaictlError
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.kube.informer import InformerTimes
from paictl.remote.kube.objects import CONFLICT, NOT_FOUND
from paictl.units import rfc3339
from paictl.workload import lifecycle
from paictl.workload.fields import Fields, JobError
from paictl.workload.lifecycle import JobStatus, RunState
from paictl.workload.pods import plan_job
from paictl.workload.ports import refuse_ports

PAUSE: Final = 0.05
"""Seconds between two looks at a job."""
SHARE: Final = 5
"""A look that takes long is not taken again before this many times as long: a huge job leaves time for others."""
BACKOFF: Final = (0.5, 60.0)
"""First and longest pause after an error, in seconds."""


class WorkQueue:
    """Names of jobs. Safe to use from many threads."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, user_of: Callable[[str], str] = lambda _: ""
    ) -> None:
        self._clock = clock
        self._user_of = user_of
        self._ready = threading.Condition()
        self._due: dict[str, float] = {}
        """When a job is to be looked at."""
        self._heap: list[tuple[float, str]] = []
        self._lines: OrderedDict[str, deque[str]] = OrderedDict()
        """Jobs that are due, by user: users take turns, so that thousands of jobs of one hold up no others."""
        self._busy: set[str] = set()
        self._again: dict[str, float] = {}
        """Jobs that were named while they were looked at."""
        self._rest: dict[str, float] = {}
        """When a job may be looked at again."""
        self._errors: dict[str, int] = {}
        self._closed = False

    def __len__(self) -> int:
        """How many wait."""
        with self._ready:
            return len(self._due)

    def add(self, name: str, after: float = 0.0) -> None:
        """Have a job looked at, now or in some seconds."""
        with self._ready:
            self._put(name, max(self._clock() + after, self._rest.get(name, 0.0)))

    def _put(self, name: str, due: float) -> None:
        if name in self._busy:
            self._again[name] = min(due, self._again.get(name, due))
        elif due < self._due.get(name, due + 1):
            self._due[name] = due
            heapq.heappush(self._heap, (due, name))
            self._ready.notify()

    def get(self) -> str | None:
        """The next job, waiting for it; None once the queue is closed. To be given back with `done` or `failed`."""
        with self._ready:
            while not self._closed:
                now = self._clock()
                self._line_up(now)
                if self._lines:
                    user, line = self._lines.popitem(last=False)
                    name = line.popleft()
                    if line:
                        self._lines[user] = line
                    del self._due[name]
                    self._busy.add(name)
                    return name
                self._ready.wait(self._heap[0][0] - now if self._heap else None)
            return None

    def _line_up(self, now: float) -> None:
        while self._heap:
            due, name = self._heap[0]
            if self._due.get(name) == due:  # otherwise it is to be looked at sooner, or was
                if due > now:
                    return
                self._lines.setdefault(self._user_of(name), deque()).append(name)
            while self._heap and self._heap[0] == (due, name):  # it may have been named for this instant before
                heapq.heappop(self._heap)

    def done(self, name: str, seconds: float) -> None:
        """A look has taken so long."""
        self._errors.pop(name, None)
        self._give_back(name, max(PAUSE, SHARE * seconds))

    def failed(self, name: str) -> None:
        """A look has failed: it is repeated, ever less often."""
        errors = self._errors[name] = self._errors.get(name, 0) + 1
        pause = min(BACKOFF[0] * 2 ** (errors - 1), BACKOFF[1])
        with self._ready:
            self._again[name] = min(self._again.get(name, self._clock() + pause), self._clock() + pause)
        self._give_back(name, pause)

    def _give_back(self, name: str, pause: float) -> None:
        with self._ready:
            self._busy.discard(name)
            rest = self._clock() + pause
            again = self._again.pop(name, None)
            if again is None:
                self._rest.pop(name, None) if pause <= PAUSE else self._rest.__setitem__(name, rest)
            else:
                self._rest[name] = rest
                self._put(name, max(again, rest))

    def forget(self, name: str) -> None:
        """A job is gone."""
        with self._ready:
            self._rest.pop(name, None)
            self._errors.pop(name, None)

    def close(self) -> None:
        """Let everybody go."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()


WORKERS: Final = 4
"""Threads that look at jobs: they mostly wait for the API server."""
MARGIN: Final = 0.5
"""Seconds before the end of the lease in which nothing is begun any more."""


class ControlLoop:
    """Keeps all jobs as they should be, from `start` to `stop`. `remaining` says for how many seconds we lead."""

    def __init__(
        self,
        client: KubeClient,
        remaining: Callable[[], float],
        log: Callable[[str], None],
        *,
        classes: bool = True,
        gated: bool = False,
        times: InformerTimes | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.client = client
        self.remaining = remaining
        self.log = log
        self.classes = classes
        self.gated = gated
        self.clock = clock
        self.queue = WorkQueue(user_of=self._user_of)
        self.cache = Cache(client, self.queue.add, times)
        self.planner = Planner(client)
        self.looks: Counter[str] = Counter()
        """Looks by how they ended: ``done``, ``later``, ``failed``."""
        self.seconds = 0.0
        """Processor time of all looks."""
        self._last_errors: dict[str, str] = {}
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin."""
        self.cache.start()
        for number in range(WORKERS):
            threading.Thread(target=self._work, name=f"worker {number}", daemon=True).start()

    def stop(self) -> None:
        """Begin nothing new."""
        self._stop.set()
        self.cache.stop()
        self.queue.close()

    def _work(self) -> None:
        while not self.cache.ready and not self._stop.wait(0.02):
            pass
        while not self._stop.is_set() and (name := self.queue.get()) is not None:
            began = time.thread_time()
            try:
                if self.remaining() <= MARGIN:
                    raise LaterError("this process does not lead")
                self.look(name)
            except PaictlError as error:
                self._report(name, error)
                self.queue.failed(name)
            except Exception as error:
                self._report(name, PaictlError(f"{type(error).__name__}: {error}"))
                self.queue.failed(name)
            else:
                self.looks["done"] += 1
                self._last_errors.pop(name, None)
                self.queue.done(name, time.thread_time() - began)
            self.seconds += time.thread_time() - began

    def _user_of(self, name: str) -> str:
        pai = self.cache.job(name)
        return "" if pai is None else pai.user

    def _report(self, name: str, error: PaictlError) -> None:
        """Say what went wrong with a job, once."""
        self.looks["later" if isinstance(error, LaterError) else "failed"] += 1
        if not isinstance(error, LaterError) and self._last_errors.get(name) != str(error):
            self._last_errors[name] = str(error)
            self.log(f"{name}: {error}")

    # --- one job

    def look(self, name: str) -> None:
        """Bring one job nearer to where it should be. Raises `PaictlError` if it has to be looked at again."""
        pai = self.cache.job(name)
        if pai is None or pai.deleting or pai.damaged:
            self.queue.forget(name)
            return
        if pai.record is None:
            pai = self._begin(pai)
        if pai.record is None or pai.record.closed:
            return
        context = JobContext(pai, self.classes, self.gated)
        try:
            self._follow(context, pai.record)
        except RefusedError as error:
            self._fail(self.cache.job(name) or pai, pai.record, str(error))

    def _begin(self, pai: PaiJob) -> PaiJob:
        """The first look: what its pods will ask for is decided, once."""
        try:
            return self._write(pai, self.planner.record(pai))
        except JobError as error:
            failed = JobRecord(JobStatus(RunState.FAILED, ()), ended=self._now(), reason=str(error), closed=True)
            return self._write(pai, failed)
        except ClusterError as error:
            raise PaictlError(f"{pai.key} cannot be planned: {error}") from None

    def _follow(self, context: JobContext, record: JobRecord) -> None:
        pai, now = context.pai, self._now()
        objects = self.cache.seen(pai, record.status)
        after = follow(record, objects, now, stopped=pai.stopped)
        if after is None:
            objects = caches.ask(self.client, pai, record.status)
            after = follow(record, objects, now, stopped=pai.stopped) or record
        if after != record:
            pai = self._write(pai, after)
            self.cache.forget_ghosts(pai.name, after.status.attempt)
        actions = wanted(after, objects, now, gated=self.gated)
        execute(self.client, replace(context, pai=pai), after.status.attempt, actions)
        over = closed(after, actions)
        if over != after:
            release_ports(self.client, context)
            self._write(pai, over)
            self.cache.forget_ghosts(pai.name, over.status.attempt + 1)
        elif actions.later is not None:
            self.queue.add(pai.name, actions.later)

    def _fail(self, pai: PaiJob, record: JobRecord, reason: str) -> None:
        """A job of which the API server does not take an object has failed; what it has taken ends."""
        status = replace(lifecycle.stop(record.status).status, state=RunState.FAILED)
        self._write(pai, replace(record, status=status, ended=self._now(), reason=reason))

    def _write(self, pai: PaiJob, record: JobRecord) -> PaiJob:
        """Write a record; the job as it is now. Raises `LaterError` if another client was faster."""
        return self.cache.remember(write_record(self.client, pai, record))

    def _now(self) -> datetime:
        return self.clock().replace(microsecond=0)

    # --- housekeeping

    def sweep(self, keep: float) -> int:
        """Delete jobs that have ended more than `keep` seconds ago; how many."""
        now, gone = self._now(), 0
        for pai in self.cache.jobs():
            ended = pai.record.ended if pai.record is not None and pai.record.closed else None
            if ended is not None and (now - ended).total_seconds() > keep and self.remaining() > MARGIN:
                self.log(f"{pai.key} ended at {rfc3339(ended)} and is forgotten")
                forget(self.client, pai)
                gone += 1
        return gone


def forget(client: KubeClient, pai: PaiJob) -> None:
    """Delete a job; Kubernetes deletes what it owns."""
    try:
        body = {"preconditions": {"uid": pai.uid}, "propagationPolicy": "Background"}
        client.request("DELETE", paijobs_path(pai.name), body)
    except KubeError as error:
        if error.status not in (NOT_FOUND, CONFLICT):
            raise


class Planner:
    """Plans jobs by the newest configuration of a cluster, which is read again only when it has changed."""

    def __init__(self, client: KubeClient) -> None:
        self._store = VersionStore(client)
        self._known: ConfigSnapshot | None = None
        self._lock = threading.Lock()

    def record(self, pai: PaiJob) -> JobRecord:
        """The record with which a job begins.

        Raises `JobError` for one that cannot be planned, `ClusterError` if there is no configuration to plan by.
        """
        configuration = self._configuration()
        job = configuration.sharing.run_times.limited(pai.job)
        refuse_ports(Fields(pai.data, ""))
        plan = plan_job(job, configuration.supply, pai.user)
        scheduling = {role.name: plan.spec(role.pod()) for role in sorted(plan.roles, key=lambda role: role.name)}
        status = lifecycle.submit(job).status
        return JobRecord(status, scheduling, plan.devices, max_run_time=job.max_run_time)

    def _configuration(self) -> ConfigSnapshot:
        with self._lock:
            head = self._store.head()
            if head is None or not head.newest:
                raise ClusterError("no configuration has been pushed yet", hint="paictl config push -p DIR")
            if self._known is None or self._known.number != head.newest:
                version = self._store.version(head.newest)
                self._known = ConfigSnapshot(version.number, version.files)
            return self._known
