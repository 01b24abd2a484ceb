"""FGD: place each job where fragmentation, measured by typical requests, grows least."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np

from paictl.sim.job import WHOLE, ResourceRequest
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Setup
from paictl.sim.policies.packing import Numbers, Packing
from paictl.sim.view import JobView

COVERED: Final = 0.95
"""Share of all requests that the typical ones cover."""
_DIGITS: Final = Context(prec=20)
_STEPS: Final = [float(_DIGITS.ln(Decimal(score) / Decimal(100 - score))) for score in range(1, 100)]
"""The x from which the integer part of 100 / (1 + exp(-x)) is 1, 2, …, computed identically on every machine."""


def typical(requests: Iterable[ResourceRequest]) -> list[tuple[ResourceRequest, int]]:
    """The most frequent requests that together cover `COVERED` of all: (request, number of occurrences)."""
    counts = Counter(requests)
    total, covered = sum(counts.values()), 0
    chosen: list[tuple[ResourceRequest, int]] = []
    order = sorted(
        counts.items(), key=lambda row: (-row[1], -row[0].cpu_milli, -row[0].gpu_milli, -row[0].gpus, row[0].types)
    )
    for request, count in order:
        chosen.append((request, count))
        covered += count
        if covered >= COVERED * total:
            break
    return chosen


class Fragmentation:
    """How many thousandths of a node's free devices the typical requests cannot use, summed over these requests.

    The amount depends on the device type, on which of the typical requests' CPUs are free (`step`), and on the free
    thousandths of each device; amounts are cached. Sums of integers keep a difference of 0 exact, else its score would
    fall by one; divided by `weight`, they are averages.
    """

    def __init__(self, requests: Iterable[ResourceRequest]) -> None:
        self._typical = typical(requests)
        self._cpus = sorted({request.cpu_milli for request, _ in self._typical})
        self.weight = sum(count for _, count in self._typical)
        """Number of requests that the typical ones stand for."""
        self._tables: dict[tuple[str, int], tuple[int, list[tuple[int, int, int]]]] = {}
        self._amounts: dict[tuple[str, int, tuple[int, ...]], int] = {}

    def step(self, cpu: int) -> int:
        """How many of the typical CPU requests (milli) a node with `cpu` free can serve."""
        return bisect_right(self._cpus, cpu)

    def of(self, kind: str, step: int, free: tuple[int, ...]) -> int:
        """The amount for a node: its device type, CPU step, and free thousandths of each device in any order."""
        key = kind, step, tuple(sorted(free))
        amount = self._amounts.get(key)
        if amount is None:
            self._amounts[key] = amount = self._unusable(*key)
        return amount

    def _unusable(self, kind: str, step: int, free: tuple[int, ...]) -> int:
        none, some = self._table(kind, step)
        total = sum(free)
        parts = [none * total]
        for milli, gpus, part in some:
            small = sum(milli_free for milli_free in free if milli_free < milli)
            hosts = sum(milli_free >= milli for milli_free in free) >= gpus
            parts.append(part * (small if hosts else total))
        return sum(parts)

    def _table(self, kind: str, step: int) -> tuple[int, list[tuple[int, int, int]]]:
        """Number of requests that cannot run on such a node, and (thousandths, devices, number) of the others."""
        key = kind, step
        if key not in self._tables:
            none, some = 0, dict[tuple[int, int], int]()
            for request, part in self._typical:
                fits = self.step(request.cpu_milli) <= step
                if request.gpus and fits and (not request.types or kind in request.types):
                    pair = request.gpu_milli, request.gpus
                    some[pair] = some.get(pair, 0) + part
                else:
                    none += part
            self._tables[key] = none, [(milli, gpus, part) for (milli, gpus), part in some.items()]
        return self._tables[key]


class Fgd(Packing):
    """Each job goes to the node whose fragmentation grows least; a share of a device goes to the device for which
    this holds.

    Fragments are free thousandths of devices that typical requests cannot use, weighted by their frequency in the
    trace. Example: `fgd` with `--inflate 1.3`.
    """

    id = "fgd"
    title = "shares: the place where fragmentation grows least"
    paper = "FGD: Beware of Fragmentation (ATC'23); simulator hkust-adsl/kubernetes-scheduler-simulator"
    knows = frozenset({Knowledge.REQUESTS})

    def __init__(self, parameters: Any, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._fragments = Fragmentation(setup.requests)
        self._scores: dict[tuple[int, int, int], tuple[Numbers, Numbers]] = {}
        """By (CPU, thousandths, devices): scores of all nodes, and the node versions for which they were computed."""
        self._options: dict[tuple[str, int, int, tuple[int, ...], int], dict[int, int]] = {}

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:
        """How much fragmentation falls, as an integer from 0 to 100; recomputed only for nodes that have changed."""
        key = job.cpu_milli, job.gpu_milli if job.gpus else 0, job.gpus
        if key not in self._scores:
            self._scores[key] = np.zeros_like(self.nodes.cpu), np.full_like(self.nodes.cpu, -1)
        scores, versions = self._scores[key]
        for node in nodes[versions[nodes] != self.nodes.version[nodes]].tolist():
            scores[node] = max(self._by_device(job, node).values())
            versions[node] = self.nodes.version[node]
        return scores[nodes]

    def place(self, job: JobView, node: int) -> int:
        """The index of the device with the best score, the first of several."""
        by_device = self._by_device(job, node)
        best = max(by_device.values())
        return next(
            place for place, free in enumerate(self.nodes.left[node].tolist()) if by_device.get(free, -1) == best
        )

    def _by_device(self, job: JobView, node: int) -> dict[int, int]:
        """The score by the free thousandths of the device that a share gets; under key 0 for jobs of whole devices."""
        book, fragments = self.nodes, self._fragments
        kind, cpu = self.cluster.nodes[node].type, int(book.cpu[node])
        free = tuple(sorted(milli for milli in book.left[node].tolist() if milli >= 0))
        before, after = fragments.step(cpu), fragments.step(cpu - job.cpu_milli)
        shared = job.gpu_milli if job.gpus and job.gpu_milli < WHOLE else -job.gpus
        key = kind, before, after, free, shared
        scores = self._options.get(key)
        if scores is None:
            now = fragments.of(kind, before, free)
            self._options[key] = scores = {
                device: bisect_right(_STEPS, (now - fragments.of(kind, after, rest)) / (WHOLE * fragments.weight))
                for device, rest in _hypothetical(free, shared)
            }
        return scores


def _hypothetical(free: tuple[int, ...], request: int) -> list[tuple[int, tuple[int, ...]]]:
    """(free thousandths of the device used, free thousandths of all devices afterwards) of each choice of a device.

    `request`: the thousandths of a share, or minus a number of whole devices.
    """
    if request <= 0:
        rest = list(free)
        for _ in range(-request):
            rest[rest.index(WHOLE)] = 0
        return [(0, tuple(rest))]
    outcomes = []
    for value in dict.fromkeys(milli for milli in free if milli >= request):
        rest = list(free)
        rest[rest.index(value)] = value - request
        outcomes.append((value, tuple(rest)))
    return outcomes
