from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec
from paictl.sim import promises
from paictl.sim.cluster import Cluster, Node
from paictl.sim.cluster import ClusterShape as Nodes
from paictl.sim.job import Job
from paictl.sim.promises import PolicyRun, PromiseKind, private_nodes, tenants, worse_off
from paictl.sim.simulate import simulate
from paictl.sim.specify import hived_cluster
from paictl.sim.traces.handwritten import jobs_from as trace_from
from paictl.sim.traces.source import TraceError
from paictl.units import Millis

NODES = 4
DATA = {
    "physicalCluster": {
        "cellTypes": {
            "QUAD": {"childCellType": "GPU", "childCellNumber": 4},
            "NODE": {"childCellType": "QUAD", "childCellNumber": 2, "isNodeLevel": True},
            "POOL": {"childCellType": "NODE", "childCellNumber": NODES},
        },
        "physicalCells": [
            {"cellType": "POOL", "cellChildren": [{"cellAddress": f"n{number}"} for number in range(NODES)]}
        ],
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 2}]},
        "b": {
            "virtualCells": [
                {"cellType": "POOL.NODE", "cellNumber": 1},
                {"cellType": "POOL.NODE.QUAD", "cellNumber": 2},
            ]
        },
    },
}


def play(kind: PromiseKind, jobs: tuple[Job, ...], data: dict[str, Any] = DATA) -> PolicyRun:
    spec = ClusterSpec.from_mapping(data)
    return promises.play(kind, jobs, spec, hived_cluster(spec, "x", json.dumps(data)))


def job(name: str, vc: str, at: str, runs: str, devices: int, pods: int = 1) -> dict[str, Any]:
    return {"name": name, "vc": vc, "at": at, "runs": runs, "devices": devices, "pods": pods}


MIXED = trace_from(
    {
        "jobs": [
            *(job(f"{vc}{i}", vc, f"{i}m", "8h" if vc == "b" else "1h", 4) for i in range(4) for vc in ("b", "a")),
            job("big", "a", "90m", "1h", 8, 2),
        ]
    }
)


