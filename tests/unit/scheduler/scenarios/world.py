"""A small cluster that a list of numbers drives through a history: binds, ends, preemptions, flapping nodes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.replay import Replayer
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import read_request

Json = dict[str, Any]
Step = tuple[int, int, int, int]

RACKS: Json = {
    "physicalCluster": {
        "cellTypes": {
            "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
            "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 2},
        },
        "physicalCells": [
            {"cellType": "RACK", "cellChildren": [{"cellAddress": "n0"}, {"cellAddress": "n1"}]},
            {"cellType": "RACK", "cellChildren": [{"cellAddress": "n2"}, {"cellAddress": "n3"}]},
            {"cellType": "RACK", "cellChildren": [{"cellAddress": "n6"}, {"cellAddress": "n7"}]},
            {"cellType": "RACK", "cellChildren": [{"cellAddress": "n4"}, {"cellAddress": "n5", "pinnedCellId": "PIN"}]},
        ],
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 2}]},
        "b": {
            "virtualCells": [{"cellType": "RACK.NODE.SWITCH", "cellNumber": 3}],
            "pinnedCells": [{"pinnedCellId": "PIN"}],
        },
        "c": {"virtualCells": [{"cellType": "RACK", "cellNumber": 1}]},
    },
}
"""Four racks of two nodes of two switches; quota at three levels and a pinned node."""

TWO_TYPES: Json = {
    "physicalCluster": {
        "cellTypes": {
            "K80-NODE": {"childCellType": "K80", "childCellNumber": 4, "isNodeLevel": True},
            "V100-NODE": {"childCellType": "V100", "childCellNumber": 2, "isNodeLevel": True},
            "V100-PAIR": {"childCellType": "V100-NODE", "childCellNumber": 2},
        },
        "physicalCells": [
            {"cellType": "V100-PAIR", "cellChildren": [{"cellAddress": "v0"}, {"cellAddress": "v1"}]},
            {"cellType": "K80-NODE", "cellAddress": "k0"},
            {"cellType": "K80-NODE", "cellAddress": "k1"},
            {"cellType": "V100-NODE", "cellAddress": "v2"},
        ],
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "V100-PAIR", "cellNumber": 1}, {"cellType": "K80-NODE", "cellNumber": 1}]},
        "b": {
            "virtualCells": [{"cellType": "V100-NODE", "cellNumber": 1}, {"cellType": "K80-NODE.K80", "cellNumber": 3}]
        },
        "c": {"virtualCells": []},
    },
}
"""Three chains with two leaf cell types; one VC without quota."""

CONFIGS = (RACKS, TWO_TYPES)
GANGS = (((1, 1),), ((2, 1),), ((1, 2),), ((4, 1),), ((2, 2),), ((1, 1), (2, 1)), ((4, 2),), ((1, 5),))
PRIORITIES = (-1, 0, 1, 5)

steps = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 31), st.integers(0, 31), st.integers(0, 31)), min_size=1, max_size=50
)
"""Histories: `World.step` gives each row of numbers its meaning, whatever the numbers are."""


class World:
    """A replayer, and what the next step refers to by number."""

    def __init__(self, config: Json) -> None:
        self.spec = ClusterSpec.from_mapping(config)
        self.replayer = Replayer(self.spec)
        self.nodes = list(self.replayer.engine.state.physical.nodes)
        self.types = ["", *self.replayer.engine.state.chains_by_type]
        self.count = 0
        self.run({"op": "nodes", "names": self.nodes, "healthy": True})

    def run(self, operation: Json) -> Json:
        return self.replayer.run(operation)

    def gang(self, a: int, b: int, c: int) -> list[Json]:
        """The pods of a new group that the numbers describe; `add` them to schedule them."""
        self.count += 1
        name = f"g{self.count}"
        members = [{"leafCellNumber": leaves, "podNumber": pods} for leaves, pods in GANGS[a % len(GANGS)]]
        spec = {
            "virtualCluster": "abc"[b % 3],
            "priority": PRIORITIES[b // 3 % 4],
            "leafCellType": self.types[c % len(self.types)] if c % 4 else "",
            "lazyPreemptionEnable": c % 5 == 0,
            "ignoreK8sSuggestedNodes": c % 3 != 0,
            "affinityGroup": {"name": name, "members": members},
        }
        if b % 3 == 1 and b // 12 and "PIN" in self.replayer.engine.state.physical.pinned:
            spec["pinnedCellId"] = "PIN"
        return [
            {"uid": f"{name}-{leaves}-{i}", "name": f"{name}-{leaves}-{i}", "spec": {**spec, "leafCellNumber": leaves}}
            for leaves, pods in GANGS[a % len(GANGS)]
            for i in range(pods)
        ]

    def request(self, a: int, b: int, c: int) -> PodRequest:
        """The first pod of a new group, as a request."""
        pod = self.gang(a, b, c)[0]
        return read_request(pod["spec"], pod["uid"], f"default/{pod['name']}")

    def suggested(self, number: int) -> list[str] | None:
        """All nodes, or all but two."""
        return None if number % 3 else [name for i, name in enumerate(self.nodes) if i not in (number % 5, number % 4)]

    def step(self, row: Step) -> list[Json]:
        """Carry out one row of numbers; returns the results of its operations."""
        kind, a, b, c = row
        if kind < 6:
            suggested, phase = self.suggested(b + c), "Preempting" if kind == 5 else "Filtering"
            out = []
            for pod in self.gang(a, b, c):
                out.append(self.run({"op": "schedule", "phase": phase, "suggested": suggested, "pod": pod}))
                if out[-1]["r"] == "bind" and phase == "Filtering":
                    out.append(self.run({"op": "add_allocated", "uid": pod["uid"]}))
            return out
        if kind < 9:
            pods = sorted(self.replayer.book.pods)
            return [self.run({"op": "delete_allocated", "uid": pods[(a * 32 + b) % len(pods)]})] if pods else []
        if kind < 11:
            name = self.nodes[a % len(self.nodes)]
            return [self.run({"op": "node", "name": name, "healthy": bool(b % 2)})]
        return [self.run({"op": "restart"})]
