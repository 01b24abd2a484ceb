"""Themis as Muri's simulator has it: at each event a convex program, solved to the digits of its solver.

It measures why the mean JCT there is above that of our `themis` on trace 2_pr: `python -m tests.sim_reference.ratios
trace2_pr drawn` has ties drawn, `order` follows the last digits of the exact centre, `solvers` asks ECOS and, where
that fails, SCS. That needs the packages ecos and scs (neither is among ours) and, by parts of such a run, half an hour
on that trace. Times are seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

import numpy as np
from scipy import sparse

from paictl.sim.job import Job
from paictl.sim.policies.themis import _rounded
from paictl.sim.programs.finish_times import Demands, fair_shares, isolated_shares
from tests.sim_reference.stages import NODES, PER_NODE, Events, Task
from tests.sim_reference.support import trace

SIZE: Final = NODES * PER_NODE
LEAST: Final = 1e-3
"""Seconds of work that a job has left at least: it ends within rounding."""
NEVER_RAN: Final = 1e9
TURNS: Final = 300
"""Turns of SCS: at this size it has not come to an end after 2,500 either."""

Shares = Callable[[Demands, Any], Any]
"""Shares of the jobs by their demands and the steps they have left."""


class Ratios(Events):
    """Largest share relative to the time that a job has run goes first; who never ran goes before all others."""

    def __init__(self, jobs: Iterable[Job], shares: Shares, draws: bool) -> None:
        super().__init__(jobs)
        self.shares = shares
        self.dice = np.random.RandomState(0) if draws else None
        self.alone: dict[int, float] = {}
        """Steps that a job has done, each divided by its share of then in a cluster of its own."""
        self.before: dict[int, tuple[float, float]] = {}
        """Steps left, and share alone, at the last decision."""

    def decide(self) -> None:
        live = self.live
        if not live:
            return
        gpus, left, step, ran, came = (
            np.array([getattr(task, name) for task in live], float)
            for name in ("gpus", "left", "step", "ran", "submitted")
        )
        left = np.maximum(left, LEAST / step)
        own = isolated_shares(gpus, SIZE, len(live))
        for task, steps, share in zip(live, left.tolist(), own.tolist(), strict=True):
            past, at = self.before.get(task.number, (steps, 1.0))
            self.alone[task.number] = self.alone.get(task.number, 0.0) + (past - steps) / at
            self.before[task.number] = steps, share
        done = np.array([self.alone[task.number] for task in live])
        shares = self.shares(Demands(gpus, left * step, self.now - came, done + left / own), left)
        lag = np.where(ran > 0, shares / np.maximum(ran, 1e-9), shares * NEVER_RAN)
        ties = np.arange(len(live)) if self.dice is None else self.dice.permutation(len(live))
        order = np.lexsort((ties, -(lag if self.dice is None else _rounded(lag))))
        self.place([live[place] for place in order.tolist()])

    def place(self, ranked: Iterable[Task]) -> None:
        """Run whoever fits an idle cluster: on one node, or on whole nodes."""
        free = [PER_NODE] * NODES
        for task in self.live:
            task.runs = False
        for task in ranked:
            size = min(task.gpus, PER_NODE)
            nodes = [node for node in range(NODES) if free[node] >= size][: -(-task.gpus // PER_NODE)]
            if len(nodes) * size >= task.gpus:
                task.runs = True
                for node in nodes:
                    free[node] -= size
                if not any(free):
                    break


def exact(demands: Demands, left: Any) -> Any:
    """The centre of the best shares, without a solver."""
    del left
    return fair_shares(demands, SIZE)


def solved(demands: Demands, left: Any) -> Any:
    """By ECOS, and by SCS where ECOS fails: cvxpy raises a SolverError there."""
    ecos, scs = import_module("ecos"), import_module("scs")
    count, pace = len(left), left / demands.left
    costs, table, bounds, cones = cone(demands, left, pace)
    found = ecos.solve(costs, table, bounds, cones, verbose=False)
    if found["info"]["exitFlag"] < 0:
        data = {"A": table, "b": bounds, "c": costs}
        found = scs.solve(data, cones, eps_abs=1e-4, eps_rel=1e-4, max_iters=TURNS, verbose=False)
    return np.clip(found["x"][1 : 1 + count], 1e-12, 1)


def cone(demands: Demands, left: Any, pace: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The program as cvxpy hands it on: the worst ratio, then a share and a time for a step of each job.

    Each time is at least 1 / (pace * share): a cone of three rows.
    """
    count = len(left)
    each = np.arange(count)
    share, time, cones = 1 + each, 1 + count + each, 3 * count + 1 + 3 * each
    one, zero = np.ones(count), np.zeros(count, int)
    entries = [
        (each, zero, -one),
        (each, time, left / demands.alone),
        (count + each, share, -one),
        (2 * count + each, share, one),
        (zero + 3 * count, share, demands.devices),
        (cones, share, -pace),
        (cones, time, -one),
        (cones + 1, share, -pace),
        (cones + 1, time, one),
    ]
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    bounds = np.zeros(6 * count + 1)
    bounds[:count] = -demands.age / demands.alone
    bounds[2 * count : 3 * count] = 1
    bounds[3 * count] = SIZE
    bounds[cones + 2] = 2
    table = sparse.csc_matrix((values, (rows, columns)), shape=(len(bounds), 2 * count + 1))
    return np.eye(1, 2 * count + 1)[0], table, bounds, {"l": 3 * count + 1, "q": [3] * count}


WAYS: Final[dict[str, tuple[Shares, bool]]] = {
    "drawn": (exact, True),
    "order": (exact, False),
    "solvers": (solved, False),
}


def play(name: str, way: str) -> tuple[float, float]:
    """Mean JCT and makespan on a trace of Muri's, by one of `WAYS`."""
    return Ratios(trace("muri", f"{name}.csv", "muri").jobs, *WAYS[way]).play()


if __name__ == "__main__":
    for chosen in sys.argv[2:]:
        jct, makespan = play(sys.argv[1], chosen)
        print(f"{chosen:<10} mean JCT {jct:,.0f}, makespan {makespan:,.0f}", flush=True)  # noqa: T201 (a command)