def waits(kind: PromiseKind, trace: tuple[Job, ...]) -> dict[str, int]:
    return {ran.job.id: ran.waited // 60_000 for ran in play(kind, trace).jobs if ran.waited}


def test_counts_let_a_neighbour_scatter_what_is_free_and_cells_do_not() -> None:
    assert waits(PromiseKind.QUOTA, MIXED) == {"big": 6 * 60 + 31}
    assert waits(PromiseKind.CELLS, MIXED) == waits(PromiseKind.PRIVATE, MIXED) == {}
    quota, private = play(PromiseKind.QUOTA, MIXED), play(PromiseKind.PRIVATE, MIXED)
    assert worse_off(quota, private) == ["a"]
    assert [(tenant.vc, tenant.blocked) for tenant in tenants(quota)] == [("b", 0), ("a", 1)]
    assert quota.pieces > play(PromiseKind.CELLS, MIXED).pieces


def test_under_cells_a_tenant_that_scatters_its_own_devices_waits_as_in_its_own_cluster() -> None:
    own = trace_from(
        {
            "jobs": [
                *(job(f"j{i}", "a", f"{i}m", "8h" if i % 2 else "1h", 4) for i in range(4)),
                job("big", "a", "90m", "1h", 8),
            ]
        }
    )
    assert waits(PromiseKind.CELLS, own) == waits(PromiseKind.PRIVATE, own) == {"big": 6 * 60 + 31}
    assert waits(PromiseKind.QUOTA, own) == {}


def test_a_job_above_the_free_count_waits_without_being_blocked() -> None:
    trace = trace_from({"jobs": [job("one", "a", "0", "1h", 8, 2), job("two", "a", "0", "1h", 8)]})
    for kind in PromiseKind:
        course = play(kind, trace)
        assert [(ran.waited, ran.despite) for ran in course.jobs] == [(0, 0), (3_600_000, 0)]
        assert [(tenant.wait, tenant.longest, tenant.completion) for tenant in tenants(course)] == [
            (1_800_000, 3_600_000, 5_400_000)
        ]


def test_ends_free_devices_before_arrivals_of_the_same_instant_take_them() -> None:
    trace = trace_from({"jobs": [job("one", "a", "0", "1h", 8, 2), job("two", "a", "1h", "1h", 8, 2)]})
    assert all(not waits(kind, trace) for kind in PromiseKind)


def test_best_fit_takes_the_fullest_node_that_has_room_and_all_pods_or_none() -> None:
    nodes = Nodes("", tuple(Node(name, size) for name, size in {"x": 8, "y": 4, "z": 8}.items()))
    small, gang, again = trace_from(
        {
            "jobs": [
                job("small", "a", "0", "1h", 3),
                job("gang", "a", "1m", "1h", 8, 2),
                job("again", "a", "2m", "1h", 3),
            ]
        }
    )
    run = simulate((small, gang, again), nodes, "quota", log=True)
    node_of = Cluster(nodes).node_of
    places = {entry.job: [node_of[device] for device in entry.devices] for entry in run.log if entry.what == "start"}
    assert places == {"small": [1] * 3, "gang": [0] * 8 + [2] * 8, "again": [1] * 3}
    # two whole nodes are free in number, but not together on two: the gang takes none of them
    pieces = trace_from({"jobs": [job("one", "a", "0", "1h", 5), job("gang", "a", "1m", "1h", 8, 2)]})
    assert simulate(pieces, nodes, "quota").outcomes[1].first_start == 3_600_000


def test_a_private_cluster_is_as_large_as_the_promise_and_cut_like_it() -> None:
    nodes = private_nodes(ClusterSpec.from_mapping(DATA))
    assert {vc: [(node.name, node.devices) for node in nodes] for vc, nodes in nodes.items()} == {
        "a": [("a-1", 8), ("a-2", 8)],
        "b": [("b-1", 8), ("b-2", 4), ("b-3", 4)],
    }


JOBS = st.lists(
    st.builds(
        lambda at, runs, shape: (at, runs, *shape),
        st.integers(0, 9),
        st.integers(1, 9),
        st.sampled_from([(1, 1), (2, 1), (4, 1), (8, 1), (4, 2), (8, 2)]),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(JOBS, JOBS)
def test_under_cells_it_does_not_matter_what_the_other_tenant_does(
    mine: list[tuple[int, int, int, int]], others: list[tuple[int, int, int, int]]
) -> None:
    """VC safety, seen from outside: the waiting times of a tenant do not depend on its neighbours."""
    own = [job(f"m{i}", "a", f"{at}m", f"{runs}m", *shape) for i, (at, runs, *shape) in enumerate(mine)]
    foreign = [job(f"o{i}", "b", f"{at}m", f"{runs}m", min(shape[0], 4)) for i, (at, runs, *shape) in enumerate(others)]
    if not own:
        return
    alone = play(PromiseKind.CELLS, trace_from({"jobs": own}))
    shared = play(PromiseKind.CELLS, trace_from({"jobs": foreign + own}))
    assert [ran.waited for ran in alone.jobs] == [ran.waited for ran in shared.jobs if ran.job.vc == "a"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "jobs: expected a list"),
        ({"jobs": []}, "jobs: expected a list"),
        ({"jobs": ["x"]}, r"jobs\[0\]: expected a job"),
        ({"jobs": [{"vc": "a", "runs": "1h"}]}, r"jobs\[0\].name"),
        ({"jobs": [job("x", "a", "0", "1h", 1) | {"gpus": 1}]}, "unknown key 'gpus'"),
        ({"jobs": [job("x", "a", "0", "soon", 1)]}, r"jobs\[0\].runs: 'soon' is not a duration"),
        ({"jobs": [job("x", "a", "0", "infinity", 1)]}, r"jobs\[0\].runs: expected a finite duration"),
        ({"jobs": [job("x", "a", "0", "0s", 1)]}, r"jobs\[0\].runs: expected a finite duration"),
        ({"jobs": [job("x", "a", "0", "1h", 0)]}, r"jobs\[0\].devices"),
        ({"jobs": [job("x", "a", "0", "1h", 1)] * 2}, r"jobs\[1\].name: job 'x' already exists"),
    ],
)
def test_a_bad_trace_is_refused_with_the_place(data: object, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        trace_from(data)


@pytest.mark.parametrize("kind", list(PromiseKind))
def test_a_job_that_can_never_run_is_refused(kind: PromiseKind) -> None:
    with pytest.raises(TraceError, match="'huge' can never run"):
        play(kind, trace_from({"jobs": [job("huge", "a", "0", "1h", 8, 3)]}))
    with pytest.raises(TraceError, match="no virtual cluster 'c'"):
        play(kind, trace_from({"jobs": [job("lost", "c", "0", "1h", 1)]}))


TWO_CHAINS: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "V-NODE": {"childCellType": "V100", "childCellNumber": 8, "isNodeLevel": True},
            "T-NODE": {"childCellType": "T4", "childCellNumber": 4, "isNodeLevel": True},
        },
        "physicalCells": [
            *({"cellType": "V-NODE", "cellAddress": f"v{number}"} for number in range(2)),
            {"cellType": "V-NODE", "cellAddress": "box", "pinnedCellId": "a-box"},
            *({"cellType": "T-NODE", "cellAddress": f"t{number}"} for number in range(2)),
        ],
    },
    "virtualClusters": {
        "a": {
            "virtualCells": [{"cellType": "V-NODE", "cellNumber": 1}, {"cellType": "T-NODE", "cellNumber": 2}],
            "pinnedCells": [{"pinnedCellId": "a-box"}],
        },
        "b": {"virtualCells": [{"cellType": "V-NODE", "cellNumber": 1}]},
    },
}


