"""Several runs of one trace, in several processes; the results are those of one process, in the order asked for."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Final

from paictl.errors import PaictlError
from paictl.sim.job import Job
from paictl.sim.kept import KeptRuns as KeptRuns
from paictl.sim.kept import RunRequest as RunRequest
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate

FEW: Final = 100
"""Jobs."""

_jobs: Sequence[Job] = ()
"""The trace, in a process that plays it."""


def play(
    jobs: Sequence[Job],
    wanted: Sequence[RunRequest],
    *,
    processes: int | None = None,
    done: Callable[[int], None] | None = None,
    part: Callable[[float], None] | None = None,
    kept: KeptRuns | None = None,
) -> list[RunResult]:
    """Every run; `done` is called after each with how many there are, `part` with the part of all that is played.

    `kept` is where finished runs are kept until all are there: those of an interrupted command are not played again.

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

    missing = [place for place in range(len(wanted)) if place not in found]
    workers = min(processes or (os.cpu_count() if len(jobs) > FEW else 1) or 1, len(missing))
    if workers < 2:
        for place in missing:
            one, before = wanted[place], len(found)
            told = None if part is None else _scaled(part, before, len(wanted))
            finish(place, simulate(jobs, one.cluster, one.policy, seed=one.seed, inflate=one.inflate, part=told))
    else:
        _side_by_side(jobs, {place: wanted[place] for place in missing}, workers, finish)
    if kept is not None:
        for one in wanted:
            kept.drop(one)
    return [found[place] for place in range(len(wanted))]


def _scaled(part: Callable[[float], None], before: int, total: int) -> Callable[[float], None]:
    """The part of one run as that of all, `before` of which are finished."""
    return lambda of_this: part((before + of_this) / total)


def _side_by_side(
    jobs: Sequence[Job], wanted: Mapping[int, RunRequest], workers: int, finish: Callable[[int, RunResult], None]
) -> None:
    # `spawn` everywhere: what a forked process inherits of threads and buffers is not worth the start that it saves
    context = multiprocessing.get_context("spawn")
    others = {child.pid for child in multiprocessing.active_children()}
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(jobs,)) as pool:
        futures = {pool.submit(_one, one): place for place, one in wanted.items()}
        try:
            for future in as_completed(futures):
                finish(futures[future], future.result())
        except BaseException:
            for child in multiprocessing.active_children():  # nobody waits for runs that nobody wants any more
                if child.pid not in others:
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)  # and nobody is left behind: they end at once now
            raise


def _begin(jobs: Sequence[Job]) -> None:
    global _jobs
    _jobs = jobs
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked


def _one(wanted: RunRequest) -> RunResult:
    try:
        return simulate(_jobs, wanted.cluster, wanted.policy, seed=wanted.seed, inflate=wanted.inflate)
    except PaictlError as error:
        # as one that can be sent: those with arguments of their own cannot be made again on the other side
        raise PaictlError(error.message, where=error.where, hint=error.hint) from None
