"""Pollux' search: how many devices each job gets on each node, by NSGA-II (Deb et al., 2002) on integer matrices.

A population of allocations (jobs x nodes) is crossed between jobs, mutated, repaired to what the nodes hold, and ranked
by two objectives: the harmonic mean of speedups, with a penalty for those that would restart, and how well the nodes
in use are used. Random numbers are those of `numpy.random.RandomState`, whose streams never change.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from paictl.frozen import frozen

_EPSILON: Final = 1e-3
_RESET, _THIN, _ZERO = 0.1, 0.1, 0.1
"""Probabilities: that a job's row is reset to its present one, that a row is thinned, and of each entry of it then."""
_CROSS: Final = 0.9
_DIGITS: Final = 12
"""Decimals of the objectives: further ones depend on the order in which a processor adds."""


@frozen
class Allotment:
    """The problem; arrays over jobs (J) and nodes (N)."""

    base: Any
    """J x N: the devices that each job has now."""
    speedups: Any
    """J x (nodes + 1) x (devices + 1): speedup on so many nodes with so many devices; 0 for none."""
    factors: Any
    """J: factor of a job's speedup if it restarts."""
    limits: Any
    """J: most devices of a job."""
    exact: Any
    """J: whether a job needs exactly its limit."""
    sizes: Any
    """N: devices of each node."""
    kinds: Any
    """N: number of the type of each node; a job is on one type."""
    allowed: Any
    """J x N: whether a job may run there."""

    def measured(self, states: Any) -> Any:
        """Both objectives of each state, to be minimised (states x 2): minus the mean speedup, minus node utility."""
        jobs = np.arange(states.shape[1])
        nodes = np.minimum(np.count_nonzero(states, axis=2), self.speedups.shape[1] - 1)
        count = states.sum(axis=2)
        speedups = self.speedups[jobs, nodes, count]
        scaled = speedups * len(self.sizes) / self.sizes.sum()
        changed = (states != self.base).any(axis=2)
        scaled = scaled * np.where(changed, self.factors, 1.0)
        mean = states.shape[1] / (1.0 / (scaled + _EPSILON)).sum(axis=1)
        used = ((states.sum(axis=1) > 0) * self.sizes).sum(axis=1)
        utility = np.where(used > 0, speedups.sum(axis=1) / np.maximum(used, 1), 0.0)
        return np.round(np.column_stack([-mean, -utility]), _DIGITS)