def on(kind: PromiseKind, *jobs: dict[str, Any]) -> dict[str, tuple[set[str], int, bool]]:
    """By job: its nodes, the minutes that it waited, and whether its tenant had enough devices by count meanwhile."""
    ran = play(kind, trace_from({"jobs": list(jobs)}), TWO_CHAINS).jobs
    return {view.job.id: (set(view.nodes), view.waited // 60_000, view.despite > 0) for view in ran}


def test_devices_of_several_types_are_promised_and_used_by_type() -> None:
    """`b` is promised no T4, and the devices of `a` are not summed up over its types."""
    jobs = [
        job("t1", "a", "0", "1h", 4) | {"type": "T4"},
        job("t2", "a", "1m", "1h", 4) | {"type": "T4"},
        job("t3", "a", "2m", "1h", 4) | {"type": "T4"},
        job("any", "b", "3m", "1h", 4),
    ]
    for kind in PromiseKind:
        placed = on(kind, *jobs)
        assert [placed[name][1] for name in ("t1", "t2", "t3", "any")] == [0, 0, 58, 0], kind
        assert placed["t3"][2] is False
    assert placed["t1"][0] | placed["t2"][0] == {"t0", "t1"}
    assert placed["any"][0] in ({"v0"}, {"v1"})


def test_a_pinned_cell_is_used_by_jobs_that_name_it_and_by_no_other() -> None:
    jobs = [
        job("first", "a", "0", "1h", 8) | {"type": "V100"},
        job("second", "a", "1m", "1h", 8) | {"type": "V100"},
        job("boxed", "a", "2m", "1h", 8) | {"pinned": "a-box", "type": "V100"},
    ]
    cells, quota = on(PromiseKind.CELLS, *jobs), on(PromiseKind.QUOTA, *jobs)
    assert cells["boxed"] == ({"box"}, 0, False)
    assert cells["second"][1:] == (59, True), "by count it had a node, which is pinned"
    assert [quota[name][1] for name in ("first", "second", "boxed")] == [0, 0, 58]
    course = play(PromiseKind.PRIVATE, trace_from({"jobs": jobs}), TWO_CHAINS)
    assert [ran.waited // 60_000 for ran in course.jobs] == [0, 0, 58], "its own cluster has two such nodes, too"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            job("x", "b", "0", "1h", 8) | {"pinned": "a-box"},
            r"jobs\[0\].pinned: virtual cluster b has no pinned cell 'a-box'",
        ),
        (
            job("x", "b", "0", "1h", 4) | {"type": "T4"},
            "'x' can never run: 4 T4 devices do not fit into the promise of b",
        ),
        (job("x", "a", "0", "1h", 8, 2) | {"type": "V100"}, "'x' can never run: 2 × 8 V100 devices"),
        (job("x", "a", "0", "1h", 8, 2) | {"pinned": "a-box"}, "do not fit into the promise of a/a-box"),
    ],
)
@pytest.mark.parametrize("kind", list(PromiseKind))
def test_a_job_that_no_chain_of_its_tenant_holds_is_refused(kind: PromiseKind, one: dict[str, Any], said: str) -> None:
    with pytest.raises(TraceError, match=said):
        play(kind, trace_from({"jobs": [one]}), TWO_CHAINS)


