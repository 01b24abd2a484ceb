"""Several runs of one trace, in several processes; the results are those of one process, in the order asked for."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.sim.cluster import ClusterShape
from paictl.sim.job import Job
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate


@frozen
class RunRequest:
    """One run."""

    policy: str
    cluster: ClusterShape
    seed: int = 0
    inflate: float | None = None
    """See `simulate`."""


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
) -> list[RunResult]:
    """Every run; `done` is told after each how many there are.

    Without `processes` as many as there are processors, or runs; one for a trace of few jobs, which is played sooner
    than a process starts. What a run raises is raised here.
    """
    workers = min(processes or (os.cpu_count() if len(jobs) > FEW else 1) or 1, len(wanted))
    if workers < 2:
        found = []
        for one in wanted:
            found.append(simulate(jobs, one.cluster, one.policy, seed=one.seed, inflate=one.inflate))
            if done:
                done(len(found))
        return found
    # `spawn` everywhere: what a forked process inherits of threads and buffers is not worth the start that it saves
    context = multiprocessing.get_context("spawn")
    others = {child.pid for child in multiprocessing.active_children()}
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(jobs,)) as pool:
        futures = [pool.submit(_one, one) for one in wanted]
        try:
            for number, future in enumerate(as_completed(futures), 1):
                future.result()
                if done:
                    done(number)
        except BaseException:
            for child in multiprocessing.active_children():  # nobody waits for runs that nobody wants any more
                if child.pid not in others:
                    child.terminate()
            pool.shutdown(wait=True, cancel_futures=True)  # and nobody is left behind: they end at once now
            raise
        return [future.result() for future in futures]


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
