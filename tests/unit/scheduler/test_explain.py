from __future__ import annotations

from paictl.scheduler.events import NodeHealth
from paictl.scheduler.explain import Change, ChangeKind, Explanation, explain
from tests.unit.scheduler.support import config, healthy, pod, run


def changes(found: Explanation) -> dict[ChangeKind, Change]:
    return {change.kind: change for change in found.changes}


def test_a_pod_that_can_run_needs_no_explanation() -> None:
    found = explain(healthy(config(A={"NODE": 1})), pod("a", "A", 1))
    assert (found.views, found.changes) == ((), ())


def test_the_groups_in_the_way_and_what_would_help() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 1}))
    run(engine, pod("small", "A", 2, priority=3))
    run(engine, pod("large", "A", 4, priority=5))
    run(engine, pod("tiny", "A", 1, priority=3))
    before = engine.state.digest()
    found = explain(engine, pod("late", "A", 4, priority=3))
    assert engine.state.digest() == before
    (view,) = found.views
    assert [(level.cell_type, level.free, level.total) for level in view.levels] == [
        ("NODE", 0, 2), ("SWITCH", 0, 4), ("GPU", 1, 8),
    ]  # fmt: skip
    assert [holder.group for holder in view.holders] == ["default/tiny", "default/small", "default/large"]
    would = changes(found)
    assert would[ChangeKind.GROUPS_END].names == ("default/large",)
    assert would[ChangeKind.PRIORITY].number == 4
    assert (would[ChangeKind.QUOTA].number, would[ChangeKind.QUOTA].cell_type) == (1, "NODE")
    assert ChangeKind.OPPORTUNISTIC in would
    assert ChangeKind.NODES_HEAL not in would


def test_nodes_that_have_to_heal() -> None:
    engine = healthy(config(A={"NODE": 4}))
    for name in ("n1", "n2"):
        engine.observe(NodeHealth(name, healthy=False))
    found = explain(engine, pod("gang", "A", 4, pods=3))
    assert changes(found)[ChangeKind.NODES_HEAL].names == ("n1",)
    found = explain(engine, pod("gang", "A", 4, pods=4))
    assert changes(found)[ChangeKind.NODES_HEAL].names == ("n1", "n2")


def test_suggestions_in_the_way() -> None:
    engine = healthy(config(A={"NODE": 1}))
    found = explain(engine, pod("a", "A", 4, ignore_suggested=False), suggested=[])
    assert ChangeKind.SUGGESTIONS in changes(found)