def test_a_job_without_pods_is_cut_as_its_tenants_cells_are() -> None:
    """Eight devices are two half nodes for `b`, and two small nodes where only T4 will do."""
    spec = ClusterSpec.from_mapping(DATA)
    shape = hived_cluster(spec, "x", json.dumps(DATA))
    run = simulate((Job("j", Millis(0), 16, Millis(1000), vc="b"),), shape, "hived")
    assert run.outcomes[0].first_start is None, "16 devices are not 8 and twice 4 in pods of 8"
    halves = {**DATA, "virtualClusters": {"b": {"virtualCells": [{"cellType": "POOL.NODE.QUAD", "cellNumber": 2}]}}}
    shape = hived_cluster(ClusterSpec.from_mapping(halves), "x", json.dumps(halves))
    assert simulate((Job("j", Millis(0), 8, Millis(1000), vc="b"),), shape, "hived").outcomes[0].first_start == 0
    shape = hived_cluster(ClusterSpec.from_mapping(TWO_CHAINS), "x", json.dumps(TWO_CHAINS))
    small = Job("j", Millis(0), 8, Millis(1000), vc="a", gpu_type="T4")
    for policy in ("hived", "quota"):
        assert simulate((small,), shape, policy).outcomes[0].first_start == 0, policy


def test_a_job_larger_than_the_cells_that_are_not_pinned_does_not_wait_for_the_pinned_one() -> None:
    """It runs on free devices outside its tenant's quota; it once waited forever."""
    shape = hived_cluster(ClusterSpec.from_mapping(TWO_CHAINS), "x", json.dumps(TWO_CHAINS))
    large = Job("j", Millis(0), 16, Millis(1000), vc="a", gpu_type="V100")
    assert simulate((large,), shape, "hived").outcomes[0].first_start == 0


def test_a_tenant_may_have_a_pinned_cell_and_nothing_else() -> None:
    only = {
        "a": TWO_CHAINS["virtualClusters"]["a"] | {"pinnedCells": []},
        "c": {"pinnedCells": [{"pinnedCellId": "a-box"}]},
    }
    data = {**TWO_CHAINS, "virtualClusters": only}
    (ran,) = play(
        PromiseKind.CELLS, trace_from({"jobs": [job("x", "c", "0", "1h", 8) | {"pinned": "a-box"}]}), data
    ).jobs
    assert (set(ran.nodes), ran.waited) == ({"box"}, 0)
