"""Which jobs are looked at, when and by whom: the queue, its workers, and what the metrics say of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from paictl.cluster.values import JobRequest
from paictl.controller.cache import WORKS
from paictl.controller.loop import BACKOFF, PAUSE, SHARE, ControlLoop, WorkQueue
from paictl.controller.metrics import ControllerMetrics
from paictl.remote.kube.client import KubeError
from paictl.remote.kube.informer import InformerTimes
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import Bench, FakeJobs


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watched(FakeJobs):
    """Its watches say nothing and end, so that informers list again and again."""

    def open(self, *_: object) -> Watched:  # type: ignore[override]
        return self

    def lines(self) -> Iterator[bytes]:
        time.sleep(0.02)
        return iter(())


def taken(queue: WorkQueue) -> str:
    """The job that a worker gets now; empty if none is due."""
    queue.add("zero")  # due now, after all others that are
    name = queue.get()
    if name != "zero":
        assert queue.get() == "zero"
    queue.done("zero", 0.0)
    return "" if name == "zero" else str(name)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_job_that_is_named_often_is_looked_at_once_and_by_one_worker() -> None:
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add("a", after=5)
    queue.add("a")
    queue.add("a", after=9)
    queue.add("b", after=1)
    assert len(queue) == 2
    assert queue.get() == "a"
    queue.add("a")
    assert len(queue) == 1, "it is looked at now"
    clock.now += 1
    assert queue.get() == "b"
    queue.done("a", 0.0)
    assert taken(queue) == "", "there is a pause"
    clock.now += 2 * PAUSE
    assert queue.get() == "a"


def test_users_take_turns_and_keep_the_order_of_their_own_jobs() -> None:
    clock = Clock()
    queue = WorkQueue(clock, user_of=lambda name: name[0])
    for number in range(4):
        queue.add(f"a{number}")
    clock.now += 1
    assert queue.get() == "a0"
    for name in ("b0", "c0", "b1", "a0", "a3"):  # one that is looked at, and one that is in line already
        queue.add(name)
    assert [queue.get() for _ in range(6)] == ["a1", "b0", "c0", "a2", "b1", "a3"]
    queue.done("a0", 0.0)
    assert len(queue) == 1
    clock.now += 2 * PAUSE
    assert queue.get() == "a0"
    assert len(queue) == 0


def test_a_job_that_is_named_twice_for_one_instant_is_in_line_once() -> None:
    """Otherwise the second time ends the worker that takes it."""
    clock = Clock()
    queue = WorkQueue(clock)
    for name, after in (("a", 5), ("a", 3), ("b", 4)):
        queue.add(name, after)
    clock.now += 3
    assert queue.get() == "a"
    queue.add("a", 2)
    queue.done("a", 0.0)
    clock.now += 3
    assert [queue.get(), queue.get()] == ["b", "a"]
    assert len(queue) == 0
    queue.add("c")
    assert queue.get() == "c"


def test_a_job_of_another_user_is_not_behind_all_of_those_of_one(kube: FakeJobs) -> None:
    many = [request({"a": {}}, f"job{number}") for number in range(5)]
    cluster(kube).submit(many)
    cluster(kube).submit([JobRequest("bob", request({"a": {}}, "mine").data)])
    bench = Bench(kube)
    bench.tell()
    queue = bench.loop.queue
    names = [str(queue.get()) for _ in range(len(queue))]
    assert len(names) == len(many) + 1
    assert [name.partition("-")[0] for name in names[:2]] == ["ann", "bob"]


def test_a_look_that_took_long_is_not_taken_again_at_once() -> None:
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add("a")
    queue.get()
    queue.done("a", 2.0)
    queue.add("a")
    clock.now += 2.0 * SHARE - 0.1
    assert taken(queue) == ""
    clock.now += 0.2
    assert taken(queue) == "a"


def test_errors_are_followed_by_pauses_that_grow_until_a_look_succeeds() -> None:
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add("a")
    first, most = BACKOFF
    for pause in (*(min(first * 2**error, most) for error in range(12)), 0.0, first):
        assert taken(queue) == "a"
        if pause:
            queue.failed("a")
            clock.now += pause - 0.1
            assert taken(queue) == ""
            clock.now += 0.2
        else:
            queue.done("a", 0.0)
            queue.add("a")


def test_a_worker_sleeps_until_a_job_is_due_or_a_sooner_one_is_named() -> None:
    queue = WorkQueue()
    names: list[str | None] = []
    began = time.monotonic()
    queue.add("late", after=60)
    queue.add("soon", after=0.2)
    assert queue.get() == "soon"
    assert 0.2 <= time.monotonic() - began < 10
    worker = threading.Thread(target=lambda: names.extend([queue.get(), queue.get()]))
    worker.start()
    queue.add("now")
    until(lambda: len(queue) == 1)
    queue.close()
    worker.join(10)
    assert names == ["now", None], "closed, although one waits"


def test_workers_bring_jobs_on_their_way_and_say_an_error_once(kube: FakeJobs) -> None:
    served, lines = Watched(kube.objects), list[str]()
    loop = ControlLoop(served, lambda: 60.0, lines.append, times=InformerTimes(relist=0.05))
    cluster(kube).submit([request({"a": {}})])
    refused = [True] * 2

    def refuse(number: int) -> None:
        method, path = served.requests[number]
        if method == "POST" and path == WORKS and refused:
            refused.pop()
            raise KubeError("the webhook is away", status=500)

    served.before = refuse
    loop.start()
    until(lambda: any(path.startswith(f"{WORKS}/") for path in served.objects))
    loop.stop()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("worker ")])
    assert not refused
    (line,) = lines
    assert "the webhook is away" in line
    assert loop.looks["failed"] == 2
    assert loop.looks["done"]


def test_nothing_is_begun_in_the_last_moments_of_a_lease(kube: FakeJobs) -> None:
    served, lines = Watched(kube.objects), list[str]()
    cluster(kube).submit([request({"a": {}})])
    loop = ControlLoop(served, lambda: 0.4, lines.append, times=InformerTimes(relist=0.05))
    loop.start()
    until(lambda: loop.looks["later"])
    loop.stop()
    assert job(kube).state.value == "Waiting"
    assert not lines
    assert {method for method, _ in served.requests} == {"GET"}


def test_metrics_say_who_leads_and_what_there_is_to_do(kube: FakeJobs) -> None:
    assert "paictl_controller_leader 0.0" in ControllerMetrics(kube, lambda: None).text().decode()
    cluster(kube).submit([request({"a": {}}), request({"a": {}}, "second")])
    bench = Bench(kube)
    metrics = ControllerMetrics(kube, lambda: bench.loop)
    bench.tell()
    assert 'paictl_controller_jobs{state="New",vc="tenanta"} 2.0' in metrics.text().decode()
    bench.look()
    bench.tell()
    text = metrics.text().decode()
    for line in ("leader 1.0", "queue 2.0", 'jobs{state="Waiting",vc="tenanta"} 2.0'):
        assert f"paictl_controller_{line}" in text
