"""Two pods with the same devices, as after a binding that came too late: no third one gets them while either runs."""

from __future__ import annotations

import pytest

from paictl.scheduler.wire import BIND_INFO, ISOLATION
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Harness, gang


def doubled(harness: Harness, late: tuple[int, int]) -> str:
    """A pod of B with a node, and a gang of A that another process has bound to the same devices; their node."""
    (first,) = gang("first", 1, 4, "B")
    node = harness.run(first)
    pods, leaves = late
    other = Harness(harness.core.spec)
    other.open([node])
    for made in gang("late", pods, leaves):
        other.run(made)
        harness.create(made)
        assert {BIND_INFO, ISOLATION} <= made["metadata"]["annotations"].keys()
    return node


def names(harness: Harness, name: str) -> tuple[str, ...]:
    answer = harness.ask(gang(name, 1, 1, "B")[0]).names
    harness.delete(f"{name}-0")
    return answer


@pytest.mark.parametrize("late", [(1, 4), (2, 2), (1, 2)])
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("goes", ["first", "late"])
def test_nobody_else_gets_devices_that_two_pods_have_while_either_runs(
    harness: Harness, late: tuple[int, int], anew: bool, goes: str
) -> None:
    node = doubled(harness, late)
    if anew:
        harness.begin(harness.core.spec)
        harness.open(NODES)
    gone = ["first-0"] if goes == "first" else [f"late-{number}" for number in range(late[0])]
    for name in gone:
        harness.delete(name)
    left = {"first": "late", "late": "first"}[goes]
    state = harness.core.book.engine.state
    tree = state.physical
    free = [leaf for cell in tree.nodes[node] for leaf in tree.leaves(cell) if leaf not in state.occupancy.user]
    assert node in harness.core.health.bad or len(free) == (2 if left == "late" and late == (1, 2) else 0)
    for pod in [name for name in harness.server.pods if name.startswith(f"default/{left}-")]:
        harness.delete(pod.partition("/")[2])
    harness.reconciler.reconcile()
    assert node not in harness.core.health.bad, "both have ended"


def test_a_node_says_why_it_gets_no_pods(harness: Harness) -> None:
    node = doubled(harness, (1, 4))
    assert "have the same devices" in harness.core.health.bad[node]
