"""SC'17: places jobs by the distance of their devices, interference between neighbours, and fragmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.actions import Start, Trigger
from paictl.sim.cluster import Cluster, Node
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.bipartition import Bipartition, Rule
from paictl.sim.placement.utility import beside_rate
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import ParameterError, parameter
from paictl.sim.rates import Rates
from paictl.sim.state import ONE, JobProgress
from paictl.sim.view import JobView


@frozen
class TopologyParameters(Parameters):
    """`topology:variant=topo-p`."""

    variant: Literal["fcfs", "best-fit", "topo", "topo-p"] = parameter(
        "topo-p",
        "fcfs: first place, no overtaking; best-fit: fullest machine; topo: best utility; topo-p: best utility or wait",
    )
    minimum: float = parameter(0.4, "topo-p: minimum utility of a place (unless the job sets its own)")
    level: str = parameter("socket", "level of a machine at which jobs interfere with each other")
    sockets: int = parameter(2, "number of parts in a machine, if the cluster does not define this level", 1, 16)


class TopologyRates(Rates):
    """A job runs at the measured rate for its devices' location, or beside its worst neighbour if that is slower."""

    def __init__(self, tree: Cluster, level: str, overhead: float) -> None:
        super().__init__(tree, overhead=overhead)
        self._level = level

    def vicinity(self) -> Sequence[int]:
        """By device, its group at the level where jobs interfere."""
        return self.cluster.groups[self._level]

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """Units of work a millisecond."""
        job = state.job
        rate = self.alone(job, state.devices) * (1.0 - self.overhead)
        if company and job.beside:
            worst = min(beside_rate(job.beside, other.job.model, other.job.gpus) for other in company)
            level = self.cluster.level(state.devices)
            where = job.sensitivity.get(level, 1.0) if len(state.devices) > 1 else 1.0
            if worst < where:  # both were measured against the best place, alone
                rate *= worst / where
        return round(rate * ONE) * state.limit // ONE


class Topology(Policy):
    """Four schedulers of one paper: `fcfs` and `best-fit` ignore the topology, `topo` and `topo-p` use it.

    The utility of a place is 1 / sum of cost^weight over communication, interference and fragmentation, as a share of
    the best possible value. Example: `topology:variant=topo`.
    """

    id = "topology"
    title = "places devices by distance, interference and fragmentation"
    paper = "Amaral et al., SC'17; artifact HiEST/gpu-topo-aware@8125c28"
    knows = frozenset({Knowledge.MODEL, Knowledge.LOCALITY, Knowledge.COLOCATION, Knowledge.FACTS})
    Parameters = TopologyParameters
    endures = True
    choices = (
        "the artifact starts nothing while its machine 0 is full, and takes the last machine with room; here every "
        "machine counts, `fcfs` takes the first one and `best-fit` the fullest one",
        "a job's speed depends on its current worst neighbor; the artifact keeps the worst neighbor it ever had",
        "interference is the mean of time alone divided by time beside, over the neighbors on the same socket that "
        "slow a job (as published, so a small slowdown costs more than a large one, and no slowdown costs nothing)",
        "topo-p takes the best place that reaches the minimum, or waits; on an idle machine every job reaches it, "
        "but small jobs may overtake it forever",
        "a job larger than a machine gets whole machines; its remainder is placed like a job of that size",
        "distance 1 within a socket, 20 between sockets; communication costs 20 per device; weights 1/3; minimum "
        "cost 0.01",
    )

    def __init__(self, parameters: TopologyParameters, setup: Setup) -> None:
        self._tree = _with_sockets(setup.cluster, parameters.level, parameters.sockets)
        super().__init__(parameters, setup)
        self._rule: Rule = {"fcfs": self._book.first, "best-fit": self._book.fullest}.get(
            parameters.variant, self._book.best
        )
        self._lines: dict[int, list[JobView]] = {}
        """Waiting jobs by kind, in the order of arrival."""
        self._worth: dict[int, float] = {}
        self._below = 0

    def make_placement(self) -> Bipartition:
        """A bipartition of the cluster with sockets."""
        self._book = Bipartition(self._tree, self.p.level)
        return self._book

    def make_rates(self) -> Rates:
        """Rates by location and neighbours."""
        return TopologyRates(self._tree, self.p.level, self.p.overhead)

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """The utility of a job's place when it started, and the minimum that it asked for."""
        worth = self._worth.pop(job.number, None)
        return {} if worth is None else {"utility": worth, "minimum": self._minimum(job)}

    def counted(self) -> Mapping[str, float]:
        """Number of jobs that started below their minimum utility."""
        return {"utility_violations": self._below}

    def plan(self, moment: Trigger) -> None:
        """Start jobs for which there is a place, in the order of arrival."""
        for job in moment.arrived:
            if job.gpus > (self.cluster.size if job.gpu_type is None else self.cluster.types[job.gpu_type]):
                continue  # elastic, and larger than the cluster: it would block the line forever
            self._lines.setdefault(self._book.kind(job), []).append(job)
        stuck: set[int] = set()
        while (head := self._first(stuck)) is not None:
            kind = self._book.kind(head)
            if self._begin(head):
                self._lines[kind].remove(head)
                if not self._lines[kind]:
                    del self._lines[kind]
            elif self.p.variant == "fcfs":
                return
            else:
                stuck.add(kind)

    def _first(self, stuck: set[int]) -> JobView | None:
        """The next job to try; if a job of a kind does not fit, no other of that kind does."""
        waiting = (self._eligible(kind, line) for kind, line in self._lines.items() if kind not in stuck)
        jobs = [job for job in waiting if job is not None]
        return min(jobs, key=lambda job: job.number) if jobs else None

    def _eligible(self, kind: int, line: list[JobView]) -> JobView | None:
        if self.p.variant == "fcfs":
            return line[0]
        if line[0].gpus > self._book.free:
            return None
        if self.p.variant != "topo-p":
            return line[0]
        worth = self._book.worth(kind)
        return next((job for job in line if self._minimum(job) <= worth), None)

    def _minimum(self, job: JobView) -> float:
        least: float = job.facts.get("utility", self.p.minimum)
        return min(1.0, least)

    def _begin(self, job: JobView) -> bool:
        least = self._minimum(job)
        placed = self._book.place(job, job.gpus, self._rule, least if self.p.variant == "topo-p" else 0.0)
        if placed is None:
            return False
        devices, worth = placed
        self._worth[job.number] = worth
        self._below += worth < least
        self.hold(job, devices)
        self.act(Start(job, devices))
        return True


def _with_sockets(cluster: Cluster, level: str, parts: int) -> Cluster:
    """The same devices, with `level` in every machine; machines without it are divided into `parts`."""

    def split(node: Node) -> Node:
        if any(name == level for name, _ in node.inner):
            return node
        return replace(node, inner=((level, -(-node.devices // parts)), *node.inner))

    if level in cluster.levels[cluster.levels.index("node") :]:
        raise ParameterError(
            text("{level} is not a level inside a machine", level=level),
            where="policy topology, level",
            hint="for instance socket",
        )
    return Cluster(replace(cluster.spec, nodes=tuple(split(node) for node in cluster.nodes)))
