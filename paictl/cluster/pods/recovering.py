"""The scheduler's state as a scheduler that starts now would find it: from nodes, and from pods that are bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paictl.cells.spec import ClusterSpec
from paictl.cluster.pods.labels import Reading, Rules
from paictl.cluster.pods.nodes import node_status, why_bad
from paictl.cluster.pods.reading import asks, noted_on, read_info, read_pod
from paictl.frozen import frozen
from paictl.scheduler.book import Book
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.state import State
from paictl.scheduler.wire import ISOLATION, isolation_agrees

Json = Mapping[str, Any]


@frozen
class Recovered:
    """The book with all pods that run, what those ask that wait, by uid, and how many pods cannot be accounted for."""

    book: Book
    readings: Mapping[str, Reading]
    """Of all pods that could be read, those that run among them."""
    unaccounted: int

    @property
    def engine(self) -> Engine:
        """The engine of the book."""
        return self.book.engine


def promised(state: State) -> dict[str, int]:
    """Devices that the cells of each node of a configuration promise, in its order."""
    tree = state.physical
    return {name: sum(len(tree.leaves(cell)) for cell in cells) for name, cells in tree.nodes.items()}


def is_redivided(info: BindInfo, noted: Mapping[str, object], spec: ClusterSpec, state: State) -> bool:
    """Whether a pod was told its devices (`noted`, its annotations) by another division of the node's GPUs.

    Nobody can then say which leaf cells it uses, so its node gets no other pod until it has ended.
    """
    tree, isolation = state.physical, str(noted.get(ISOLATION, ""))
    chains = [tree.chains[tree.chain[cell]].name for cell in tree.nodes.get(info.node, ())]
    named = [info.chain] if info.chain in chains else chains
    return not isolation_agrees(isolation, info.devices, max(map(spec.mig_instances, named), default=0))


def recovered(spec: ClusterSpec, nodes: Iterable[Json], pods: Iterable[Json]) -> Recovered:
    """The state by a configuration; `pods` are all that have not ended. What cannot be read holds nothing."""
    book = Book(Engine(spec))
    rules = Rules(skus=spec.sku_types)
    known = {str(node["metadata"]["name"]): node_status(node, rules.devices) for node in nodes}
    for name, devices in promised(book.engine.state).items():
        book.report(name, not why_bad(known.get(name), devices))
    readings: dict[str, Reading] = {}
    running: list[RunningPod] = []
    unaccounted = 0
    for pod in filter(asks, pods):
        about = pod["metadata"]
        uid, name = str(about["uid"]), f"{about.get('namespace', 'default')}/{about['name']}"
        try:
            reading = readings[uid] = read_pod(pod, uid, name, rules)
            info = read_info(pod, name) if (pod.get("spec") or {}).get("nodeName") else None
        except RequestError:
            unaccounted += bool((pod.get("spec") or {}).get("nodeName"))
            continue
        if info is not None:
            running.append(RunningPod(reading.request, info))
            state = book.engine.state
            if info.node in state.physical.nodes and is_redivided(info, noted_on(pod), spec, state):
                book.report(info.node, False)
    book.recover(running)
    return Recovered(book, readings, unaccounted)
