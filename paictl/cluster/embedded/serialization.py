"""The world as JSON values and back, complete: what is not written here is lost between two commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from functools import partial
from typing import TYPE_CHECKING, Any

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.dispatch import Dispatcher, Survivors
from paictl.cluster.embedded.jobs import NewJob, Notice, PodNews, Timer, dump_job, load_job
from paictl.cluster.embedded.services import SCHEDULER
from paictl.cluster.embedded.store import whole
from paictl.cluster.embedded.world import World
from paictl.cluster.movetotals import totals_data, totals_from
from paictl.scheduler import snapshot
from paictl.scheduler.book import Book, BookedPod
from paictl.sim.loop import EventLoop, EventPriority
from paictl.units import Millis
from paictl.workload.lifecycle import PodChange, TaskRef
from paictl.workload.reservations import Reservations, read_reservation, reservation_row
from paictl.workload.usage import UsageLedger
from paictl.workload.windows import Windows, read_window

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine


def dump(world: World) -> dict[str, Any]:
    """The state of a world; its `ended`, `events` and closed spans of usage are the caller's to keep."""
    engine = world.dispatcher.engine
    return {
        "name": world.name,
        "now": world.now,
        "timers": [[at, int(urgency), *timer] for at, urgency, timer in world.loop.pending()],
        "machines": world.machines.dump(),
        "services": world.services.dump(),
        "configs": world.configs.dump(),
        "jobs": [dump_job(job) for job in world.jobs.values()],
        "backlog": [_dump_notice(notice) for notice in world.backlog],
        "numbers": world.numbers,
        "waiting": world.dispatcher.waiting.dump(),
        "usage": world.usage.dump(),
        "month": world.sharing.dump(),
        **({"windows": [asdict(window) for window in world.windows]} if world.windows else {}),
        **({"reservations": list(map(reservation_row, world.reservations))} if world.reservations else {}),
        **({"moves": totals_data(world.moves)} if world.moves else {}),
        "engine": None if engine is None else _dump_engine(engine),
        "nodes": None if engine is None else list(engine.state.physical.nodes),
    }


def load(data: Mapping[str, Any]) -> World:
    """The inverse of `dump`."""
    world = World(data["name"], ())
    world.loop = EventLoop(Millis(data["now"]))
    for at, urgency, *timer in data["timers"]:
        world.loop.schedule(Millis(at), EventPriority(urgency), Timer(*timer))
    world.machines.load(data["machines"])
    world.services.load(data["services"])
    world.configs.load(data["configs"])
    world.jobs = {row["key"]: load_job(row) for row in data["jobs"]}
    world.backlog = [_load_notice(row) for row in data["backlog"]]
    world.numbers = dict(data["numbers"])
    world.windows = Windows(tuple(map(read_window, data.get("windows", ()))))
    world.dispatcher.windows = world.windows
    world.moves = totals_from(data.get("moves", {}))
    world.sharing.restore(data.get("month"))
    world.reserve(Reservations(tuple(map(read_reservation, data.get("reservations", ())))))
    loaded = world.services.version(SCHEDULER)
    if data["engine"] is not None and loaded is not None:
        world.sharing.load(world.configs.get(loaded).sharing)
    _find_pods(world, data["waiting"]["pods"])
    if data["engine"] is not None:
        make = partial(_book, world.configs.get(loaded), data["engine"], world.survivors())
        world.dispatcher.resume_later(make, data.get("nodes"))  # clusters of earlier versions do not say them
        for group in data["waiting"]["refused"]:
            world.dispatcher.waiting.refuse(group)
    if "usage" in data:
        world.usage = UsageLedger.load(data["usage"])
    else:
        _begin_usage(world)
    return world


def _begin_usage(world: World) -> None:
    """Open the books of a cluster of an earlier version, which had none, with the pods that run."""
    world.usage = UsageLedger(world.now)
    world.usage.promise(world.now, world.dispatcher.promises())
    for job in world.jobs.values():
        for ref, run in job.running():
            world.book_pod(job, ref, run)


def _dump_engine(engine: Engine) -> Mapping[str, Any]:
    return snapshot.dump(engine)


def _book(configuration: ConfigSnapshot, dumped: Mapping[str, Any], survivors: Survivors) -> Book:
    """The scheduler's book as it was when the world was stored; raises `ClusterError` for a damaged one.

    What an earlier version has stored is not read: the scheduler recovers from nodes and pods, as after a restart.
    """
    with whole():
        if dumped["format"] in snapshot.EARLIER:
            dispatcher = Dispatcher()
            dispatcher.start(configuration.spec, survivors)
            assert dispatcher.book is not None  # noqa: S101 - just started
            return dispatcher.book
        book = Book(snapshot.restore(configuration.spec, dumped))
    book.resume(
        {pod.request.uid: BookedPod(pod.request, None, pod.info, bound=True) for pod in survivors.running},
        dict.fromkeys(survivors.healthy, True),
        survivors.bad_devices,
    )
    return book


def _dump_notice(notice: Notice) -> list[Any]:
    match notice:
        case NewJob(key):
            return [key, None, None]
        case PodNews(key, ref, what):
            return [key, list(astuple(ref)), what.value]


def _load_notice(row: Sequence[Any]) -> Notice:
    key, ref, what = row
    return NewJob(key) if ref is None else PodNews(key, TaskRef(*ref), PodChange(what))


def _find_pods(world: World, waiting: Iterable[str]) -> None:
    """Find the pods of the jobs again; those in `waiting` (uids, in order) queue for the scheduler."""
    refs = {
        job.pod(task.ref).uid: (key, task.ref)
        for key, job in world.jobs.items()
        for task in job.status.tasks
        if not task.state.final
    }
    for uid in waiting:
        key, ref = refs[uid]
        world.pods[uid] = (key, ref)
        job = world.jobs[key]
        world.dispatcher.add(job.request(ref), job.number, job.job.max_run_time, job.job.reservation)
    for key, job in world.jobs.items():
        for ref, _ in job.running():
            world.pods[job.pod(ref).uid] = (key, ref)
