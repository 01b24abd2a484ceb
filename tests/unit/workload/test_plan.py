"""From jobs to groups and pods, and what can never run, case by case."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.decision import Bind, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth
from paictl.workload import pods
from paictl.workload.feasible import Judge
from paictl.workload.fields import JobError
from paictl.workload.job import Job
from paictl.workload.pods import GroupPlan, JobPlan, plan_job, short_name
from paictl.workload.supply import Supply, leaf_types
from tests.unit.workload.cases import Json, cases, complete_job, judge, load

DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def plan_of(case: Json) -> JobPlan:
    job = Job.from_mapping(complete_job(case.get("job")))
    return plan_job(job, judge(case["cluster"]).supply, case.get("user", "alice"))


def shown(group: GroupPlan) -> Json:
    """A group as cases write it: only what is not the default."""
    full = {"leafType": group.leaf_type, "pin": group.pinned_id, "lazy": group.lazy_preemption}
    return {"members": dict(group.members)} | {key: value for key, value in full.items() if value}


@pytest.mark.parametrize("path", cases("plan"), ids=lambda path: path.stem)
def test_plan_case(path: Path) -> None:
    case = load(path)
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(JobError) as caught:
            plan_of(case)
        wanted = expect["error"]
        assert caught.value.path == caught.value.where == wanted["path"]
        assert wanted["message"] in caught.value.message
        assert wanted.get("hint", "") in (caught.value.hint or "")
        return
    plan = plan_of(case)
    assert {pod.group.name: shown(pod.group) for pod in plan.pods()} == expect["groups"]
    assert plan.job.priority == expect.get("priority", plan.job.priority)
    assert [pod.name for pod in plan.pods()] == expect.get("pods", [pod.name for pod in plan.pods()])
    assert plan.spec(plan.roles[0].pod()) == expect.get("spec", plan.spec(plan.roles[0].pod()))
    check_refusal(judge(case["cluster"]), plan, expect.get("refusal"))


def check_refusal(judge: Judge, plan: JobPlan, wanted: Json | None) -> None:
    refusal = judge.refusal(plan)
    if wanted is None:
        assert refusal is None
        return
    assert refusal is not None
    assert (refusal.cause, refusal.message) == (wanted["cause"], wanted["message"])
    assert wanted["hint"] in refusal.hint
    assert str(refusal.error()) == f"taskRoles: can never run: {refusal.message}"


@pytest.mark.parametrize("path", [p for p in cases("plan") if "error" not in load(p)["expect"]], ids=lambda p: p.stem)
def test_pods_are_sound(path: Path) -> None:
    plan = plan_of(load(path))
    names = [pod.name for pod in plan.pods()]
    assert len(set(names)) == len({pod.uid for pod in plan.pods()}) == len(names)
    assert all(DNS_SUBDOMAIN.fullmatch(name) and len(name) <= 253 for name in names)
    for pod in plan.pods():
        request = plan.request(pod)
        group = pod.group
        assert (request.group, request.members, request.name) == (group.name, group.members, f"default/{pod.name}")
        again = pod.restarted(1)
        assert again.name == pod.name
        assert again.uid != pod.uid
        assert again.restarted(0) == pod
    assert plan == plan_of(load(path)), "the same job gives the same plan"
    groups = {pod.group.name: pod.group for pod in plan.pods()}
    assert sum(number for _, number in plan.groups) == len(groups)
    assert plan.tasks == len(names)
    assert plan.devices == sum(group.leaves for group in groups.values())


def test_a_plan_and_its_judgement_make_no_pod_of_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def uid(pod: str, incarnation: int) -> str:
        made.append(pod)
        return f"{pod}/{incarnation}"

    monkeypatch.setattr(pods, "_uid", uid)
    roles = {"worker": {"instances": 900}, "ps": {"instances": 2}}
    for gang in (True, False):
        job = complete_job({"taskRoles": roles, "extras": {"gangAllocation": gang, "hivedScheduler": {}}})
        judge("lab").refusal(plan_job(Job.from_mapping(job), judge("lab").supply, "alice"))
    assert len(made) <= 2 * len(roles)
    made.clear()
    small = complete_job({"taskRoles": {"w": {"instances": 8}}, "defaults": {"virtualCluster": "b"}})
    assert judge("mixed").refusal(plan_job(Job.from_mapping(small), judge("mixed").supply, "alice")) is None
    assert len(made) == 1, "what the scheduler was asked for"


def test_a_pod_is_the_same_whoever_asks_and_another_for_each_user() -> None:
    job, supply = Job.from_mapping(complete_job()), judge("lab").supply
    first, second = (plan_job(job, supply, user).pods()[0] for user in ("alice", "bob"))
    assert first.name != second.name
    assert first.uid == "322bcef0-434f-5643-8a47-62dc582fbbb8"


def test_a_long_name_is_cut_but_stays_unique() -> None:
    supply = judge("lab").supply
    names = [
        plan_job(Job.from_mapping(complete_job({"name": "x" * 254 + end})), supply, "alice").pods()[0].name
        for end in "ab"
    ]
    assert names[0] != names[1]
    assert len(names[0]) < 100


# --- feasibility against the scheduler itself

SIZES = st.integers(1, 5)


@st.composite
def clusters(draw: st.DrawFn) -> Json:
    """Nodes of 2 x 2 leaves in a pool, and a second chain of single nodes; VC ``vc`` gets a part of it."""
    nodes = draw(st.integers(2, 5))
    whole = draw(st.integers(0, nodes - 1))
    halves = draw(st.integers(0, 2 * (nodes - whole)))
    other = draw(st.integers(0, 2))
    cells = [("POOL.NODE", whole), ("POOL.NODE.HALF", halves), ("BOX", other)]
    return {
        "physicalCluster": {
            "skuTypes": {"G": {"gpu": 1, "cpu": 4, "memory": "8Gi"}, "H": {"gpu": 1, "cpu": 4, "memory": "8Gi"}},
            "cellTypes": {
                "HALF": {"childCellType": "G", "childCellNumber": 2},
                "NODE": {"childCellType": "HALF", "childCellNumber": 2, "isNodeLevel": True},
                "POOL": {"childCellType": "NODE", "childCellNumber": nodes},
                "BOX": {"childCellType": "H", "childCellNumber": 3, "isNodeLevel": True},
            },
            "physicalCells": [
                {"cellType": "POOL", "cellChildren": [{"cellAddress": f"n{i}"} for i in range(nodes)]},
                *({"cellType": "BOX", "cellAddress": f"b{i}"} for i in range(2)),
            ],
        },
        "virtualClusters": {"vc": {"virtualCells": [{"cellType": path, "cellNumber": n} for path, n in cells]}},
    }


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    roles = {
        f"r{i}": {"instances": draw(st.integers(1, 4)), "resourcePerInstance": {"gpu": gpu, "cpu": 1, "memoryMB": 1}}
        for i, gpu in enumerate(draw(st.lists(SIZES, min_size=1, max_size=3)))
    }
    hived: Json = {"jobPriorityClass": draw(st.sampled_from(["test", "oppo"]))}
    if draw(st.booleans()):
        sku = draw(st.sampled_from("GH"))
        hived["taskRoles"] = {name: {"skuType": sku} for name in roles}
    extras = {"gangAllocation": draw(st.booleans()), "hivedScheduler": hived}
    return complete_job({"defaults": {"virtualCluster": "vc"}, "taskRoles": roles, "extras": extras})


def healthy_engine(spec: ClusterSpec) -> Engine:
    engine = Engine.from_config(spec)
    for node in engine.state.physical.nodes:
        engine.observe(NodeHealth(node, healthy=True))
    return engine


@given(clusters(), jobs())
def test_a_plan_is_refused_exactly_if_some_group_has_no_place_in_the_empty_cluster(config: Json, data: Json) -> None:
    spec = ClusterSpec.from_mapping(config)
    supply = Supply.from_spec(spec)
    job = Job.from_mapping(data)
    own = leaf_types(supply.views("vc", opportunistic=job.opportunistic))
    sku = job.roles[0].wishes.sku_type
    if not own or (sku is not None and sku not in own):
        with pytest.raises(JobError):
            plan_job(job, supply, "alice")
        return
    plan = plan_job(job, supply, "alice")
    decisions = [healthy_engine(spec).plan(plan.request(pod)) for pod in plan.pods()]
    assert all(isinstance(decision, Bind | Wait) for decision in decisions)
    refusal = Judge(spec, supply).refusal(plan)
    assert (refusal is not None) == any(isinstance(decision, Wait) for decision in decisions)


def describe(views: Any) -> Iterator[tuple[str, int, int]]:
    for view in views:
        yield view.label, view.leaves, view.largest


def test_supply_has_a_view_per_chain_and_pinned_cell() -> None:
    supply = judge("mixed").supply
    assert list(describe(supply.vc("b"))) == [
        ("chain K80-POOL", 2, 2),
        ("chain V100-NODE", 8, 8),
        ("pinned cell PIN-B", 4, 4),
    ]
    assert list(describe(supply.chains)) == [
        ("chain K80-POOL", 20, 4),
        ("chain V100-NODE", 16, 8),
        ("chain CPU-NODE", 48, 16),
    ]


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("default/train-0a1b-worker-3", "train-0a1b-worker-3"),
        ("ann~train/default", "ann~train"),
        ("ann~train/readers", "ann~train/readers"),
        ("other/train-0", "other/train-0"),
    ],
)
def test_people_read_neither_the_one_namespace_nor_the_one_group(full: str, short: str) -> None:
    assert short_name(full) == short