def searched(
    problem: Allotment, population: Any, seed: int, size: int, generations: int, patience: int
) -> tuple[Any, Any]:
    """(The best allocation by mean speedup, J x N; the last population), starting from an earlier population.

    The search ends early after `patience` generations in a row without a better mean.
    """
    dice = np.random.RandomState(seed % (1 << 32))
    states = _unique(_repaired(problem, np.array(population, dtype=np.int64), dice), None)
    values = problem.measured(states)
    ranks, crowding = _ranked(values)
    best, idle = float(values[:, 0].min()), 0
    for _ in range(generations):
        if idle >= patience:
            break
        parents, partners = (_tournament(ranks, crowding, size // 2, dice) for _ in range(2))
        children = _crossed(states[parents], states[partners], dice)
        children = _repaired(problem, _mutated(problem, children, dice), dice)
        children = _unique(children, states)
        if len(children):
            states = np.concatenate([states, children])
            values = np.concatenate([values, problem.measured(children)])
        ranks, crowding = _ranked(values)
        survivors = np.lexsort((np.arange(len(states)), -crowding, ranks))[:size]
        states, values, ranks, crowding = states[survivors], values[survivors], ranks[survivors], crowding[survivors]
        before, best = best, min(best, float(values[:, 0].min()))
        idle = idle + 1 if best == before else 0
    return states[int(np.argmin(values[:, 0]))], states


def _unique(states: Any, earlier: Any) -> Any:
    """The states without duplicates and without those in `earlier`."""
    keys = set() if earlier is None else {state.tobytes() for state in earlier}
    places = []
    for place, state in enumerate(states):
        key = state.tobytes()
        if key not in keys:
            keys.add(key)
            places.append(place)
    return states[places]


def _ranked(values: Any) -> tuple[Any, Any]:
    """Pareto front (0: not dominated) and crowding distance of each row of objectives."""
    number = len(values)
    order = np.lexsort((values[:, 1], values[:, 0]))
    ranks = np.zeros(number, dtype=np.int64)
    last: list[float] = []
    """By front, the least second objective so far, which rises from front to front."""
    fronts: list[list[int]] = []
    before: tuple[float, float, int] | None = None
    for place in order.tolist():
        first, second = values[place, 0], values[place, 1]
        if before is not None and before[:2] == (first, second):
            front = before[2]
        else:
            low, high = 0, len(last)
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if last[middle] <= second else (low, middle)
            front = low
        if front == len(last):
            last.append(second)
            fronts.append([])
        last[front] = min(last[front], second)
        fronts[front].append(place)
        ranks[place] = front
        before = first, second, front
    crowding = np.zeros(number)
    for members in fronts:
        for column in (0, 1):
            row = np.array(sorted(members, key=lambda place: (values[place, column], place)))
            span = values[row[-1], column] - values[row[0], column]
            crowding[row[0]] = crowding[row[-1]] = np.inf
            if len(row) > 2 and span > 0:
                crowding[row[1:-1]] += (values[row[2:], column] - values[row[:-2], column]) / span
    return ranks, crowding


def _tournament(ranks: Any, crowding: Any, number: int, dice: Any) -> Any:
    """`number` winners (indices): each the better of two random states."""
    first, second = (dice.randint(0, len(ranks), size=number) for _ in range(2))
    better = (ranks[first] < ranks[second]) | ((ranks[first] == ranks[second]) & (crowding[first] >= crowding[second]))
    return np.where(better, first, second)


def _crossed(parents: Any, partners: Any, dice: Any) -> Any:
    """Each pair of states swaps the jobs before a random point, or is copied unchanged."""
    number, jobs = parents.shape[:2]
    points = dice.randint(0, jobs, size=(number, 1))
    mask = (np.arange(jobs) < points) & (dice.random_sample((number, 1)) < _CROSS)
    return np.concatenate(
        [np.where(mask[:, :, None], partners, parents), np.where(mask[:, :, None], parents, partners)]
    )


def _mutated(problem: Allotment, states: Any, dice: Any) -> Any:
    reset = dice.random_sample(states.shape[:2]) < _RESET
    states = np.where(reset[:, :, None], problem.base, states)
    thin = np.where(dice.random_sample(states.shape[:2]) < _THIN, _ZERO, 0.0)
    states[dice.random_sample(states.shape) < thin[:, :, None]] = 0
    free = problem.sizes - states.sum(axis=1)
    room = np.broadcast_to((free > 0)[:, None, :], states.shape) & problem.allowed
    held = (states > 0) & room
    near_free = room / np.maximum(room.sum(axis=1, keepdims=True), 1.0)
    near_held = held / np.maximum(held.sum(axis=1, keepdims=True), 1.0)
    grown = dice.random_sample(states.shape) < near_free + near_held - near_free * near_held
    drawn = states + (dice.random_sample(states.shape) * (problem.sizes - states + 1)).astype(np.int64)
    return np.where(grown, np.minimum(drawn, problem.sizes), states)


def _repaired(problem: Allotment, states: Any, dice: Any) -> Any:
    """At most one job that spans several nodes on each node; no job above its limit; no node above its size."""
    states = states * problem.allowed
    if (problem.kinds != problem.kinds[0]).any():
        states = _on_one_type(problem, states)
    spread = (np.count_nonzero(states, axis=2) > 1)[:, :, None] & (states > 0)
    states[spread & (spread.cumsum(axis=1) > 1)] = 0
    shuffle = np.argsort(dice.random_sample(states.shape), axis=2)
    states = np.take_along_axis(states, shuffle, axis=2)
    states = np.diff(np.minimum(states.cumsum(axis=2), problem.limits[:, None]), axis=2, prepend=0)
    states[(states > 0) & ((states > 0).cumsum(axis=2) > problem.speedups.shape[1] - 1)] = 0
    states = np.take_along_axis(states, np.argsort(shuffle, axis=2), axis=2)
    states = np.diff(np.minimum(states.cumsum(axis=1), problem.sizes), axis=1, prepend=0)
    if problem.exact.any():
        _complete(problem, states)
    return states


def _on_one_type(problem: Allotment, states: Any) -> Any:
    """Each job keeps only the devices of the type of which it has most."""
    number = int(problem.kinds.max()) + 1
    by_kind = np.stack([(states * (problem.kinds == kind)).sum(axis=2) for kind in range(number)], axis=2)
    return states * (by_kind.argmax(axis=2)[:, :, None] == problem.kinds)


def _complete(problem: Allotment, states: Any) -> None:
    """Jobs that need an exact number get the rest on the emptiest nodes of their type, or nothing (not in Pollux)."""
    count = states.sum(axis=2)
    for which, job in np.argwhere(problem.exact & (count > 0) & (count < problem.limits)).tolist():
        state, row = states[which], states[which, job]
        rest = int(problem.limits[job] - row.sum())
        free = (problem.sizes - state.sum(axis=0)) * problem.allowed[job]
        free = free * (problem.kinds == problem.kinds[int(row.argmax())])
        if free.sum() < rest:
            row[:] = 0
            continue
        for node in np.lexsort((np.arange(len(free)), -free, row == 0)).tolist():
            more = min(rest, int(free[node]))
            row[node] += more
            rest -= more
