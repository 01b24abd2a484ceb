"""The HTTP surface: HiveD's paths and field names, health, and senders that mean no good."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from paictl.doors import server, views
from paictl.doors.metrics import count
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Caller, Harness, gang, served

VERBS = ("filter", "bind", "preempt")


@pytest.fixture
def caller(harness: Harness) -> Iterator[Caller]:
    with served(harness) as made:
        yield made


def test_the_paths_of_hived(caller: Caller, harness: Harness) -> None:
    made = gang("g", 1, 2)[0]
    (node,) = caller.filter(harness.create(made), NODES)["NodeNames"]
    assert caller.bind(made, node) == ""
    status, groups = caller.call("GET", "/v1/inspect/affinitygroups/")
    assert status == 200
    (item,) = groups["items"]
    assert item["metadata"] == {"name": "default/g"}
    assert item["status"] == {
        "vc": "A",
        "priority": 0,
        "state": "Allocated",
        "physicalPlacement": {node: [0, 1]},
        "virtualPlacement": {"A/0": ["A/0/0/0", "A/0/0/1"]},
        "allocatedPods": ["uid-g-0"],
    }
    assert caller.call("GET", "/v1/inspect/affinitygroups/default/g") == (200, item)
    (cell,) = caller.call("GET", "/v1/inspect/clusterstatus/physicalcluster")[1]
    assert cell["cellType"] == "POOL"
    assert len(caller.call("GET", "/v1/inspect/clusterstatus/virtualclusters/A")[1]) == 3
    assert set(caller.call("GET", "/v1/inspect/clusterstatus/virtualclusters/")[1]) == {"A", "B"}
    assert set(caller.call("GET", "/v1/inspect/clusterstatus")[1]) == {"physicalCluster", "virtualClusters"}
    assert "/v1/extender/bind" in caller.call("GET", "/")[1]["paths"]


def test_nothing_there_is_said_as_hived_says_it(caller: Caller) -> None:
    for method, path, status, said in (
        ("GET", "/nope", 404, "Path not found: /nope"),
        ("GET", "/v1", 404, "Path not found: /v1"),
        ("GET", "/v1/inspect/affinitygroups/none", 400, "Affinity group none does not exist"),
        ("GET", "/v1/inspect/clusterstatus/virtualclusters/Z", 400, "VC Z not found"),
        ("POST", "/v1/inspect/affinitygroups/", 400, "NotImplemented: POST: /v1/inspect/affinitygroups/"),
        ("DELETE", "/v1/inspect/clusterstatus", 400, "NotImplemented: DELETE: /v1/inspect/clusterstatus"),
        ("GET", "/v1/extender/filter", 400, "NotImplemented: GET: /v1/extender/filter"),
        ("GET", "/v1/explain/pods/default", 404, "NAMESPACE/NAME"),
        ("GET", "/v1/explain/pods/default/nobody", 400, "pod default/nobody is not known"),
    ):
        found, answer = caller.call(method, path)
        assert found == status, path
        assert answer.startswith("hivedscheduler: User Error: ")
        assert said in answer
    assert caller.call("GET", "/v1/inspect/affinitygroups/") == (200, {"items": None})


def test_explanations_picture_page_and_metrics(
    caller: Caller, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SHARE", 1.0)  # no pauses between explanations
    for made in gang("full", 3, 4):
        (node,) = caller.filter(harness.create(made), NODES)["NodeNames"]
        caller.bind(made, node)
    caller.filter(harness.create(gang("late", 1, 4)[0]), NODES)
    late = caller.call("GET", "/v1/explain/pods/default/late-0")[1]
    assert late["situation"] == "waiting"
    assert late["explanation"]["changes"]
    assert caller.call("GET", "/v1/explain/pods/default/full-0")[1]["devices"] == [0, 1, 2, 3]
    picture = caller.call("GET", "/v1/picture")[1]
    assert [(row["cell_type"], row["cells"], row["total"]) for row in picture["free"]] == [
        ("POOL", 0, 1),
        ("NODE", 1, 4),
        ("SWITCH", 2, 8),
        ("GPU", 4, 16),
    ]
    assert {job["key"]: job["state"] for job in picture["jobs"]} == {
        "default/full": "Running",
        "default/late": "Waiting",
    }
    assert [job["number"] for job in picture["jobs"]] == [1, 2]
    status, page = caller.call("GET", "/", headers={"Accept": "text/html"})
    assert status == 200
    assert "default/late" in page
    text = caller.call("GET", "/metrics")[1]
    for line in (
        'paictl_extender_decisions_total{kind="bind"} 3.0',
        'paictl_extender_decisions_total{kind="wait"} 1.0',
        'paictl_extender_cells{cell_type="NODE",level="3",state="Used",vc="A"} 3.0',
        'paictl_extender_cells{cell_type="NODE",level="3",state="Free",vc="B"} 1.0',
        'paictl_extender_cells{cell_type="SWITCH",level="2",state="Used",vc="A"} 6.0',
        'paictl_extender_cells{cell_type="GPU",level="1",state="Used",vc="A"} 12.0',
        'paictl_extender_cells{cell_type="GPU",level="1",state="Free",vc="B"} 4.0',
        'paictl_extender_cells{cell_type="GPU",level="1",state="Free",vc="A"} 0.0',
        'paictl_extender_guarantees_at_risk{vc="A"} 0.0',
        'paictl_extender_free_cells{cell_type="NODE",chain="POOL",level="3"} 1.0',
        'paictl_extender_free_devices{cell_type="NODE",chain="POOL",level="3"} 4.0',
        'paictl_extender_free_devices{cell_type="GPU",chain="POOL",level="1"} 0.0',
        'paictl_extender_packed_cells{cell_type="SWITCH",chain="POOL",level="2"} 2.0',
        'paictl_extender_pods{state="bound"} 3.0',
    ):
        assert line in text


def test_a_gang_that_waits_is_one_job(harness: Harness) -> None:
    for made in gang("full", 3, 4):
        harness.run(made)
    for made in gang("late", 2, 4):
        harness.ask(made)
    jobs = views.picture(harness.core, "c").jobs
    assert [(job.key, job.number) for job in jobs] == [("default/full", 1), ("default/late", 2)]


def test_an_explanation_is_in_the_language_of_its_reader_also_from_memory(
    caller: Caller, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SHARE", 1.0)  # no pauses between explanations
    for made in gang("full", 3, 4):
        (node,) = caller.filter(harness.create(made), NODES)["NodeNames"]
        caller.bind(made, node)
    caller.filter(harness.create(gang("late", 1, 4)[0]), NODES)
    harness.create(gang("alone", 2, 1, "B")[0])

    def told(pod: str, language: str = "") -> Any:
        path = f"/v1/explain/pods/default/{pod}"
        return caller.call("GET", path, headers={"Accept-Language": language} if language else {})[1]

    english = told("late-0")
    chinese = told("late-0", "zh-CN,zh;q=0.9,en;q=0.8")
    assert english["text"][0].startswith("Pod default/late-0 waits: group default/late of VC A asks for 1 pod")
    assert chinese["text"][0].startswith("pod default/late-0 在等待：")
    assert english["text"][1:] != chinese["text"][1:]
    assert english | {"text": []} == chinese | {"text": []}, "the rest is for programs"
    assert told("late-0", "fr") == told("late-0", "en") == told("late-0") == english
    assert told("late-0", "zh") == chinese
    assert told("full-0", "zh")["text"] == [
        "pod default/full-0 在节点 n0 上运行，设备 0,1,2,3（组 default/full）。",
        "  它有保证。",
    ]
    assert "它还在等同组的 1 个 pod：2 个中已出现 1 个（组 default/alone）" in told("alone-0", "zh")["text"][-1]
    assert "没有 pod default/nobody" in told("nobody", "zh")


def test_where_nothing_waits_and_nothing_is_free_there_is_a_number_all_the_same(
    caller: Caller,
) -> None:
    """What an alert compares with 0 has to be there: series that come and go would never be 0."""
    text = caller.call("GET", "/metrics")[1]
    assert 'paictl_extender_waiting_pods{reason="other"} 0.0' in text
    assert 'paictl_extender_cells{cell_type="NODE",level="3",state="Doomed",vc="A"} 0.0' in text
    assert 'paictl_extender_cells{cell_type="NODE",level="3",state="Used",vc="A"} 0.0' in text


def test_cells_used_in_part_are_counted_at_every_level(harness: Harness) -> None:
    harness.run(gang("part", 1, 1)[0])
    found = {key[1:]: number for key, number in count(harness.core).items() if key[0] == "A"}
    assert found == {
        ("NODE", "3", "Used"): 1,
        ("NODE", "3", "Free"): 2,
        ("SWITCH", "2", "Used"): 1,
        ("SWITCH", "2", "Free"): 5,
        ("GPU", "1", "Used"): 1,
        ("GPU", "1", "Free"): 11,
    }


def test_guarantees_at_risk_are_counted(caller: Caller, harness: Harness) -> None:
    harness.core.node_gone("n0")
    harness.core.node_gone("n1")  # two are left, and VC A was promised three
    text = caller.call("GET", "/metrics")[1]
    at_risk = [line for line in text.splitlines() if line.startswith("paictl_extender_guarantees_at_risk{")]
    assert sum(float(line.split()[1]) for line in at_risk) == 1
    assert 'paictl_extender_cells{cell_type="NODE",level="3",state="Doomed",vc="A"} 1.0' in text
    assert "paictl_extender_bad_nodes 2.0" in text


def test_who_does_not_lead_answers_nothing(caller: Caller, harness: Harness) -> None:
    assert caller.call("GET", "/readyz")[0] == 200
    harness.problem = "this process does not lead"
    assert caller.call("GET", "/healthz")[0] == 200
    assert caller.call("GET", "/readyz") == (503, "this process does not lead")
    assert caller.call("GET", "/v1/inspect/affinitygroups/")[0] == 503
    assert caller.filter(gang("g", 1, 1)[0], NODES)["Error"] == "this process does not lead"
    assert caller.bind(gang("g", 1, 1)[0], "n0") == "this process does not lead"
    body = {"Pod": gang("g", 1, 1)[0], "NodeNameToMetaVictims": {}}
    assert caller.call("POST", "/v1/extender/preempt", body)[0] == 503


def test_whole_nodes_instead_of_names(caller: Caller, harness: Harness) -> None:
    nodes = [{"metadata": {"name": name}} for name in NODES]
    body = {"Pod": harness.create(gang("g", 1, 4)[0]), "Nodes": {"items": nodes}}
    answer = caller.call("POST", "/v1/extender/filter", body)[1]
    assert answer["NodeNames"] is None
    assert len(answer["Nodes"]["items"]) == 1


def test_many_at_once_get_one_answer_each(harness: Harness) -> None:
    """Twelve pods for twelve devices and eight callers: nothing is given twice, nothing is lost."""
    made = [harness.create(one) for i in range(16) for one in gang(f"g{i}", 1, 1)]
    answers: list[str] = []
    with served(harness) as caller:

        def work(own: list[Any]) -> None:
            mine = Caller(caller.port)
            for one in own:
                names = mine.filter(one, NODES)["NodeNames"]
                if names:
                    answers.append(mine.bind(one, names[0]))
            mine.connection.close()

        threads = [threading.Thread(target=work, args=(made[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [""] * 12
    taken = [
        (one["spec"]["nodeName"], list(one["metadata"]["annotations"].values())[1])
        for one in made
        if "nodeName" in one["spec"]
    ]
    assert len(set(taken)) == 12


def test_a_new_term_is_not_shown_what_the_old_one_looked_like(caller: Caller, harness: Harness) -> None:
    """Both may have done as many things."""
    assert len(caller.call("GET", "/v1/inspect/clusterstatus/virtualclusters/A")[1]) == 3
    version = harness.core.book.engine.version
    harness.begin(spec(virtualClusters={"A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 1}]}}))
    harness.open(NODES)
    assert harness.core.book.engine.version == version
    assert len(caller.call("GET", "/v1/inspect/clusterstatus/virtualclusters/A")[1]) == 1
