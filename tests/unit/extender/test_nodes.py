"""Which nodes are bad."""

from __future__ import annotations

from paictl.cluster.pods.nodes import node_status, why_bad
from paictl.scheduler.wire import Json


def test_a_bad_node_is_one_that_cannot_keep_its_promise() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    four = {"capacity": {"nvidia.com/gpu": "4", "cpu": "8"}, "allocatable": {"nvidia.com/gpu": "3"}}

    def why(status: Json, node: Json | None = None) -> str:
        return why_bad(node_status({"metadata": {"name": "n"}, "spec": node or {}, "status": status}), 4)

    assert why(ready) == ""
    assert why({}) == "it is not Ready"
    assert why(ready, {"unschedulable": True}) == "it is cordoned"
    assert why(ready | four) == "it has 3 healthy devices, its cells promise 4"
    assert why_bad(None, 4) == "it is not there"
