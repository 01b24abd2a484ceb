"""Two ways to give devices to jobs, behind one interface: counts on bare nodes, and cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from paictl.cells.chain import Chain, build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import ClusterSpec
from paictl.errors import PaictlError
from paictl.scheduler.decision import Bind
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth, PodGone
from paictl.scheduler.request import PodRequest
from paictl.sim.trace import TraceJob

PRIORITY = 0
"""All jobs of a comparison are guaranteed and equal, so that nobody is preempted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Devices of one pod; which of them is not told where only their number counts."""

    node: str
    number: int


class Policy(Protocol):
    """Who decides where a job runs. Nobody asks for more than the count of its VC leaves free."""

    @property
    def nodes(self) -> Mapping[str, int]:
        """Devices of each node."""

    def start(self, job: TraceJob) -> tuple[Place, ...] | None:
        """Start a job now, a place for each pod; None if there is no room for all of them, and nothing changes."""

    def end(self, job: TraceJob) -> None:
        """A job that was started has ended."""


class Counts:
    """Nodes without cells: each pod goes to the node where it leaves the fewest devices free, the first of equals."""

    def __init__(self, nodes: Mapping[str, int]) -> None:
        self.nodes = nodes
        self._free = dict(nodes)
        self._places: dict[str, tuple[Place, ...]] = {}

    def start(self, job: TraceJob) -> tuple[Place, ...] | None:
        """Best fit, pod by pod."""
        free = dict(self._free)
        places = []
        for _ in range(job.pods):
            fitting = [node for node, left in free.items() if left >= job.devices]
            if not fitting:
                return None
            node = min(fitting, key=free.__getitem__)  # the first of equals
            free[node] -= job.devices
            places.append(Place(node, job.devices))
        self._free = free
        self._places[job.name] = tuple(places)
        return self._places[job.name]

    def end(self, job: TraceJob) -> None:
        """Its devices are free."""
        for place in self._places.pop(job.name):
            self._free[place.node] += place.number


class Cells:
    """The scheduler core, all nodes healthy."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.nodes = physical_nodes(spec)
        self._engine = Engine(spec)
        for node in self.nodes:
            self._engine.observe(NodeHealth(node, healthy=True))

    def start(self, job: TraceJob) -> tuple[Place, ...] | None:
        """Bind the whole group, or none of it."""
        places: tuple[Place, ...] = ()
        for number in range(job.pods):
            request = PodRequest(
                uid=_uid(job, number), name=f"sim/{_uid(job, number)}", vc=job.vc, priority=PRIORITY,
                leaf_number=job.devices, group=job.name, members=((job.devices, job.pods),),
            )  # fmt: skip
            decision = self._engine.plan(request)
            if not isinstance(decision, Bind):
                return None  # only ever for the first pod: a group that is bound has room for all of its pods
            info = self._engine.bind_info(decision)
            self._engine.apply(decision)
            places = tuple(Place(pod.node, len(pod.devices)) for member in info.members for pod in member)
        return places

    def end(self, job: TraceJob) -> None:
        """All its pods are gone."""
        for number in range(job.pods):
            self._engine.observe(PodGone(_uid(job, number)))


def _uid(job: TraceJob, number: int) -> str:
    return f"{job.name}-{number}"


# --- what a configuration gives to each of them


def physical_nodes(spec: ClusterSpec) -> dict[str, int]:
    """Devices of each node of the cluster, in the order of the configuration.

    Raises `PaictlError` if counts would not be comparable: with several kinds of devices, or pinned cells.
    """
    tree = Engine(spec).state.physical
    if len({chain.leaf_type for chain in tree.chains}) != 1 or tree.pinned:
        raise PaictlError(
            "counts can be compared with cells on one kind of device without pinned cells only",
            hint="leave the other chains and the pinned cells out of the configuration",
        )
    return {
        name: sum(_node_size(tree.chains[tree.chain[cell]]) for cell in cells) for name, cells in tree.nodes.items()
    }


def private_nodes(spec: ClusterSpec) -> dict[str, dict[str, int]]:
    """By VC: the nodes of a cluster that holds what the VC is promised and nobody else.

    A promised cell above node level gives several nodes, one below it a node as small as the cell.
    """
    chains = build_chains(spec)
    pinned = pinned_levels(spec, chains)
    found: dict[str, dict[str, int]] = {}
    for vc in spec.virtual_clusters:
        sizes: list[int] = []
        for name, level, _ in preassigned_levels(vc, chains, pinned):
            chain = chains[name]
            sizes += [min(chain.leaves[level], _node_size(chain))] * chain.nodes(level)
        found[vc.name] = {f"{vc.name}-{number}": size for number, size in enumerate(sizes, 1)}
    return found


def _node_size(chain: Chain) -> int:
    return chain.leaves[chain.node_level]
