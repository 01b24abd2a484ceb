"""Pods on shared devices: nodes with CPU, memory and shares of devices, and the five policies to which FGD is compared.

A job is tried once, when it arrives; if no node has room, it is dropped. The feasible node with the highest integer
score is chosen; ties are broken by a random rank of the nodes, drawn once per run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paictl.sim.actions import Start, Stop, Trigger
from paictl.sim.cluster import Cluster, Devices
from paictl.sim.dice import Dice
from paictl.sim.job import WHOLE, Job
from paictl.sim.placement.count import Count
from paictl.sim.policies.base import Policy, Setup
from paictl.sim.rates import Rates
from paictl.sim.state import JobProgress
from paictl.sim.traces.lines import LONGEST
from paictl.sim.view import JobView

Numbers = NDArray[np.int64]
"""An array over nodes."""
_PLENTY: Final = 1 << 40
"""CPU (milli) and memory (MiB) of a node that does not give them."""
_PAPER: Final = "FGD (ATC'23) §6, baseline; simulator hkust-adsl/kubernetes-scheduler-simulator"


class SharedNodes:
    """Free resources of each node: CPU (milli), memory (MiB), and thousandths of each device."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        nodes = cluster.nodes
        self.most = max(node.devices for node in nodes)
        self.cpu: Numbers = np.array([node.cpu_milli or _PLENTY for node in nodes], dtype=np.int64)
        self.memory: Numbers = np.array([node.memory_mib or _PLENTY for node in nodes], dtype=np.int64)
        self.size: Numbers = np.array([node.devices for node in nodes], dtype=np.int64)
        self.left: NDArray[np.int64] = np.full((len(nodes), self.most), -1, dtype=np.int64)
        """Nodes x devices: free thousandths of each device, -1 for devices that a node does not have."""
        for number, node in enumerate(nodes):
            self.left[number, : node.devices] = WHOLE
        self.total: Numbers = self.size * WHOLE
        """Free thousandths of all devices of each node."""
        self.largest_cpu, self.largest = int(np.max(self.cpu)), self.most * WHOLE
        self.version: Numbers = np.zeros(len(nodes), dtype=np.int64)
        """Raised with each change of a node."""
        self._kinds = {kind: np.array([node.type == kind for node in nodes]) for kind in cluster.types}

    def feasible(self, job: JobView) -> Numbers:
        """The numbers of the nodes that have room for a job, rising."""
        fits = (self.cpu >= job.cpu_milli) & (self.memory >= job.memory_mib)
        if job.gpus:
            fits &= (self.left >= job.gpu_milli).sum(axis=1) >= job.gpus
            if types := job.gpu_types or (job.gpu_type and (job.gpu_type,)):
                fits &= np.any([self._kinds[kind] for kind in types if kind in self._kinds], axis=0)
        numbers: Numbers = np.flatnonzero(fits)
        return numbers

    def change(self, job: JobView, node: int, places: tuple[int, ...], sign: int) -> None:
        """Place a job on devices of a node, numbered from 0 (`sign` -1), or remove it (1)."""
        self.cpu[node] += sign * job.cpu_milli
        self.memory[node] += sign * job.memory_mib
        for place in places:
            self.left[node, place] += sign * job.gpu_milli
        self.total[node] += sign * job.gpu_milli * len(places)
        self.version[node] += 1

    def tightest(self, job: JobView, node: int) -> int:
        """The index of the fullest device of a node with room for a share, the first of several."""
        row = self.left[node]
        return int(np.argmin(np.where(row >= job.gpu_milli, row, WHOLE + 1)))


class Undisturbed(Rates):
    """Shares are isolated: a job runs as fast as alone; a job without an end never leaves."""

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """0 for a job that never leaves."""
        return 0 if state.job.work >= LONGEST else super().rate(state, company)

    def together(self, job: Job, company: Any, devices: Devices) -> float:  # noqa: ARG002 - as the base class
        """1: jobs do not slow each other down."""
        return 1.0


