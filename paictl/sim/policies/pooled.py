"""Pooled devices: a job may use devices of other machines over the network, which slows it down."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import parameter
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis


@frozen
class PooledParameters(Parameters):
    """`pooled:slowdown=1.04,links=8`."""

    remote: bool = parameter(True, "false: all devices of a job must be on one machine (or on whole machines)")
    slowdown: float = parameter(1.04, "slowdown of a job that uses devices of other machines", 1, 1000)
    links: int = parameter(0, "remote devices that the network serves at full speed; more share it; 0: no limit")


class Pooled(Policy):
    """First in, first out. Uses a single machine if it has room, otherwise any free devices.

    Reports stranded devices: free devices that a waiting job could use if they were on one machine. Example: compare
    `pooled:slowdown=1.3,links=8` with `pooled:remote=false`.
    """

    id = "pooled"
    title = "remote devices: fewer stranded devices, slower jobs"
    paper = "rCUDA, Bitfusion, LegoOS (OSDI'18), from secondary source only: below 4 % overhead on a fast network"
    Parameters = PooledParameters
    choices = (
        "a job with remote devices runs at 1 / slowdown; the excess grows in proportion once more remote devices "
        "are in use than the network has links",
        "devices outside the machine that has most of the job's devices are remote; a job larger than a machine "
        "uses whole machines and one part, and counts as local if it is not spread further",
        "jobs that fit may overtake, as in `backfill`",
    )

    def __init__(self, parameters: PooledParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._book = NodeBook(self.cluster)
        self._free = self.cluster.size
        self._lines: dict[tuple[int, str | None], deque[JobView]] = {}
        """Waiting jobs by size and type, in the order of arrival: if the first does not fit, no other does."""
        self._remote: dict[int, tuple[JobView, int]] = {}
        self._load = 0
        self._stranded = 0
        self._since = Millis(0)
        self._idle = 0
        """Devices that were stranded after the last decision."""
        self._counts = {"remote_starts": 0}

    def ended(self, job: JobView, devices: Devices, /) -> None:
        """Free the job's devices."""
        self._book.give(devices)
        self._free += len(devices)
        self._load -= self._remote.pop(job.number, (job, 0))[1]

    def plan(self, moment: Trigger) -> None:
        """Start jobs that fit, and update the rates of remote jobs, which share the network."""
        self._stranded += (self.now - self._since) * self._idle
        self._since = self.now
        before = self._load
        for job in moment.arrived:
            self._lines.setdefault((job.gpus, job.gpu_type), deque()).append(job)
        begun: dict[int, Devices] = {}
        for job, devices in self._starting():
            self._note_start(job, devices)
            begun[job.number] = devices
            if job.number not in self._remote:
                self.act(Start(job, devices))
        limit = self._limit()
        for number, (job, _) in self._remote.items():
            if number in begun:
                self.act(Start(job, begun[number], limit))
            elif self._load != before or moment.ended:
                self.act(Colocate(job, job.devices, limit))
        self._idle = self._free if any(gpus <= self._free for gpus, _ in self._lines) else 0

    def _starting(self) -> Iterator[tuple[JobView, Devices]]:
        """(job, its devices) in the order of arrival; the caller accounts for each job before it takes the next."""
        stuck: set[tuple[int, str | None]] = set()
        while ahead := [
            (line[0].number, key) for key, line in self._lines.items() if key[0] <= self._free and key not in stuck
        ]:
            key = min(ahead)[1]
            line = self._lines[key]
            devices = self._find(line[0])
            if devices is None:
                stuck.add(key)
                continue
            job = line.popleft()
            if not line:
                del self._lines[key]
            yield job, devices

    def counted(self) -> Mapping[str, float]:
        """Stranded device-seconds, and the number of starts with remote devices."""
        return {"stranded": self._stranded / 1000, **self._counts}

    def _limit(self) -> int:
        links = self.p.links
        crowd: float = max(1.0, self._load / links) if links else 1.0
        return int(ONE / (1 + (self.p.slowdown - 1) * crowd))

    def _note_start(self, job: JobView, devices: Devices) -> None:
        away = self._away(devices)
        self._free -= len(devices)
        self.hold(job, devices)
        if away:
            self._remote[job.number] = job, away
            self._load += away
            self._counts["remote_starts"] += 1

    def _away(self, devices: Devices) -> int:
        """Remote devices of a set; none if it is on as few machines as its size allows."""
        counts: dict[int, int] = {}
        for device in devices:
            node = self.cluster.node_of[device]
            counts[node] = counts.get(node, 0) + 1
        largest = max(len(self.cluster.devices_of(node)) for node in counts)
        if len(counts) <= -(-len(devices) // largest):
            return 0
        return len(devices) - max(counts.values())

    def _find(self, job: JobView) -> Devices | None:
        """Best fit on one machine, or whole machines and a part of one; else, with `remote`, any free devices."""
        for pool in self._book.pools_for(job.gpu_type):
            whole, rest = divmod(job.gpus, pool.size)
            idle = pool.by_free[pool.size]
            tight = next((row[0] for row in pool.by_free[rest : pool.size] if row), None) if rest else None
            if len(idle) >= whole + (rest > 0 and tight is None):
                nodes = [(node, pool.size) for node in idle[:whole]]
                if rest:
                    nodes.append((idle[whole] if tight is None else tight, rest))
                return self._take(nodes)
        return self._anywhere(job) if self.p.remote else None

    def _anywhere(self, job: JobView) -> Devices | None:
        free = [
            (-count, node, count)
            for pool in self._book.pools_for(job.gpu_type)
            for count, row in enumerate(pool.by_free)
            for node in row
            if count
        ]
        if sum(count for _, _, count in free) < job.gpus:
            return None
        nodes, missing = [], job.gpus
        for _, node, count in sorted(free):
            if missing:
                nodes.append((node, min(count, missing)))
                missing -= nodes[-1][1]
        return self._take(nodes)

    def _take(self, nodes: list[tuple[int, int]]) -> Devices:
        return tuple(sorted(device for node, count in nodes for device in self._book.take(node, count)))
