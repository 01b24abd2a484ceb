"""FGD: place each job where fragmentation, as the usual requests feel it, grows least."""

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
"""The part of all requests that the typical ones make up."""
_DIGITS: Final = Context(prec=20)
_STEPS: Final = [
    float(_DIGITS.ln(Decimal(score) / Decimal(100 - score))) for score in range(1, 100)
]  # fmt: skip
"""From which x on the integer part of 100 / (1 + exp(-x)) is 1, 2, …: the same on every machine."""


def typical(requests: Iterable[ResourceRequest]) -> list[tuple[ResourceRequest, int]]:
    """The most frequent requests that cover most of all, with how often each occurs."""
    counts = Counter(requests)
    total, covered = sum(counts.values()), 0
    kept: list[tuple[ResourceRequest, int]] = []
    order = sorted(counts.items(), key=lambda row: (-row[1], -row[0].cpu_milli, -row[0].gpu_milli, -row[0].gpus,
                                                    row[0].types))  # fmt: skip
    for request, count in order:
        kept.append((request, count))
        covered += count
        if covered >= COVERED * total:
            break
    return kept


class Fragmentation:
    """How many thousandths of a node's free devices the typical requests cannot use, on average.

    A node counts by its device type, by which of the typical requests' CPUs it has left, and by what is left of each
    device; values are remembered. They are sums over requests, whole numbers: a difference that is 0 must be so to the
    last digit, or its score falls by one. By `weight`, they are the average.
    """

    def __init__(self, requests: Iterable[ResourceRequest]) -> None:
        self._typical = typical(requests)
        self._cpus = sorted({request.cpu_milli for request, _ in self._typical})
        self.weight = sum(count for _, count in self._typical)
        """How many requests the typical ones are."""
        self._tables: dict[tuple[str, int], tuple[int, list[tuple[int, int, int]]]] = {}
        self._known: dict[tuple[str, int, tuple[int, ...]], int] = {}

    def step(self, cpu: int) -> int:
        """How many of the CPU requests a node with so much left can serve."""
        return bisect_right(self._cpus, cpu)

    def of(self, kind: str, step: int, left: tuple[int, ...]) -> int:
        """Of a node with that type, step of CPU and thousandths left, in any order."""
        key = kind, step, tuple(sorted(left))
        found = self._known.get(key)
        if found is None:
            self._known[key] = found = self._compute(*key)
        return found

    def _compute(self, kind: str, step: int, left: tuple[int, ...]) -> int:
        none, some = self._table(kind, step)
        total = sum(left)
        parts = [none * total]
        for milli, gpus, part in some:
            small = sum(one for one in left if one < milli)
            hosts = sum(one >= milli for one in left) >= gpus
            parts.append(part * (small if hosts else total))
        return sum(parts)

    def _table(self, kind: str, step: int) -> tuple[int, list[tuple[int, int, int]]]:
        """How many requests can use nothing there, and (thousandths, devices, how many) of the others."""
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
        """By (CPU, thousandths, devices): scores of all nodes, and the versions of the nodes that they are for."""
        self._options: dict[tuple[str, int, int, tuple[int, ...], int], dict[int, int]] = {}

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:
        """How much fragmentation falls, as an integer of 0 to 100; only nodes that have changed are looked at."""
        key = job.cpu_milli, job.gpu_milli if job.gpus else 0, job.gpus
        if key not in self._scores:
            self._scores[key] = np.zeros_like(self.nodes.cpu), np.full_like(self.nodes.cpu, -1)
        scores, versions = self._scores[key]
        for node in nodes[versions[nodes] != self.nodes.version[nodes]].tolist():
            scores[node] = max(self._by_device(job, node).values())
            versions[node] = self.nodes.version[node]
        return scores[nodes]

    def place(self, job: JobView, node: int) -> int:
        """The device of the best score, the first of several."""
        by_device = self._by_device(job, node)
        best = max(by_device.values())
        return next(
            place for place, left in enumerate(self.nodes.left[node].tolist()) if by_device.get(left, -1) == best
        )

    def _by_device(self, job: JobView, node: int) -> dict[int, int]:
        """The score by what is left of the device that a share gets; one of key 0 for all other jobs."""
        book, fragments = self.nodes, self._fragments
        kind, cpu = self.cluster.nodes[node].type, int(book.cpu[node])
        left = tuple(sorted(one for one in book.left[node].tolist() if one >= 0))
        before, after = fragments.step(cpu), fragments.step(cpu - job.cpu_milli)
        shared = job.gpu_milli if job.gpus and job.gpu_milli < WHOLE else -job.gpus
        key = kind, before, after, left, shared
        found = self._options.get(key)
        if found is None:
            now = fragments.of(kind, before, left)
            self._options[key] = found = {
                device: bisect_right(_STEPS, (now - fragments.of(kind, after, rest)) / (WHOLE * fragments.weight))
                for device, rest in _hypothetical(left, shared)
            }
        return found


def _hypothetical(left: tuple[int, ...], asked: int) -> list[tuple[int, tuple[int, ...]]]:
    """What may be left of a node's devices after a share (thousandths), or a number of whole devices (below 0)."""
    if asked <= 0:
        rest = list(left)
        for _ in range(-asked):
            rest[rest.index(WHOLE)] = 0
        return [(0, tuple(rest))]
    made = []
    for value in dict.fromkeys(one for one in left if one >= asked):
        rest = list(left)
        rest[rest.index(value)] = value - asked
        made.append((value, tuple(rest)))
    return made
