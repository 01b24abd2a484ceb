"""SC'17 (Amaral et al.): the utility of a mapping of a job onto the sockets of a machine, to the job and the system.

Costs are between `FLOOR` and 1: communication (distances between the job's devices), interference (time alone by time
beside the others), fragmentation (the part of the machine that stays free). Their weights are equal. All functions are
pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

from paictl.frozen import frozen
from paictl.sim.view import JobView

FLOOR: Final = 0.01
"""Lower bound of every cost, so that utilities stay finite."""
NEAR: Final = 1
APART: Final = 20
"""Distance of two devices of one socket, and of two sockets (the artifact's `infra-*.json`)."""
_DIGITS: Final = 9
"""Utilities are compared after rounding: powers differ in the last digit between machines."""


@frozen
class JobKind:
    """The properties of a job that decide its placement; jobs of one kind are interchangeable."""

    model: str
    gpus: int
    gpu_type: str | None
    beside: tuple[tuple[str, float], ...]
    sensitivity: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, job: JobView) -> JobKind:
        """Needs to know MODEL, COLOCATION and LOCALITY."""
        return cls(job.model, job.gpus, job.gpu_type, tuple(job.beside.items()), tuple(job.sensitivity.items()))


class Resident(NamedTuple):
    """A running job as its machine sees it."""

    kind: int
    sockets: tuple[int, ...]
    """The sockets on which it has devices, numbered within the machine from 0."""


class Shape(NamedTuple):
    """The state of a machine that decides placement; machines of one shape are interchangeable."""

    type: str
    sizes: tuple[int, ...]
    """Devices of each socket."""
    free: tuple[int, ...]
    """Free devices of each socket."""
    residents: tuple[Resident, ...]
    """In the order of kinds and sockets."""


class Mapped(NamedTuple):
    """One way to put a job on a machine."""

    counts: tuple[int, ...]
    """Devices of each socket."""
    system: float
    """Utility to the system: fragmentation and the interference with others count as well."""
    job: float
    """Utility to the job, 1 on a machine of its own."""


def beside_rate(beside: Mapping[str, float], model: str, gpus: int) -> float:
    """Rate of a job beside one of that model on `gpus` devices; 1 if it was not measured."""
    return beside.get(f"{model}*{gpus}", beside.get(model, 1.0))


def splits(free: Sequence[int], number: int) -> Iterator[tuple[int, ...]]:
    """Every way to take devices from sockets, as counts by socket: job and machine are bisected down to one socket.

    Splits with more of the job on the earlier half come first. Devices of one socket are interchangeable.
    """
    if len(free) == 1:
        yield (number,)
        return
    half = (len(free) + 1) // 2
    near, far = free[:half], free[half:]
    for first in range(min(number, sum(near)), max(0, number - sum(far)) - 1, -1):
        for counts in splits(near, first):
            for far_counts in splits(far, number - first):
                yield counts + far_counts


def communication(counts: Sequence[int], sizes: Sequence[int]) -> float:
    """Sum of distances of all pairs, less that on an idle machine, by the worst (20 a device: the artifact's table)."""
    number = sum(counts)
    most: list[int] = []
    for size in sorted(sizes, reverse=True):
        most.append(min(size, number - sum(most)))
    return max(FLOOR, min(1.0, (_distances(counts) - _distances(most)) / (APART * number)))


def _distances(counts: Sequence[int]) -> int:
    within = sum(count * (count - 1) // 2 for count in counts)
    number = sum(counts)
    return NEAR * within + APART * (number * (number - 1) // 2 - within)


def judge(kind: int, counts: tuple[int, ...], shape: Shape, kinds: Sequence[JobKind]) -> Mapped:
    """The utilities of a mapping (`counts` of devices by socket) on a machine of that shape."""
    used = tuple(socket for socket, count in enumerate(counts) if count)
    suffered, caused = [], []
    own = Resident(kind, used)
    for other in shape.residents:
        if set(used) & set(other.sockets):
            suffered.append(_felt(own, other, kinds))
            caused.append(_felt(other, own, kinds))
    share, hurt, harm = communication(counts, shape.sizes), _mean(suffered), _mean(caused)
    rest = zip(shape.free, counts, shape.sizes, strict=True)
    scraps = max(FLOOR, fsum((free - count) / size for free, count, size in rest) / len(counts))
    job = 2 * math.sqrt(FLOOR) / (math.sqrt(share) + math.sqrt(hurt))
    system = 3 * _root(FLOOR) / (_root(share) + _root((hurt + harm) / 2) + _root(scraps))
    return Mapped(counts, round(system, _DIGITS), round(job, _DIGITS))


def _felt(job: Resident, other: Resident, kinds: Sequence[JobKind]) -> float:
    """A job's time alone by its time beside `other`, on its sockets; 1 if there is no interference."""
    own, near = kinds[job.kind], kinds[other.kind]
    level = "socket" if len(job.sockets) == 1 else "node"
    alone = dict(own.sensitivity).get(level, 1.0) if own.gpus > 1 else 1.0
    return min(1.0, beside_rate(dict(own.beside), near.model, near.gpus) / alone) if alone else 1.0


def _mean(costs: Sequence[float]) -> float:
    slowed = [cost for cost in costs if cost < 1.0]
    return max(FLOOR, fsum(slowed) / len(slowed)) if slowed else FLOOR


def _root(cost: float) -> float:
    return float(cost ** (1 / 3))


def mappings(kind: int, number: int, shape: Shape, kinds: Sequence[JobKind]) -> tuple[Mapped, ...]:
    """The Pareto-optimal mappings, best for the system first; each later one is better for the job."""
    candidates = [judge(kind, counts, shape, kinds) for counts in splits(shape.free, number)]
    chosen: list[Mapped] = []
    for mapped in sorted(candidates, key=lambda mapped: -mapped.system):
        if not chosen or mapped.job > chosen[-1].job:
            chosen.append(mapped)
    return tuple(chosen)
