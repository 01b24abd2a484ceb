"""SC'17 (Amaral et al.): what a mapping of a job onto the sockets of a machine is worth to the job and to the system.

Costs are between `FLOOR` and 1: communication (distances between the job's devices), interference (time alone by time
beside the others), fragmentation (what stays free on the machine). Their weights are equal. Nothing here has a state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from typing import Final, NamedTuple

from paictl.frozen import frozen
from paictl.sim.view import JobView

FLOOR: Final = 0.01
"""The least that anything costs; what costs nothing has it."""
NEAR: Final = 1
APART: Final = 20
"""Distance of two devices of one socket, and of two sockets (the artifact's `infra-*.json`)."""
_DIGITS: Final = 9
"""Utilities are compared after rounding: powers differ in the last digit between machines."""


@frozen
class JobKind:
    """What is asked of a job to place it; jobs of one kind are alike."""

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
    """Those of the machine on which it has devices, counted from 0."""


class Shape(NamedTuple):
    """All that counts of a machine: machines of one shape are alike."""

    type: str
    sizes: tuple[int, ...]
    """Devices of each socket."""
    free: tuple[int, ...]
    """Those of them that nobody has."""
    residents: tuple[Resident, ...]
    """In the order of kinds and sockets."""


class Mapped(NamedTuple):
    """One way to put a job on a machine."""

    counts: tuple[int, ...]
    """Devices of each socket."""
    system: float
    """Utility that the system sees: fragmentation and the harm to others count as well."""
    job: float
    """Utility that the job sees, 1 on a machine of its own."""


def beside_rate(beside: Mapping[str, float], model: str, gpus: int) -> float:
    """Rate of a job near one of that model on so many devices; 1 if nobody measured it."""
    return beside.get(f"{model}*{gpus}", beside.get(model, 1.0))


def splits(free: Sequence[int], number: int) -> Iterator[tuple[int, ...]]:
    """Every way to take devices from sockets: both the job and the machine are cut in two until a socket is left.

    What has most of the job on the earlier half comes first. Devices of one socket are alike.
    """
    if len(free) == 1:
        yield (number,)
        return
    half = (len(free) + 1) // 2
    left, right = free[:half], free[half:]
    for first in range(min(number, sum(left)), max(0, number - sum(right)) - 1, -1):
        for one in splits(left, first):
            for other in splits(right, number - first):
                yield one + other


def communication(counts: Sequence[int], sizes: Sequence[int]) -> float:
    """Distances of all pairs, above those on an idle machine, by the worst (20 a device: the artifact's table)."""
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
    """What that mapping is worth."""
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
    """Time alone where it is, by time near the other; 1 where it feels nothing."""
    own, near = kinds[job.kind], kinds[other.kind]
    level = "socket" if len(job.sockets) == 1 else "node"
    alone = dict(own.sensitivity).get(level, 1.0) if own.gpus > 1 else 1.0
    return min(1.0, beside_rate(dict(own.beside), near.model, near.gpus) / alone) if alone else 1.0


def _mean(felt: Sequence[float]) -> float:
    slowed = [one for one in felt if one < 1.0]
    return max(FLOOR, fsum(slowed) / len(slowed)) if slowed else FLOOR


def _root(cost: float) -> float:
    return float(cost ** (1 / 3))


def mappings(kind: int, number: int, shape: Shape, kinds: Sequence[JobKind]) -> tuple[Mapped, ...]:
    """Those worth choosing from, best for the system first; each one that follows is better for the job."""
    every = [judge(kind, counts, shape, kinds) for counts in splits(shape.free, number)]
    kept: list[Mapped] = []
    for one in sorted(every, key=lambda found: -found.system):
        if not kept or one.job > kept[-1].job:
            kept.append(one)
    return tuple(kept)
