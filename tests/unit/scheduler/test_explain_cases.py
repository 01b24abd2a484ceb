"""Explanations written by hand: a small story, and what must be said about its last pod."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from paictl.errors import PaictlError
from paictl.scheduler.decision import Phase
from paictl.scheduler.events import LeafHealth, NodeHealth
from paictl.scheduler.explain import Explanation, explain, from_data, render, to_data
from paictl.scheduler.explain.data import Change, ChangeKind
from paictl.scheduler.explain.pod import PodHistory, PodSituation, report, report_data, report_lines
from paictl.scheduler.explain.text import change_text
from paictl.scheduler.groups import Hold
from paictl.scheduler.replay import Replayer
from paictl.scheduler.request import PodRequest
from tests.unit.cli.conftest import Paictl, paictl
from tests.unit.scheduler.support import config, gone, healthy, pod, run

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["paictl"]


def changes(found: Explanation) -> dict[ChangeKind, Change]:
    return {change.kind: change for change in found.changes}


def test_a_pod_that_can_run_is_told_where() -> None:
    found = explain(healthy(config(A={"NODE": 1})), pod("a", "A", 1))
    assert (found.views, found.changes) == ((), ())
    assert found.outcome is not None
    assert found.outcome.places == (("n0", (0,)),)
    assert render(found) == [
        "Pod default/a can run now: group default/a of VC A asks for 1 pod of 1 device (priority 0, guaranteed).",
        "  It would run on n0 [0].",
    ]


def test_the_groups_in_the_way_and_what_would_help() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 1}))
    run(engine, pod("small", "A", 2, priority=3))
    run(engine, pod("large", "A", 4, priority=5))
    run(engine, pod("tiny", "A", 1, priority=3))
    found = explain(engine, pod("late", "A", 4, priority=3))
    (view,) = found.views
    assert [(level.cell_type, level.free, level.total) for level in view.levels] == [
        ("NODE", 0, 2),
        ("SWITCH", 0, 4),
        ("GPU", 1, 8),
    ]
    assert [one.group for one in view.holders] == ["default/large", "default/small", "default/tiny"]
    assert (view.leaves.free, view.leaves.used, view.leaves.total) == (1, 7, 8)
    would = changes(found)
    assert [one.group for one in would[ChangeKind.END].groups] == ["default/tiny", "default/small"]
    assert would[ChangeKind.PRIORITY].priority == 4
    quota = would[ChangeKind.QUOTA].quota
    assert quota is not None
    assert (quota.number, quota.cell_type, quota.unpromised) == (1, "NODE", 1)
    assert would[ChangeKind.OPPORTUNISTIC].outcome.places == (("n2", (0, 1, 2, 3)),)
    assert ChangeKind.HEAL not in would
    assert list(would) == [ChangeKind.OPPORTUNISTIC, ChangeKind.QUOTA, ChangeKind.PRIORITY, ChangeKind.END]


def test_the_text_is_what_a_student_reads() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 2}))
    run(engine, pod("low", "A", 2, priority=1))
    run(engine, pod("high", "A", 2, priority=9))
    assert render(explain(engine, pod("new", "A", 4, priority=5))) == [
        "Pod default/new waits: group default/new of VC A asks for 1 pod of 4 devices (priority 5, guaranteed).",
        "1. Tried chain POOL of VC A: there is not enough room.",
        "   Promised: 1 cell of NODE, 0 of them free.",
        "   Devices (GPU): 4 needed; of 4: 2 used by weaker groups, 2 used by groups it may not preempt.",
        "   Completely free cells: 0 of 1 NODE, 0 of 2 SWITCH, 0 of 4 GPU.",
        "   Nodes: 1; 0 of 1 pod with 4 devices would fit (0 nodes with room).",
        "   In the way: default/high (2 devices, VC A, priority 9).",
        "There are unused devices, but they are not promised to VC A.",
        "Any one of these would let it run, least disturbing first:",
        "- run it as opportunistic (priority -1; others may preempt it): it would run on n1 [0,1,2,3].",
        "- promise VC A 1 more cell of POOL.NODE (1 not promised to any VC): it would run on n1 [0,1,2,3].",
        "- give it priority 10: it would preempt default/high, default/low, then run on n0 [0,1,2,3].",
        "- wait for default/high (2 devices, VC A, priority 9) to end: "
        "it would preempt default/low, then run on n0 [0,1,2,3].",
    ]


def test_the_largest_smaller_group_that_would_run_is_said_on_request() -> None:
    engine = healthy(config(A={"NODE": 2}, B={"NODE": 1}))
    run(engine, pod("tiny", "A", 1, priority=1))
    for asked, members, words in (
        (pod("gang", "A", 4, pods=2), ((4, 1),), "1 pod of 4 devices would run on n1 [0,1,2,3]."),
        (pod("gang", "A", 2, pods=4), ((2, 3),), "3 pods of 2 devices would run on n0 [2,3], n1 [0,1], n1 [2,3]."),
    ):
        found = explain(engine, asked)
        assert found.smaller is not None
        assert found.smaller.members == members
        assert render(found, full=True)[-1] == f"Smaller, it would not have to wait: {words}"
        assert render(found, full=True)[:-1] == render(found)
        assert from_data(to_data(found)) == found
    for uid, leaves in (("most", 3), ("more", 2)):
        run(engine, pod(uid, "A", leaves, priority=1))
    found = explain(engine, pod("one", "A", 4))
    assert found.smaller is not None
    assert found.smaller.members == ((2, 1),)
    assert explain(engine, replace(pod("two", "A", 4), members=((2, 1), (4, 1)))).smaller is None


def test_nodes_that_have_to_heal() -> None:
    engine = healthy(config(A={"NODE": 4}))
    for name in ("n1", "n2"):
        engine.observe(NodeHealth(name, healthy=False))
    found = explain(engine, pod("gang", "A", 4, pods=3))
    assert changes(found)[ChangeKind.HEAL].nodes == ("n1",)
    found = explain(engine, pod("gang", "A", 4, pods=4))
    assert changes(found)[ChangeKind.HEAL].nodes == ("n1", "n2")
    assert found.views[0].leaves.bad + found.views[0].leaves.doomed == 8


def test_devices_that_have_to_heal() -> None:
    engine = healthy(config(A={"NODE": 4}))
    engine.observe(NodeHealth("n2", healthy=False))
    for device in (1, 3):
        engine.observe(LeafHealth("n1", device, healthy=False))
    heal = changes(explain(engine, pod("gang", "A", 4, pods=3)))[ChangeKind.HEAL]
    assert (heal.nodes, heal.devices) == (("n2",), ())  # one repair instead of two
    heal = changes(explain(engine, pod("gang", "A", 4, pods=4)))[ChangeKind.HEAL]
    assert (heal.nodes, heal.devices) == (("n2",), (("n1", 1), ("n1", 3)))
    assert str(change_text(heal)) == "make nodes (n2) and devices (n1 [1], n1 [3]) healthy again"
    engine.observe(NodeHealth("n2", healthy=True))
    engine.observe(LeafHealth("n1", 3, healthy=True))
    found = explain(engine, pod("gang", "A", 4, pods=4))
    assert any(line.startswith("- make device n1 [1] healthy again: it would run on n0") for line in render(found))
    assert from_data(to_data(found)) == found


def test_mig_instances_are_named_as_containers_get_them() -> None:
    divided = config(A={"NODE": 4})
    skus = {"GPU": {"gpu": 1, "cpu": 1, "memory": "1Gi", "migInstances": 2}}
    divided = {**divided, "physicalCluster": {**divided["physicalCluster"], "skuTypes": skus}}
    engine = healthy(divided)
    found = explain(engine, pod("a", "A", 3))
    assert render(found)[1] == "  It would run on n0 [0:0,0:1,1:0]."
    assert from_data(to_data(found)) == found
    engine.observe(LeafHealth("n1", 3, healthy=False))
    found = explain(engine, pod("gang", "A", 4, pods=4))
    assert any(line.startswith("- make device n1 [1:1] healthy again: it would run") for line in render(found))
    assert from_data(to_data(found)) == found


def test_doomed_cells_are_told_from_bad_ones() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 3}))
    engine.observe(NodeHealth("n1", healthy=False))
    engine.observe(NodeHealth("n2", healthy=False))
    found = explain(engine, pod("gang", "B", 4, pods=3))
    assert (found.views[0].leaves.doomed, found.views[0].leaves.free) == (4, 8)
    assert found.views[0].promises[0].doomed == 1
    assert any("1 on bad hardware only" in line for line in render(found))
    assert changes(found)[ChangeKind.HEAL].nodes == ("n1",)


def test_suggestions_in_the_way() -> None:
    engine = healthy(config(A={"NODE": 1}))
    found = explain(engine, pod("a", "A", 4, ignore_suggested=False), suggested=[])
    assert list(changes(found)) == [ChangeKind.ANY_NODE]


def test_a_quota_that_could_never_hold_it_is_said_to() -> None:
    found = explain(healthy(config(A={"SWITCH": 2}, B={"NODE": 1})), pod("a", "A", 4))
    assert not found.views[0].ever
    assert "   This part of the VC's quota could not hold the group even if all of it was healthy and idle." in render(
        found
    )
    assert changes(found)[ChangeKind.QUOTA].quota is not None


def test_lazily_preempted_and_reserving_groups_are_named_for_what_they_are() -> None:
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 3}))
    run(engine, pod("victim", "A", 4, priority=1))
    run(engine, pod("taker", "A", 4, priority=5), Phase.PREEMPTING)
    found = explain(engine, pod("third", "A", 4, priority=5))
    assert found.views[0].leaves.reserved == 4
    assert [(one.group, one.hold) for one in found.views[0].holders] == [("default/taker", Hold.PREEMPTING)]
    assert changes(found)[ChangeKind.END].groups[0].group == "default/taker"


def test_more_quota_goes_first_to_a_gang_that_lost_its_guarantee() -> None:
    """It asks for its guarantee again after the restart that more quota needs: a cell alone would be for it."""
    engine = healthy(config(A={"NODE": 1}, B={"NODE": 1}))
    run(engine, pod("lazy", "A", 4, lazy_preemption=True))
    run(engine, pod("taker", "A", 4, priority=5))
    assert engine.state.groups.by_name["default/lazy"].virtual is None
    quota = changes(explain(engine, pod("late", "A", 4)))[ChangeKind.QUOTA].quota
    assert quota is not None
    assert quota.number == 2


def test_an_opportunistic_pod_is_told_who_uses_the_cluster() -> None:
    engine = healthy(config(A={"NODE": 4}))
    for name in ("a", "b", "c", "d"):
        run(engine, pod(name, "A", 4, priority=2))
    found = explain(engine, pod("opp", "A", 2, priority=-1))
    assert found.views[0].vc == ""
    assert [one.group for one in changes(found)[ChangeKind.END].groups] == ["default/a"]
    assert changes(found)[ChangeKind.PRIORITY].priority == 3
    gone(engine, "a")
    assert explain(engine, pod("opp", "A", 2, priority=-1)).outcome is not None


def test_the_data_is_json_and_has_no_empty_fields_in_changes() -> None:
    engine = healthy(config(A={"NODE": 1}))
    run(engine, pod("low", "A", 4, priority=1))
    data = json.loads(json.dumps(to_data(explain(engine, pod("new", "A", 4, priority=1)))))
    assert data["decision"] == "wait"
    kinds = {change["kind"]: set(change) for change in data["changes"]}
    assert kinds["groups end"] == {"kind", "groups", "smallest", "outcome"}
    assert kinds["priority"] == {"kind", "priority", "smallest", "outcome"}


# --- pods of a stream of operations


def schedule(uid: str, vc: str, leaves: int, priority: int = 0, **fields: object) -> dict[str, object]:
    spec = {"virtualCluster": vc, "priority": priority, "leafCellNumber": leaves, **fields}
    return {"op": "schedule", "pod": {"uid": uid, "name": f"{uid}-name", "spec": spec}, "phase": "Filtering"}


STORY: list[dict[str, object]] = [
    {"op": "nodes", "names": ["n0", "n1", "n2", "n3"], "healthy": True},
    schedule("one", "A", 4, 1, lazyPreemptionEnable=True),
    {"op": "add_allocated", "uid": "one"},
    schedule("two", "A", 4, 1),
    schedule("two", "A", 4, 1),
    schedule("bad", "A", 4, 5000),
    schedule("short", "B", 4, 3),
    {"op": "add_allocated", "uid": "short"},
    {"op": "delete_allocated", "uid": "short"},
    schedule("solid", "B", 4, 3),
    {"op": "add_allocated", "uid": "solid"},
    {**schedule("eager", "B", 4, 7), "phase": "Preempting"},
    schedule("later", "C", 4, 3),
]


def told(*more: dict[str, object]) -> PodHistory:
    from paictl.cells.spec import ClusterSpec

    history = PodHistory(Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1}, B={"NODE": 1}, C={"NODE": 1}))))
    history.run(enumerate((*STORY, *more), 1))
    return history


@pytest.mark.parametrize(
    ("word", "situation", "since"),
    [
        ("one", PodSituation.RUNNING, 3),
        ("one-name", PodSituation.RUNNING, 3),
        ("default/one-name", PodSituation.RUNNING, 3),
        ("two", PodSituation.WAITING, 4),
        ("bad", PodSituation.REFUSED, 6),
        ("short", PodSituation.GONE, 9),
        ("solid", PodSituation.RUNNING, 11),
        ("eager", PodSituation.PREEMPTING, 12),
        ("later", PodSituation.READY, 13),
    ],
)
def test_every_situation_is_told(word: str, situation: PodSituation, since: int) -> None:
    found = report(told(), word)
    assert (found.situation, found.since) == (situation, since)
    assert report_lines(found)
    assert json.loads(json.dumps(report_data(found)))["situation"] == situation


@pytest.mark.parametrize(
    ("operation", "word", "situation", "since"),
    [
        ({"op": "restart"}, "two", PodSituation.WAITING, 4),
        ({"op": "restart", "lost": ["one"]}, "one", PodSituation.GONE, 14),
        ({"op": "restart", "lost": ["two"]}, "two", PodSituation.GONE, 14),
        ({"op": "delete_unallocated", "uid": "two"}, "two", PodSituation.GONE, 14),
        ({"op": "delete_unallocated", "uid": "bad"}, "bad", PodSituation.GONE, 14),
        ({**schedule("one", "A", 4, 5000), "phase": "Preempting"}, "one", PodSituation.RUNNING, 3),
        ({**schedule("two", "A", 4, 1), "suggested": 5}, "two", PodSituation.REFUSED, 14),
        ({"op": "schedule", "pod": {"name": "late"}}, "late", PodSituation.REFUSED, 14),
    ],
)
def test_what_comes_later_is_told(operation: dict[str, object], word: str, situation: PodSituation, since: int) -> None:
    found = report(told(operation), word)
    assert (found.situation, found.since) == (situation, since)
    assert report_lines(found)


def test_who_preempts_is_told_on_both_sides() -> None:
    assert report_lines(report(told(), "solid"))[-1] == (
        "  It is being preempted: default/eager-name waits for its devices."
    )
    assert report_lines(report(told(), "eager"))[1].startswith("  It would preempt default/solid-name, then run on")


def test_a_lazily_preempted_pod_is_told_so() -> None:
    done: dict[str, object] = {"op": "add_allocated", "uid": "taker"}
    assert report_lines(report(told(schedule("taker", "A", 4, 5), done), "one"))[1] == (
        "  It lost its guarantee to default/taker-name (lazy preemption) and keeps running without one."
    )


def test_an_unknown_pod_gets_a_suggestion() -> None:
    with pytest.raises(PaictlError) as caught:
        report(told(), "eagr")
    assert caught.value.hint is not None
    assert "eager" in caught.value.hint


def test_the_command_says_it_in_text_and_json(tmp_path: Path, paictl: Paictl) -> None:
    import yaml

    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config(A={"NODE": 1}, B={"NODE": 1}, C={"NODE": 1})))
    (tmp_path / "ops.jsonl").write_text("\n".join(map(json.dumps, STORY)))
    words = ("scheduler", "explain", "--config", str(tmp_path / "c.yaml"), str(tmp_path / "ops.jsonl"))
    done = paictl(*words, "two")
    assert done.code == 1
    assert done.out.startswith("Pod default/two-name waits: ")
    done = paictl(*words, "one", "-o", "json")
    assert (done.code, json.loads(done.out)["node"]) == (0, "n0")
    done = paictl(*words, "onee")
    assert done.code == 2
    assert "did you mean one" in done.err
    assert paictl(*words[:-1], str(tmp_path / "none.jsonl"), "one").code == 2


def test_a_gang_that_fits_only_in_another_order_is_told_so() -> None:
    data = {
        "physicalCluster": {
            "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
            "physicalCells": [{"cellType": "NODE", "cellAddress": name} for name in ("n1", "n2")],
        },
        "virtualClusters": {
            "a": {"virtualCells": [{"cellType": "NODE.GPU", "cellNumber": 2}, {"cellType": "NODE", "cellNumber": 1}]}
        },
    }
    gang = PodRequest("p", "default/p", "a", 0, 4, "g", ((1, 2), (4, 1)))
    found = explain(healthy(data), gang)
    assert [view.by_order for view in found.views] == [True]
    assert any("not in the order in which nodes are filled: smallest pods first" in line for line in render(found))
    larger = explain(healthy(data), replace(gang, members=((1, 3), (4, 1))))
    assert [(view.by_order, view.ever) for view in larger.views] == [(False, False)]


def test_the_end_of_a_sibling_is_no_way_to_run() -> None:
    engine = healthy(config(A={"NODE": 1}))
    run(engine, pod("task-0", "A", 4))
    alone = explain(engine, pod("task-1", "A", 4))
    assert ChangeKind.END in [change.kind for change in alone.changes]
    found = explain(engine, pod("task-1", "A", 4), siblings=["default/task-0"])
    assert not any(
        one.group == "default/task-0" for change in found.changes for one in (*change.groups, *change.outcome.victims)
    )
    assert not {ChangeKind.END, ChangeKind.PRIORITY} & {change.kind for change in found.changes}
