"""Several runs of one trace, in several processes; the results are those of one process, in the order asked for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

from paictl.errors import PaictlError
from paictl.sim.job import Job
from paictl.sim.kept import KeptRuns as KeptRuns
from paictl.sim.kept import RunRequest as RunRequest
from paictl.sim.run import RunResult
from paictl.sim.simulate import PausedError, simulate

FEW: Final = 100
"""Jobs."""

_POLL: Final = 0.2
"""Seconds between two looks at how far the processes are."""

_jobs: Sequence[Job] = ()
"""The trace, in a process that plays it."""
_shared: _Shared | None = None
"""What it shares with the process that asked."""


def play(
    jobs: Sequence[Job],
    wanted: Sequence[RunRequest],
    *,
    processes: int | None = None,
    done: Callable[[int], None] | None = None,
    part: Callable[[float], None] | None = None,
    kept: KeptRuns | None = None,
    drop: bool = True,
) -> list[RunResult]:
    """Every run; `done` is called after each with how many there are, `part` with the part of all that is played.

    `kept` is where runs are kept until all are there: what is finished is not played again by an interrupted command.
    Ctrl-C stops the runs that are played between two of their instants and keeps how far they are, then raises
    `KeyboardInterrupt`; a second one does so at once. `drop=False`: more runs will follow, keep these too.

    Without `processes` as many as there are processors, or runs; one for a trace of few jobs, which is played sooner
    than a process starts. What a run raises is raised here.
    """
    found: dict[int, RunResult] = {}
    for place, one in enumerate(wanted):
        if kept is not None and (run := kept.get(one)) is not None:
            found[place] = run

    def finish(place: int, run: RunResult) -> None:
        found[place] = run
        if kept is not None:
            kept.put(wanted[place], run)
        if done:
            done(len(found))
        if part is not None:
            part(len(found) / len(wanted))

    def running(parts: float) -> None:
        if part is not None:
            part((len(found) + parts) / len(wanted))

    missing = {place: request for place, request in enumerate(wanted) if place not in found}
    workers = min(processes or (os.cpu_count() if len(jobs) > FEW else 1) or 1, len(missing))
    with _stoppable(kept is not None) as stop:
        if workers < 2:
            _one_by_one(jobs, missing, finish, running, stop, kept)
        else:
            _side_by_side(jobs, missing, workers, finish, running, stop, kept)
    if kept is not None and drop:
        for one in wanted:
            kept.drop(one)
    return [found[place] for place in range(len(wanted))]


@contextmanager
def _stoppable(on: bool) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, which only asks while this lasts; the second time it does what it did before."""
    before = signal.getsignal(signal.SIGINT)
    if not on or not callable(before) or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            before(number, frame)
        asked = True

    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _one_by_one(
    jobs: Sequence[Job],
    missing: Mapping[int, RunRequest],
    finish: Callable[[int, RunResult], None],
    running: Callable[[float], None],
    stop: Callable[[], bool],
    kept: KeptRuns | None,
) -> None:
    for place, request in missing.items():
        try:
            run = _played(jobs, request, running, stop, kept.snapshot(request) if kept is not None else None)
        except PausedError as paused:
            if kept is not None:
                kept.pause(request, paused.snapshot)
            raise KeyboardInterrupt from None
        finish(place, run)
        if stop():  # it came to its end in the meantime
            raise KeyboardInterrupt


def _side_by_side(
    jobs: Sequence[Job],
    missing: Mapping[int, RunRequest],
    workers: int,
    finish: Callable[[int, RunResult], None],
    running: Callable[[float], None],
    stop: Callable[[], bool],
    kept: KeptRuns | None,
) -> None:
    # `spawn` everywhere: what a forked process inherits of threads and buffers is not worth the start that it saves
    context = multiprocessing.get_context("spawn")
    others = {child.pid for child in multiprocessing.active_children()}
    shared = _Shared(context.RawArray("d", max(missing) + 1), context.RawValue("b", 0))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(jobs, shared)) as pool:
        try:
            pending = {
                pool.submit(_in_worker, place, request, kept.snapshot(request) if kept is not None else None): place
                for place, request in missing.items()
            }
            while pending:
                over, _ = wait(pending, timeout=_POLL, return_when=FIRST_COMPLETED)
                for future in sorted(over, key=lambda one: pending[one]):
                    place = pending.pop(future)
                    shared.parts[place] = 0.0
                    if future.cancelled():
                        continue
                    run = future.result()
                    if isinstance(run, RunResult):
                        finish(place, run)
                    elif kept is not None:
                        kept.pause(missing[place], run)
                running(sum(shared.parts))
                if stop():
                    shared.stop.value = 1
                    for future in pending:
                        future.cancel()
            if stop():
                raise KeyboardInterrupt
        except BaseException:
            for child in multiprocessing.active_children():  # nobody waits for runs that nobody wants any more
                if child.pid not in others:
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)  # and nobody is left behind: they end at once now
            raise


class _Shared(NamedTuple):
    """What processes tell each other while they play."""

    parts: Any
    """By place of the run, the part of it that is played (written by its worker); a shared array."""
    stop: Any
    """Set by the parent: every run shall stop and give back its snapshot; a shared byte."""


def _begin(jobs: Sequence[Job], shared: _Shared) -> None:
    global _jobs, _shared
    _jobs, _shared = jobs, shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked


def _in_worker(place: int, wanted: RunRequest, snapshot: bytes | None) -> RunResult | bytes:
    """The run, or where it was stopped its snapshot."""
    shared = _shared
    assert shared is not None  # noqa: S101 `_begin` was called

    def part(done: float) -> None:
        shared.parts[place] = done

    try:
        return _played(_jobs, wanted, part, lambda: bool(shared.stop.value), snapshot)
    except PausedError as paused:
        return paused.snapshot
    except PaictlError as error:
        # as one that can be sent: those with arguments of their own cannot be made again on the other side
        raise PaictlError(error.message, where=error.where, hint=error.hint) from None


def within(part: Callable[[float], None], before: float, total: float, size: float = 1) -> Callable[[float], None]:
    """The part of a piece of that size as that of all, `before` of which is done."""
    return lambda of_this: part((before + of_this * size) / total)


def _played(
    jobs: Sequence[Job],
    wanted: RunRequest,
    part: Callable[[float], None] | None,
    stop: Callable[[], bool],
    snapshot: bytes | None,
) -> RunResult:
    return simulate(
        jobs, wanted.cluster, wanted.policy, seed=wanted.seed, inflate=wanted.inflate, log=wanted.log,
        failures=wanted.failures, part=part, stop=stop, snapshot=snapshot,
    )  # fmt: skip
