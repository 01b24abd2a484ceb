"""How a model trains, from published measurements: times of steps, and what a larger batch is worth (Pollux).

A profile gives the true values; schedulers only see what a job measured while it ran. Times are seconds, batch
sizes samples. `progress` counts steps of the initial batch size: a step with a larger batch is worth its `gain`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import cached_property
from math import ceil, fsum
from typing import Any, Final, NamedTuple

from paictl.frozen import frozen_caching

Placement = tuple[int, ...]
"""Replicas on each node."""
_WIDEST: Final = 16
"""Nodes; a job on more nodes is as slow as on this many (as in their simulators)."""
_NEARLY: Final = 1e-9
"""Relative tolerance: an epoch counts as over if this part of all progress is missing, which is less than a step."""


class BatchSize(NamedTuple):
    """The work of each replica in a step."""

    local: int
    """Samples at once."""
    passes: int = 1
    """How often, before gradients are synchronised (gradient accumulation)."""

    def total(self, replicas: int) -> int:
        """Samples of a step."""
        return self.local * self.passes * replicas


@frozen_caching
class StepTimes:
    """Step times of one model on one type of device."""

    placements: Mapping[Placement, tuple[tuple[int, float, float], ...]]
    """Smallest rotation -> (batch size of a replica, time of a step, of its synchronisation), by rising batch size."""
    scalability: tuple[tuple[int, int, int, float, float], ...]
    """(nodes, replicas, batch size of a replica, time of a step, of its synchronisation)."""

    @cached_property
    def local(self) -> tuple[int, int]:
        """Smallest and largest batch size of a replica."""
        sizes = [size for rows in self.placements.values() for size, _, _ in rows]
        return min(sizes), max(sizes)

    @cached_property
    def alone(self) -> float:
        """Samples a second of one replica, the largest batch by the longest step."""
        rows = [row for placement, rows in self.placements.items() if sum(placement) == 1 for row in rows]
        return max(size for size, _, _ in rows) / max(step for _, step, _ in rows) if rows else 0.0

    @cached_property
    def _points(self) -> dict[tuple[int, int, int], tuple[float, float]]:
        """(nodes, replicas, batch size of a replica) -> means of what was measured."""
        points: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
        for placement, rows in self.placements.items():
            for batch, step, sync in rows:
                points.setdefault((len(placement), sum(placement), batch), []).append((step, sync))
        for nodes, replicas, batch, step, sync in self.scalability:
            points.setdefault((nodes, replicas, batch), []).append((step, sync))
        return {
            key: (
                fsum(step for step, _ in measured) / len(measured),
                fsum(sync for _, sync in measured) / len(measured),
            )
            for key, measured in sorted(points.items())
        }

    @cached_property
    def _spread(self) -> Any:
        from scipy.interpolate import LinearNDInterpolator

        return LinearNDInterpolator(list(self._points), list(self._points.values()))

    def most_on(self, placement: Placement) -> int:
        """The largest batch size of a replica measured there, or else on at least as many nodes and replicas.

        If nothing of the kind was measured, the largest of all.
        """
        if (rows := self.placements.get(rotated(placement))) is not None:
            return rows[-1][0]
        nodes, replicas = min(len(placement), _WIDEST), sum(placement)
        sizes = [row[2] for row in self.scalability if row[0] >= nodes and row[1] >= replicas]
        return max(sizes, default=self.local[1])

    def most_of(self, replicas: int) -> int | None:
        """The largest batch size of a replica in measured placements of `replicas`; None if there are none."""
        sizes = [rows[-1][0] for placement, rows in self.placements.items() if sum(placement) == replicas]
        return max(sizes, default=None)

    def step(self, placement: Placement, batch: float) -> tuple[float, float] | None:
        """(Time of a step, part of it for synchronisation) with these replicas on each node, and a batch each.

        Linear between measured batch sizes of the same placement; of one that was not measured, linear between
        (nodes, replicas, batch size). None outside of what was measured.
        """
        used = tuple(replicas for replicas in placement if replicas)
        rows = self.placements.get(rotated(used))
        if rows is None:
            step, sync = (float(value) for value in self._spread([min(len(used), _WIDEST), sum(used), batch])[0])
            return None if step != step else (step, sync)
        if not rows[0][0] <= batch <= rows[-1][0]:
            return None
        after = bisect_left(rows, batch, key=lambda row: row[0])
        (low, *first), (high, *second) = rows[max(0, after - 1)], rows[after]
        part = (batch - low) / (high - low) if high > low else 0.0
        step, sync = (a + (b - a) * part for a, b in zip(first, second, strict=True))
        return step, sync

    def nearest(self, placement: Placement, batch: int) -> tuple[float, float]:
        """As `step`; outside of what was measured, the nearest point by nodes, then replicas, then batch size."""
        rows = self.placements.get(rotated(placement))
        if rows is not None and len(rows) > 1:
            times = self.step(placement, min(max(batch, rows[0][0]), rows[-1][0]))
        else:
            times = self.step(placement, batch) if rows is None else rows[0][1:]
        if times is not None:
            return times
        nodes, replicas = min(len(placement), _WIDEST), sum(placement)
        key = min(self._points, key=lambda at: (abs(at[0] - nodes), abs(at[1] - replicas), abs(at[2] - batch), at))
        return self._points[key]


def rotated(placement: Placement) -> Placement:
    """The smallest rotation, by which measurements are kept."""
    used = tuple(replicas for replicas in placement if replicas)
    return min((used[i:] + used[:i] for i in range(len(used))), default=())


class Gradients(NamedTuple):
    """Squared norm and variance of gradients in an epoch, which determine how much a larger batch is worth."""

    sqr: float
    var: float

    def gain(self, scale: float) -> float:
        """How many steps with the initial batch a step with `scale` times that batch is worth."""
        below = self.var / scale + self.sqr
        return (self.var + self.sqr) / below if below > 0 else 1.0


@frozen_caching
class TrainingProfile:
    """The true behaviour of one model."""

    name: str
    epochs: int
    types: Mapping[str, StepTimes]
    """By device type; under "" for all types that are not listed."""
    validation: Mapping[int, tuple[tuple[float, float, float], ...]]
    """Batch size -> of each epoch the progress at its end, and the gradients' squared norm and variance."""
    largest: Mapping[str, int]
    """Largest batch size of a replica that fits into memory, by type, if it is not the largest measured one."""
    slowdown: float = 1.0
    """Factor by which a real cluster is slower than the measurements."""
    restart: float = 30.0
    """Seconds without progress after each start."""
    believed: float = 30.0
    """The same as schedulers assume it."""
    bound: int = 0
    """Largest batch size for which a scheduler plans; 0: what the user asked for."""
    fixed: int = 0
    """The only batch size, on one device; 0: any that was validated."""

    @cached_property
    def batches(self) -> tuple[int, int]:
        """Initial and largest batch size."""
        return min(self.validation), max(self.validation)

    @cached_property
    def ends(self) -> tuple[float, ...]:
        """Progress at which each epoch ends."""
        return tuple(min(rows[epoch][0] for rows in self.validation.values()) for epoch in range(self.epochs))

    @cached_property
    def _step_cache(self) -> dict[tuple[str, Placement, int], tuple[float, float]]:
        return {}

    @cached_property
    def _sizes(self) -> list[int]:
        return sorted(self.validation)

    def times(self, kind: str) -> StepTimes | None:
        """Of a device type; None if it cannot run there."""
        return self.types.get(kind, self.types.get(""))

    def local(self, kind: str) -> tuple[int, int]:
        """Smallest and largest batch size of a replica on a type that it can run on."""
        least, most = self._times(kind).local
        return least, min(most, self.largest.get(kind, self.largest.get("", most)))

    def replicas(self, kind: str) -> int:
        """The most replicas on a type that it can run on."""
        return 1 if self.fixed else max(1, self.batches[1] // self.local(kind)[0])

    def most(self) -> int:
        """The most replicas on any type."""
        return max(self.replicas(kind) for kind in self.types)

    def step(self, kind: str, placement: Placement, local: int) -> tuple[float, float]:
        """(Time of a step, part of it for synchronisation); cached, because schedulers ask again and again."""
        key = kind, placement, local
        if key not in self._step_cache:
            self._step_cache[key] = self._times(kind).nearest(placement, local)
        return self._step_cache[key]

    def gradients(self, batch: float, epoch: int) -> Gradients:
        """Of an epoch (from 0) with a batch size; linear between validated batch sizes."""
        sizes, row = self._sizes, min(epoch, self.epochs - 1)
        batch = min(max(batch, sizes[0]), sizes[-1])
        after = bisect_left(sizes, batch)
        _, *high = self.validation[sizes[after]][row]
        if sizes[after] == batch:
            return Gradients(*high)
        _, *low = self.validation[sizes[after - 1]][row]
        part = (batch - sizes[after - 1]) / (sizes[after] - sizes[after - 1])
        return Gradients(*(a + (b - a) * part for a, b in zip(low, high, strict=True)))

    def steps(self, batch: int) -> float | None:
        """Steps with a batch size until the model is trained: what each epoch adds, by what a step is worth in it.

        The files also count steps by epoch (`iteration`). Pollux' simulator does not read them: a job is done there
        when its progress is. None outside of the batch sizes that were validated.
        """
        least, most = self.batches
        if not least <= batch <= most:
            return None
        begins = (0.0, *self.ends)
        return fsum(
            (end - begin) / self.gradients(batch, epoch).gain(batch / least)
            for epoch, (begin, end) in enumerate(zip(begins, self.ends, strict=False))
        )

    def speed(self, kind: str, placement: Placement, size: BatchSize, epoch: int) -> float:
        """Progress a second."""
        step, sync = self.step(kind, placement, size.local)
        batch = size.total(sum(placement))
        gain = self.gradients(batch, epoch).gain(batch / self.batches[0])
        return gain / (step + (size.passes - 1) * (step - sync)) / self.slowdown

    def epoch(self, part: float) -> int:
        """The epoch (from 0) when this part (0 to 1) of all its progress is done."""
        return min(bisect_right(self.ends, (part + _NEARLY) * self.ends[-1]), self.epochs - 1)

    def asked(self, batch: int, replicas: int, kind: str, placement: Placement) -> BatchSize:
        """A batch size that a user asks for, split into passes that fit into memory."""
        most = min(self._times(kind).most_on(placement), self.local(kind)[1])
        local = ceil(batch / replicas - 1e-8)
        passes = max(1, ceil(local / most - 1e-8))
        if replicas == 1 and batch > self.batches[0]:
            passes = max(2, passes)
        return self.bounded(BatchSize(ceil(local / passes - 1e-8), passes), replicas)

    def bounded(self, size: BatchSize, replicas: int) -> BatchSize:
        """At most the largest batch size that was validated."""
        return BatchSize(max(1, min(size.local, self.batches[1] // (replicas * size.passes))), size.passes)

    def _times(self, kind: str) -> StepTimes:
        times = self.times(kind)
        if times is None:
            raise ValueError(f"{self.name} was not measured on {kind}")
        return times
