"""Several runs of one trace, in several processes; results are the same as in one process, in the requested order."""

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
from paictl.sim.checkpoints import KeptRuns as KeptRuns
from paictl.sim.checkpoints import RunRequest as RunRequest
from paictl.sim.job import Job
from paictl.sim.run import RunResult
from paictl.sim.simulate import PausedError, simulate

FEW: Final = 100
"""Jobs up to which a trace is played in one process."""

_POLL: Final = 0.2
"""Seconds between two checks of the processes' progress."""

_jobs: Sequence[Job] = ()
"""The trace, in a worker process."""
_shared: _Shared | None = None
"""What a worker shares with its parent process."""


def play(
    jobs: Sequence[Job],
    requests: Sequence[RunRequest],
    *,
    processes: int | None = None,
    done: Callable[[int], None] | None = None,
    part: Callable[[float], None] | None = None,
    kept: KeptRuns | None = None,
    drop: bool = True,
) -> list[RunResult]:
    """Play every run; `done` is called after each with their number, `part` with the fraction of all that is played.

    `kept` keeps runs until all are there, so that an interrupted command does not repeat finished ones. Ctrl-C stops
    the runs between two of their instants and keeps snapshots of them, then raises `KeyboardInterrupt`; a second
    Ctrl-C does so at once. `drop=False`: more runs will follow, so keep these too.

    `processes` defaults to the number of processors or runs, or one for a trace of few jobs, which takes less time
    than starting a process. Errors of a run are raised here.
    """
    results: dict[int, RunResult] = {}
    for place, request in enumerate(requests):
        if kept is not None and (run := kept.get(request)) is not None:
            results[place] = run

    def finish(place: int, run: RunResult) -> None:
        results[place] = run
        if kept is not None:
            kept.put(requests[place], run)
        if done:
            done(len(results))
        if part is not None:
            part(len(results) / len(requests))

    def running(parts: float) -> None:
        if part is not None:
            part((len(results) + parts) / len(requests))

    missing = {place: request for place, request in enumerate(requests) if place not in results}
    workers = min(processes or (os.cpu_count() if len(jobs) > FEW else 1) or 1, len(missing))
    with _stoppable(kept is not None) as stop:
        if workers < 2:
            _one_by_one(jobs, missing, finish, running, stop, kept)
        else:
            _side_by_side(jobs, missing, workers, finish, running, stop, kept)
    if kept is not None and drop:
        for request in requests:
            kept.drop(request)
    return [results[place] for place in range(len(requests))]


@contextmanager
def _stoppable(on: bool) -> Iterator[Callable[[], bool]]:
    """Yields a test of whether Ctrl-C was pressed, which only sets a flag here; the second one acts as usual."""
    previous_handler = signal.getsignal(signal.SIGINT)
    if not on or not callable(previous_handler) or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    interrupted = False

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            previous_handler(number, frame)
        interrupted = True

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, previous_handler)


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
            run = _run_one(jobs, request, running, stop, kept.snapshot(request) if kept is not None else None)
        except PausedError as paused:
            if kept is not None:
                kept.pause(request, paused.snapshot)
            raise KeyboardInterrupt from None
        finish(place, run)
        if stop():  # it finished in the meantime
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
    # `spawn` everywhere: the threads and buffers that a forked process inherits are not worth the time it saves
    context = multiprocessing.get_context("spawn")
    other_children = {child.pid for child in multiprocessing.active_children()}
    shared = _Shared(context.RawArray("d", max(missing) + 1), context.RawValue("b", 0))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_init_worker, initargs=(jobs, shared)) as pool:
        try:
            pending = {
                pool.submit(_in_worker, place, request, kept.snapshot(request) if kept is not None else None): place
                for place, request in missing.items()
            }
            while pending:
                completed, _ = wait(pending, timeout=_POLL, return_when=FIRST_COMPLETED)
                for future in sorted(completed, key=lambda item: pending[item]):
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
            for child in multiprocessing.active_children():  # do not wait for runs that are no longer needed
                if child.pid not in other_children:
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)  # leaves no process behind: they end at once now
            raise


class _Shared(NamedTuple):
    """State that the processes share while they play."""

    parts: Any
    """By index of the run, the fraction that is played (written by its worker); a shared array."""
    stop: Any
    """Set by the parent: every run has to stop and return its snapshot; a shared byte."""


def _init_worker(jobs: Sequence[Job], shared: _Shared) -> None:
    global _jobs, _shared
    _jobs, _shared = jobs, shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent


def _in_worker(place: int, request: RunRequest, snapshot: bytes | None) -> RunResult | bytes:
    """The run, or its snapshot if it was stopped."""
    shared = _shared
    assert shared is not None  # noqa: S101 `_begin` was called

    def part(fraction: float) -> None:
        shared.parts[place] = fraction

    try:
        return _run_one(_jobs, request, part, lambda: bool(shared.stop.value), snapshot)
    except PausedError as paused:
        return paused.snapshot
    except PaictlError as error:
        # as one that can be pickled: errors with arguments of their own cannot be recreated in the parent
        plain = PaictlError(error.message, where=error.where, hint=error.hint)
        plain.exit_code = error.exit_code
        raise plain from None


def within(part: Callable[[float], None], before: float, total: float, size: float = 1) -> Callable[[float], None]:
    """Report the fraction of a piece of this size as a fraction of the total, of which `before` is done."""
    return lambda fraction: part((before + fraction * size) / total)


def _run_one(
    jobs: Sequence[Job],
    request: RunRequest,
    part: Callable[[float], None] | None,
    stop: Callable[[], bool],
    snapshot: bytes | None,
) -> RunResult:
    return simulate(
        jobs,
        request.cluster,
        request.policy,
        seed=request.seed,
        inflate=request.inflate,
        log=request.log,
        failures=request.failures,
        part=part,
        stop=stop,
        snapshot=snapshot,
    )
