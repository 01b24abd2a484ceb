"""Which jobs go well together on the same devices when their stages take turns (Muri, SIGCOMM'22, sections 3 and 4).

A step of a job loads data, computes, and communicates. Jobs of a group run staggered by a stage each: while one
computes, the next one loads. Nobody begins a stage before everybody has ended the one before; a period of the group is
the time between two ends of the same stage. Loading is reading and then preparing, on storage and on CPUs: two of the
four slots of a period, and two jobs may load at once.

Jobs with the same stages are interchangeable. A matching of heaviest weight therefore needs no blossoms, but numbers:
how many pairs of which two kinds, in a linear program with a row a kind. Its corners are whole numbers, or halves
where kinds form an odd ring; what halves leave over is paired greedily.

From one decision to the next few jobs come and go. The program is kept and only its bounds change: the last corner is
then mostly still the best one. Jobs that were together stay together as long as the matching has a pair of their kinds.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, permutations
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


class StageKinds:
    """Kinds by number: a number is hashed much faster than the stages of four jobs."""

    def __init__(self) -> None:
        self._numbers: dict[Kind, int] = {}
        self._known: list[Kind] = []
        self._together: dict[tuple[int, int], int] = {}
        self._worth: dict[int, bool] = {}
        self._slowed: dict[int, float] = {}

    def number(self, stages: Kind) -> int:
        """Its number, a new one if need be."""
        if stages not in self._numbers:
            self._numbers[stages] = len(self._known)
            self._known.append(stages)
        return self._numbers[stages]

    def kind(self, number: int) -> Kind:
        """The kind with a number."""
        return self._known[number]

    def together(self, first: int, second: int) -> int:
        """The number of two groups that become one."""
        both = (first, second) if first < second else (second, first)
        if both not in self._together:
            self._together[both] = self.number(kind(self._known[first], self._known[second]))
        return self._together[both]

    def worth_it(self, number: int) -> bool:
        """See `worth_it`."""
        if number not in self._worth:
            self._worth[number] = worth_it(self._known[number])
        return self._worth[number]

    def slowed(self, number: int) -> float:
        """See `slowed`."""
        if number not in self._slowed:
            self._slowed[number] = slowed(self._known[number])
        return self._slowed[number]


class Pairing:
    """Heaviest matchings by `efficiency`, one after the other, as the numbers of groups of each kind change.

    The answer follows from the numbers alone, not from what was asked before: a weight is up to a
    hundred-thousandth larger, by what the kinds are like, so that only one matching is the heaviest.
    """

    _KEPT: Final = 48
    """Up to so many kinds stay in the program although no group is of them at present."""
    _SCALE: Final = 100.0
    """Of weights: the solver does not tell apart what differs by less than 1e-7."""
    _SURPLUS: Final = 1e-5

    def __init__(self, kinds: StageKinds) -> None:
        self._kinds = kinds
        self._rows: dict[int, int] = {}
        """Kind → its row."""
        self._counts: list[int] = []
        """Of each row, as the program has them."""
        self._same: dict[int, int] = {}
        """Row → the variable for pairs of this kind with itself."""
        self._columns: list[tuple[float, int, int]] = []
        """Of each variable: (-weight, kind, kind)."""
        self._program = Program()
        self._last: tuple[Mapping[int, int], list[tuple[int, int, int]]] = ({}, [])

    def pairs(self, counts: Mapping[int, int]) -> list[tuple[int, int, int]]:
        """(kind, kind, how many pairs of them), the best first, for so many groups of each kind."""
        if counts != self._last[0]:
            self._last = dict(counts), self._solve(counts)
        return self._last[1]

    def _solve(self, counts: Mapping[int, int]) -> list[tuple[int, int, int]]:
        if not counts.keys() <= self._rows.keys():
            self._build(counts)
        if not self._columns:
            return []
        try:
            values = self._values(counts)
        except ProgramError:  # a walk from the last corner loses its way now and then; one from nothing does not
            self._build(counts, climbs=False)
            values = self._values(counts)
        made = {place: int(value + 1e-6) for place, value in enumerate(values) if value > 1e-6}
        left = dict(counts)
        for place, number in made.items():
            _, first, second = self._columns[place]
            left[first] -= number
            left[second] -= number
        over = {stages for stages, number in left.items() if number}
        if len(over) > 1 or any(left[stages] > 1 for stages in over):
            self._pair_rest(made, left, over)
        chosen = sorted((*self._columns[place], number) for place, number in made.items() if number)
        return [(first, second, number) for _, first, second, number in chosen]

    def _values(self, counts: Mapping[int, int]) -> Sequence[float]:
        """Pairs of each column, whole or half."""
        for stages, row in self._rows.items():
            number = counts.get(stages, 0)
            if number != self._counts[row]:
                self._counts[row] = number
                self._program.bound_row(row, at_most=float(number))
                if row in self._same:
                    self._program.bound_variable(self._same[row], at_most=float(number // 2))
        solution = self._program.solve()
        if solution is None:
            raise ProgramError("no matching, although none at all is one")
        return solution.values

    def _pair_rest(self, made: dict[int, int], left: dict[int, int], over: set[int]) -> None:
        """Greedily, what halves left over."""
        rest = [
            (*column, place) for place, column in enumerate(self._columns) if column[1] in over and column[2] in over
        ]
        for _, first, second, place in sorted(rest):
            number = left[first] // 2 if first == second else min(left[first], left[second])
            made[place] = made.get(place, 0) + number
            left[first] -= number
            left[second] -= number

    def _build(self, counts: Mapping[int, int], *, climbs: bool = True) -> None:
        """A program for these kinds, and for those of the last one if there are not too many."""
        numbers = self._rows.keys() | counts.keys()
        if len(numbers) > self._KEPT:
            numbers = set(counts)
        ordered = sorted(numbers, key=self._kinds.kind)
        kinds = [self._kinds.kind(number) for number in ordered]
        salts = [_salt(stages) for stages in kinds]
        self._rows = {number: row for row, number in enumerate(ordered)}
        self._counts = [0] * len(ordered)
        self._same, self._columns = {}, []
        terms: list[list[tuple[int, float]]] = [[] for _ in ordered]
        for first, weights in enumerate(_WEIGHTS.rows(kinds)):
            for second, weight in enumerate(weights, first):
                if not weight:
                    continue
                variable = len(self._columns)
                if first == second:
                    self._same[first] = variable
                    terms[first].append((variable, 2.0))
                else:
                    terms[first].append((variable, 1.0))
                    terms[second].append((variable, 1.0))
                surplus = 1.0 + self._SURPLUS * (1e6 * salts[first] * salts[second] % 1.0)
                self._columns.append((-self._SCALE * weight * surplus, ordered[first], ordered[second]))
        self._program = Program(climbs=climbs)
        self._program.variables([inf] * len(self._columns), [-weight for weight, _, _ in self._columns])
        for variable in self._same.values():
            self._program.bound_variable(variable, at_most=0.0)
        for row in terms:
            self._program.row(row, at_most=0.0)


def _salt(stages: Kind) -> float:
    """A number from 0 to 1 for a kind."""
    times = [time for job in stages for time in job]
    return zlib.crc32(struct.pack(f"<{len(times)}d", *times)) / (1 << 32)


def pairs(counts: Sequence[tuple[Kind, int]]) -> tuple[tuple[Kind, Kind, int], ...]:
    """How many pairs of which kinds to make of so many groups of each kind: the heaviest matching by `efficiency`."""
    kinds = StageKinds()
    made = Pairing(kinds).pairs({kinds.number(stages): number for stages, number in counts})
    return tuple((kinds.kind(first), kinds.kind(second), number) for first, second, number in made)


class JobsOfSize(NamedTuple):
    """Jobs that may share devices with each other: those of one size."""

    label: Hashable
    """The same from one decision to the next."""
    size: int
    """Devices of each job."""
    jobs: Sequence[tuple[int, int]]
    """(job, its kind by number), the most urgent first."""


Unit = tuple[int, ...]
"""Jobs that are together, rising."""


class Grouping:
    """Groups of jobs, one decision after the other: who was together stays together where that is as good."""

    def __init__(self) -> None:
        self.kinds = StageKinds()
        self._pairings: dict[tuple[Hashable, int], Pairing] = {}
        self._mates: list[dict[Unit, Unit]] = [{} for _ in range(SLOTS)]
        """With whom each was merged in each round of the last decision."""

    def groups(self, lines: Sequence[JobsOfSize], devices: int) -> list[list[tuple[Unit, int]]]:
        """Groups of each line with their kinds.

        Groups are merged two by two, in up to as many rounds as a group may have jobs, and only as long as all of them
        do not fit on so many devices.
        """
        groups: list[list[tuple[Unit, int]]] = [[((job,), stages) for job, stages in line.jobs] for line in lines]
        asked = sum(len(line.jobs) * line.size for line in lines)
        mates, self._mates = self._mates, [{} for _ in range(SLOTS)]
        for number in range(SLOTS):
            for place, line in enumerate(lines):
                if asked <= devices:
                    return groups
                most = -((devices - asked) // line.size)
                groups[place], merged = self._round(groups[place], most, (line.label, number), mates[number])
                asked -= merged * line.size
        return groups

    def _round(
        self, units: list[tuple[Unit, int]], most: int, key: tuple[Hashable, int], mates: Mapping[Unit, Unit]
    ) -> tuple[list[tuple[Unit, int]], int]:
        """Merge up to so many pairs, by the less urgent one of each, which also gives the pair its place: long jobs
        share last.
        """
        if key not in self._pairings:
            self._pairings[key] = Pairing(self.kinds)
        wanted = self._pairings[key].pairs(Counter([stages for _, stages in units]))
        left = {(first, second): number for first, second, number in wanted}
        kept = _kept(units, left, mates) if mates else []
        chosen = sorted(kept + _fresh(units, left, kept), key=lambda two: two[1])[:most]
        merged = {second: first for first, second in chosen}
        merged_away = set(merged.values())
        now = self._mates[key[1]]
        made: list[tuple[Unit, int]] = []
        for place, unit in enumerate(units):
            if place in merged:
                other = units[merged[place]]
                now[unit[0]], now[other[0]] = other[0], unit[0]
                made.append((tuple(sorted(unit[0] + other[0])), self.kinds.together(unit[1], other[1])))
            elif place not in merged_away:
                made.append(unit)
        return made, len(merged)


def _kept(
    units: Sequence[tuple[Unit, int]], left: dict[tuple[int, int], int], mates: Mapping[Unit, Unit]
) -> list[tuple[int, int]]:
    """Places of those that were together and may stay so; pairs of these kinds are then no longer `left`."""
    places = {unit: place for place, (unit, _) in enumerate(units) if unit in mates}
    together = []
    for unit, place in places.items():
        other = places.get(mates[unit])
        if other is None or other < place:
            continue
        first, second = units[place][1], units[other][1]
        pair = (first, second) if (first, second) in left else (second, first)
        if left.get(pair):
            left[pair] -= 1
            together.append((place, other))
    return together


def _fresh(
    units: Sequence[tuple[Unit, int]], left: Mapping[tuple[int, int], int], kept: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Places of new pairs."""
    taken = set(chain.from_iterable(kept))
    lines: dict[int, list[int]] = {}
    for place in range(len(units) - 1, -1, -1):
        if place not in taken:
            lines.setdefault(units[place][1], []).append(place)
    pairs = []
    for (first, second), number in left.items():
        for _ in range(number):
            place_a, its_mate = lines[first].pop(), lines[second].pop()
            pairs.append((place_a, its_mate) if place_a < its_mate else (its_mate, place_a))
    return pairs


def grouped(kinds: Sequence[Sequence[Kind]], sizes: Sequence[int], devices: int) -> list[list[list[int]]]:
    """Groups of jobs, for each size of jobs, each as rising places in its row of `kinds`."""
    grouping = Grouping()
    number = grouping.kinds.number
    lines, base = [], 0
    for label, (row, size) in enumerate(zip(kinds, sizes, strict=True)):
        lines.append(JobsOfSize(label, size, [(base + place, number(kind)) for place, kind in enumerate(row)]))
        base += len(row)
    starts = [line.jobs[0][0] if line.jobs else 0 for line in lines]
    return [
        [[job - start for job in unit] for unit, _ in row]
        for start, row in zip(starts, grouping.groups(lines, devices), strict=True)
    ]