class Packing(Policy):
    """Places each job when it arrives, on the feasible node with the highest score, or drops it."""

    shares = True
    choices = (
        "node ranks and random draws use our own generator: single runs differ from the published simulator, means "
        "over seeds do not",
        "a node without CPU or memory figures has enough of both",
        "jobs that end release their devices; the published figures are for pods that never leave",
    )

    def __init__(self, parameters: Any, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.nodes = SharedNodes(self.cluster)
        self.dice = Dice(setup.seed, "packing")
        ranks = list(range(len(self.cluster.nodes)))
        for last in range(len(ranks) - 1, 0, -1):
            other = self.dice.below(last + 1)
            ranks[last], ranks[other] = ranks[other], ranks[last]
        self.ranks = np.array(ranks, dtype=np.int64)
        self._places: dict[int, tuple[JobView, int, tuple[int, ...]]] = {}
        self._arrived = self._allocated = self._dropped = 0
        self._ratio = 0.0
        self._curve: dict[int, list[float]] = {}

    def make_placement(self) -> Count:
        """Unused: jobs get shares of devices."""
        return Count(self.cluster)

    def make_rates(self) -> Rates:
        """Rates without interference."""
        return Undisturbed(self.cluster, located=False, overhead=self.p.overhead)

    # --- to be overridden

    @abstractmethod
    def scores(self, job: JobView, nodes: Numbers) -> Numbers:
        """An integer score for each of the feasible `nodes`."""

    def choose(self, job: JobView, nodes: Numbers) -> int:
        """The node of the highest score, by rank among equals."""
        scores = self.scores(job, nodes)
        best = nodes[scores == np.max(scores)]
        return int(best[np.argmin(self.ranks[best])])

    def place(self, job: JobView, node: int) -> int:
        """The index of a node's device for a share, from 0."""
        return self.nodes.tightest(job, node)

    def settled(self, job: JobView, node: int, change: int) -> None:
        """A job was placed on a node (1) or left it (-1)."""

    # --- events

    def plan(self, moment: Trigger) -> None:
        """Free the resources of ended jobs, then try jobs that arrived."""
        for job in moment.ended:
            _, node, places = self._places.pop(job.number)
            self._change(job, node, places, -1)
        for job in moment.arrived:
            milli = job.gpus * job.gpu_milli
            self._arrived += milli
            nodes = self.nodes.feasible(job)
            if len(nodes):
                node = self.choose(job, nodes)
                places = self._devices(job, node)
                self._change(job, node, places, 1)
                self._places[job.number] = job, node, places
                first = self.cluster.first[node]
                self.act(Start(job, tuple(first + place for place in places)))
            else:
                self._dropped += 1
                self.act(Stop(job))
            self._note()

    def _devices(self, job: JobView, node: int) -> tuple[int, ...]:
        if not job.gpus:
            return ()
        if job.gpu_milli < WHOLE:
            return (self.place(job, node),)
        idle = np.flatnonzero(self.nodes.left[node] == WHOLE)
        return tuple(int(place) for place in idle[: job.gpus])

    def _change(self, job: JobView, node: int, places: tuple[int, ...], change: int) -> None:
        self.nodes.change(job, node, places, -change)
        self._allocated += change * job.gpu_milli * len(places)
        self.settled(job, node, change)

    def _note(self) -> None:
        size = self.cluster.size * WHOLE
        at = round(100 * self._arrived / size)
        self._ratio = 100 * self._allocated / size
        row = self._curve.setdefault(at, [0.0, 0])
        row[0] += self._ratio
        row[1] += 1

    def counted(self) -> Mapping[str, float]:
        """Allocated devices in per cent of the cluster: after the last arrival, and by requests in per cent."""
        curve = {at: total / count for at, (total, count) in sorted(self._curve.items())}
        return {
            "allocation_ratio": self._ratio,
            "dropped": self._dropped,
            **{f"allocation_curve.{at}": value for at, value in curve.items()},
        }


class RandomFit(Packing):
    """Each job goes to a random node with room; a share of a device goes to a random device of that node. Example:
    `random`."""

    id = "random"
    title = "shares: a random node with room"
    paper = _PAPER

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:  # noqa: ARG002 - as the base class
        """The same for all nodes."""
        return np.zeros(len(nodes), dtype=np.int64)

    def choose(self, job: JobView, nodes: Numbers) -> int:  # noqa: ARG002 - as the base class
        """A random node."""
        return int(nodes[self.dice.below(len(nodes))])

    def place(self, job: JobView, node: int) -> int:
        """A random device with room."""
        fitting = np.flatnonzero(self.nodes.left[node] >= job.gpu_milli)
        return int(fitting[self.dice.below(len(fitting))])


class TightestFit(Packing):
    """The node with the least CPU and devices left after placing. Example: `bestfit`."""

    id = "bestfit"
    title = "shares: the node with the least left"
    paper = _PAPER

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:
        """100 less the mean of free CPU and free devices after placing, in per cent of the largest node."""
        book = self.nodes
        cpu = (book.cpu[nodes] - job.cpu_milli) / book.largest_cpu
        milli = (book.total[nodes] - job.gpus * job.gpu_milli) / book.largest
        return np.floor(100 * (1 - 0.5 * cpu - 0.5 * milli)).astype(np.int64)


class DotProduct(Packing):
    """The node whose free CPU and devices have the smallest product with the request. Example: `dotprod`."""

    id = "dotprod"
    title = "shares: the node with the smallest product of free resources and request"
    paper = _PAPER

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:
        """The smaller the product, the better."""
        book = self.nodes
        cpu = book.cpu[nodes] * job.cpu_milli / book.largest_cpu**2
        milli = book.total[nodes] * (job.gpus * job.gpu_milli) / book.largest**2
        return np.floor(100 * (1 - 0.5 * (cpu + milli))).astype(np.int64)


class GpuPacking(Packing):
    """Devices in use first, then idle devices of nodes in use, then idle nodes. Example: `gpupacking`."""

    id = "gpupacking"
    title = "shares: devices in use before idle ones, nodes in use before idle ones"
    paper = _PAPER

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:
        """Below 34 for idle nodes, below 50 for idle devices, else the fuller the better."""
        if not job.gpus:
            return np.zeros(len(nodes), dtype=np.int64)
        free = self.nodes.left[nodes]
        idle = (free == WHOLE).sum(axis=1)
        if job.gpu_milli == WHOLE:
            used = np.full(len(nodes), max(50 - job.gpus, 33), dtype=np.int64)
        else:
            least = np.where(free >= job.gpu_milli, free, WHOLE + 1).min(axis=1)
            partly = np.maximum(100 - least * 100 // WHOLE // 10, 50)
            used = np.where(least == WHOLE, 49, partly)
        return np.where(idle == self.nodes.size[nodes], np.maximum(33 - idle, idle), used)


class GpuClustering(Packing):
    """Nodes whose jobs all have the same number of devices first, then others. Example: `gpuclustering`."""

    id = "gpuclustering"
    title = "shares: jobs of the same size together"
    paper = _PAPER

    def __init__(self, parameters: Any, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._guests = np.zeros(len(self.cluster.nodes), dtype=np.int64)
        self._alike: dict[int, Numbers] = {}
        """Jobs on each node by affinity: their number of devices, 0 for a share."""

    def settled(self, job: JobView, node: int, change: int) -> None:
        """Count jobs with devices by their affinity."""
        if job.gpus:
            self._guests[node] += change
            self._row(job)[node] += change

    def _row(self, job: JobView) -> Numbers:
        affinity = job.gpus if job.gpu_milli == WHOLE else 0
        if affinity not in self._alike:
            self._alike[affinity] = np.zeros(len(self.cluster.nodes), dtype=np.int64)
        return self._alike[affinity]

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:
        """75 for nodes with this size only, 50 with this and others, 25 for empty nodes; plus up to 25 for fullness."""
        if not job.gpus:
            return np.zeros(len(nodes), dtype=np.int64)
        largest = self.nodes.largest
        full = 25 * (largest - self.nodes.total[nodes]) // largest
        alike, guests = self._row(job)[nodes], self._guests[nodes]
        kind = np.where(alike > 0, np.where(alike == guests, 75, 50), np.where(guests == 0, 25, 0))
        return np.asarray(full + kind, dtype=np.int64)
