"""Which jobs go well together on the same devices when their stages take turns (Muri, SIGCOMM'22, sections 3 and 4).

A step of a job loads data, computes, and communicates. Jobs of a group run staggered by a stage each: while one
computes, the next one loads. Nobody begins a stage before everybody has ended the one before; a period of the group is
the time between two ends of the same stage. Loading is reading and then preparing, on storage and on CPUs: two of the
four slots of a period, and two jobs may load at once.

Jobs with the same stages are interchangeable. A matching of heaviest weight therefore needs no blossoms, but numbers:
how many pairs of which two kinds, in a linear program with a row a kind. Its corners are whole numbers, or halves
where kinds form an odd ring; what halves leave over is paired greedily.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from math import fsum, inf, isclose
from typing import Final, NamedTuple

from paictl.sim.programs.linear import Program, ProgramError

SLOTS: Final = 4
"""Of a period, and the largest number of jobs of a group."""
SLOWER: Final = (1.015, 1.33, 1.5, 1.37)
"""How much longer than planned a step takes in groups of one, two, three, four (the published simulator's factors)."""
_CYCLES: Final = 2


class Stages(NamedTuple):
    """What a step of a job takes on each resource, in milliseconds, and how long it takes alone."""

    load: float
    compute: float
    network: float
    step: float

    @property
    def busy(self) -> float:
        """All resources together."""
        return self.load + self.compute + self.network


_NOBODY: Final = Stages(-inf, -inf, -inf, 0.0)
"""Stands for an empty slot of a group: it delays no job."""

Kind = tuple[Stages, ...]
"""A group by what its jobs are like, sorted."""


def kind(*groups: Kind) -> Kind:
    """Of jobs or groups together."""
    return tuple(sorted(stages for group in groups for stages in group))


@lru_cache(maxsize=1 << 16)
def period(group: Kind) -> float:
    """Milliseconds in which every job of a group does a step, in the best order; without `SLOWER`."""
    if len(group) == 1:
        return group[0].step
    best = min(_cycle(order) for order in set(permutations(group)))
    if len(group) == 2:  # one loads while the other does all the rest
        stages, other = group
        best = min(
            best, max(stages.load, other.compute + other.network) + max(other.load, stages.compute + stages.network)
        )
    return best


def _cycle(order: Sequence[Stages]) -> float:
    """The period of jobs in an order, each a slot behind the one before: of the first that repeats, or the second."""
    jobs = (*order, *(_NOBODY,) * (SLOTS - len(order)))
    ends = [0.0]
    for slot in range(_CYCLES * SLOTS):
        end = ends[slot]
        latest = max(0.0, end + jobs[(slot + 1) % SLOTS].network, end + jobs[(slot + 2) % SLOTS].compute)
        if slot:
            latest = max(latest, ends[slot - 1] + jobs[(slot + 3) % SLOTS].load)
        ends.append(latest)
        if slot >= SLOTS and isclose(ends[-1] - ends[-1 - SLOTS], ends[-2] - ends[-2 - SLOTS], rel_tol=1e-3):
            break
    return ends[-1] - ends[-1 - SLOTS]


def slowed(group: Kind) -> float:
    """The period as it is measured, in milliseconds."""
    return period(group) * (SLOWER[len(group) - 1] if len(group) > 1 else SLOWER[0])


@lru_cache(maxsize=1 << 16)
def efficiency(group: Kind) -> float:
    """Which part of the time the resources are busy, on average."""
    return fsum(stages.busy for stages in group) / (slowed(group) * SLOTS)


def worth_it(group: Kind) -> bool:
    """Whether a period is at most what the jobs would take one after the other."""
    return slowed(group) <= fsum(stages.step * SLOWER[0] for stages in group) or len(group) == 1


class _Weights:
    """`efficiency` of any two kinds. Kinds are numbered: to hash all stages of both for each look costs as much as to
    solve the program."""

    _MOST: Final = 1 << 20

    def __init__(self) -> None:
        self._numbers: dict[Kind, int] = {}
        self._known: dict[int, dict[int, float]] = {}
        self._size = 0

    def rows(self, kinds: Sequence[Kind]) -> list[list[float]]:
        """Of each kind with itself and those behind it; 0 where they are too many jobs for a group."""
        if self._size > self._MOST:
            self._numbers.clear()
            self._known.clear()
            self._size = 0
        numbers = [self._numbers.setdefault(stages, len(self._numbers)) for stages in kinds]
        return [self._row(kinds[first:], numbers[first:]) for first in range(len(kinds))]

    def _row(self, kinds: Sequence[Kind], numbers: Sequence[int]) -> list[float]:
        known = self._known.setdefault(numbers[0], {})
        for other, number in zip(kinds, numbers, strict=True):
            if number not in known:
                together = len(kinds[0]) + len(other) <= SLOTS
                known[number] = efficiency(kind(kinds[0], other)) if together else 0.0
                self._size += 1
        return [known[number] for number in numbers]


_WEIGHTS: Final = _Weights()


@lru_cache(maxsize=1 << 14)
def pairs(counts: tuple[tuple[Kind, int], ...]) -> tuple[tuple[Kind, Kind, int], ...]:
    """How many pairs of which kinds to make of so many groups of each kind: the heaviest matching by `efficiency`."""
    rows: list[list[tuple[int, float]]] = [[] for _ in counts]
    chosen: list[tuple[float, int, int, int]] = []
    most: list[float] = []
    for first, weights in enumerate(_WEIGHTS.rows([stages for stages, _ in counts])):
        number, row = counts[first][1], rows[first]
        for second, weight in enumerate(weights, first):
            both = number // 2 if first == second else min(number, counts[second][1])
            if not both or not weight:
                continue
            variable = len(chosen)
            if first == second:
                row.append((variable, 2.0))
            else:
                row.append((variable, 1.0))
                rows[second].append((variable, 1.0))
            chosen.append((-weight, first, second, variable))
            most.append(both)
    if not chosen:
        return ()
    program = Program()
    program.variables(most, [-weight for weight, *_ in chosen])
    for terms, (_, number) in zip(rows, counts, strict=True):
        program.row(terms, at_most=float(number))
    solution = program.solve()
    if solution is None:
        raise ProgramError("no matching, although none at all is one")
    made = [int(value + 1e-6) for value in solution.values]
    left = [number for _, number in counts]
    for _, first, second, variable in chosen:
        left[first] -= made[variable]
        left[second] -= made[variable]
    for _, first, second, variable in sorted(pair for pair in chosen if left[pair[1]] and left[pair[2]]):
        number = left[first] // 2 if first == second else min(left[first], left[second])
        made[variable] += number
        left[first] -= number
        left[second] -= number
    return tuple(
        (counts[first][0], counts[second][0], made[place]) for _, first, second, place in chosen if made[place]
    )


def grouped(kinds: Sequence[Sequence[Kind]], sizes: Sequence[int], devices: int) -> list[list[list[int]]]:
    """Groups of jobs, for each size of jobs, each as places in its row of `kinds`; by the priority of their first.

    Groups are merged two by two, in up to as many rounds as a group may have jobs, and only as long as all of them do
    not fit on so many devices.
    """
    groups = [[[place] for place in range(len(row))] for row in kinds]
    asked = sum(len(row) * size for row, size in zip(kinds, sizes, strict=True))
    for _ in range(SLOTS):
        if asked <= devices:
            break
        for place, (row, size) in enumerate(zip(kinds, sizes, strict=True)):
            groups[place], asked = _round(groups[place], row, size, asked, devices)
    return groups


def _round(
    groups: list[list[int]], kinds: Sequence[Kind], size: int, asked: int, devices: int
) -> tuple[list[list[int]], int]:
    of = [kind(*(kinds[place] for place in group)) for group in groups]
    lines: dict[Kind, deque[int]] = {}
    for place, stages in enumerate(of):
        lines.setdefault(stages, deque()).append(place)
    partner: dict[int, int] = {}
    for stages, other, number in pairs(tuple(sorted(Counter(of).items()))):
        for _ in range(number):
            first, second = lines[stages].popleft(), lines[other].popleft()
            partner[max(first, second)] = min(first, second)
    gone = set(partner.values())
    made = []
    for place, group in enumerate(groups):
        if place in partner:
            if asked > devices:
                made.append(groups[partner[place]] + group)
                asked -= size
            else:
                made += [groups[partner[place]], group]
        elif place not in gone:
            made.append(group)
    return made, asked
