"""A small cluster and short words for stories about it."""

from __future__ import annotations

from typing import Any

from paictl.scheduler.decision import Bind, Decision, Phase
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth, PodGone
from paictl.scheduler.invariants import validate
from paictl.scheduler.request import PodRequest

NODES = ("n0", "n1", "n2", "n3")


def config(**vcs: dict[str, int]) -> dict[str, Any]:
    """One pool of four nodes of 2 x 2 GPUs; VCs as ``A={"NODE": 2}``, types below the pool."""
    paths = {"POOL": "POOL", "NODE": "POOL.NODE", "SWITCH": "POOL.NODE.SWITCH", "GPU": "POOL.NODE.SWITCH.GPU"}
    return {
        "physicalCluster": {
            "cellTypes": {
                "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
                "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
                "POOL": {"childCellType": "NODE", "childCellNumber": 4},
            },
            "physicalCells": [{"cellType": "POOL", "cellChildren": [{"cellAddress": name} for name in NODES]}],
        },
        "virtualClusters": {
            name: {"virtualCells": [{"cellType": paths[kind], "cellNumber": number} for kind, number in cells.items()]}
            for name, cells in vcs.items()
        },
    }


def healthy(data: dict[str, Any]) -> Engine:
    """An engine whose nodes are all healthy."""
    engine = Engine.from_config(data)
    for name in engine.state.physical.nodes:
        engine.observe(NodeHealth(name, healthy=True))
    return engine


def pod(uid: str, vc: str, leaves: int, priority: int = 0, **fields: Any) -> PodRequest:
    """A request; ``group=`` and ``pods=`` make it one of a gang."""
    group, pods = fields.pop("group", f"default/{uid}"), fields.pop("pods", 1)
    return PodRequest(uid, f"default/{uid}", vc, priority, leaves, group, ((leaves, pods),), **fields)


def run(engine: Engine, request: PodRequest, phase: Phase = Phase.FILTERING) -> Decision:
    """Plan and apply; all invariants hold before and after, and planning changes nothing."""
    before = engine.state.digest()
    decision = engine.plan(request, phase=phase)
    assert engine.state.digest() == before
    engine.apply(decision)
    validate(engine.state)
    return decision


def place(engine: Engine, decision: Decision) -> tuple[str, tuple[int, ...]]:
    """Node and devices of a bound pod."""
    assert isinstance(decision, Bind)
    info = engine.bind_info(decision)
    return info.node, info.devices


def gone(engine: Engine, uid: str) -> None:
    """A pod ends."""
    engine.observe(PodGone(uid))
    validate(engine.state)
