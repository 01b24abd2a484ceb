"""Shares of devices: room, the choice of node and device, dropped jobs, and freed shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.actions import PolicyError, Start, Trigger
from paictl.sim.cluster import Cluster, ClusterShape, ClusterShapeError, Node
from paictl.sim.engine import Simulation
from paictl.sim.generate import inflated
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job, ResourceRequest, TraceJobError
from paictl.sim.policies.base import Parameters, Setup
from paictl.sim.policies.fgd import Fragmentation, typical
from paictl.sim.policies.packing import Numbers, Packing
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.run import Ending, RunResult
from paictl.sim.simulate import simulate
from paictl.sim.specify import cluster_named
from paictl.sim.traces.lines import LONGEST
from paictl.sim.traces.load import load
from paictl.sim.traces.source import TraceError
from paictl.sim.view import JobView
from paictl.units import Millis

FOREVER = LONGEST // 1000
"""Jobs that take a hundred years never leave."""
POLICIES = ["random", "bestfit", "dotprod", "gpupacking", "gpuclustering", "fgd"]


def pod(
    name: str, at: int, milli: int = 1000, gpus: int = 1, cpu: int = 1000, seconds: int = FOREVER, **more: object
) -> Job:
    return Job(
        name,
        Millis(at),
        gpus,
        Millis(seconds * 1000),
        gpu_milli=milli,
        cpu_milli=cpu,
        memory_mib=1024,
        **more,  # type: ignore[arg-type]
    )


def nodes(*devices: int, cpu: int = 64_000, kinds: str = "") -> ClusterShape:
    return ClusterShape(
        "nodes",
        tuple(
            Node(f"n{place}", count, kinds[place] if kinds else "gpu", cpu_milli=cpu, memory_mib=262_144)
            for place, count in enumerate(devices)
        ),
    )


def where(result: RunResult) -> dict[str, tuple[int, ...]]:
    return {entry.job: entry.devices for entry in result.log if entry.what == "start"}


@pytest.mark.parametrize("policy", POLICIES)
def test_shares_fill_a_device_and_one_too_many_is_dropped(policy: str) -> None:
    jobs = [pod("a", 0, 600), pod("b", 1, 400), pod("c", 2, 1)]
    result = simulate(jobs, nodes(1), policy, log=True, check=Invariants())
    assert where(result) == {"a": (0,), "b": (0,)}
    assert [outcome.ending for outcome in result.outcomes] == [Ending.UNFINISHED, Ending.UNFINISHED, Ending.STOPPED]
    assert (result.counters["allocation_ratio"], result.counters["dropped"]) == (100.0, 1)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_job_held_is_free_when_it_ends_and_nobody_is_slowed(policy: str) -> None:
    jobs = [pod("a", 0, 600, seconds=10), pod("b", 1, 400, seconds=10), pod("c", 11_000, 1000, seconds=5)]
    result = simulate(jobs, nodes(1), policy, check=Invariants())
    assert [outcome.end for outcome in result.outcomes] == [10_000, 10_001, 16_000]


def test_cpus_memory_types_and_one_node_for_all_devices_bind() -> None:
    spec = nodes(2, 2, cpu=4000, kinds="xy")
    jobs = [
        pod("fills the CPUs of y", 0, gpus=0, cpu=4000, gpu_type="y"),
        pod("either", 1, gpu_types=("x", "y")),
        pod("none is left", 2, gpu_type="y"),
        pod("more than a node", 3, gpus=3),
        pod("x", 4, gpu_type="x", cpu=3000),
    ]
    jobs[0] = pod("cpus", 0, gpus=0, cpu=4000)
    result = simulate(jobs, spec, "bestfit", log=True, check=Invariants())
    endings = {outcome.id: outcome.ending for outcome in result.outcomes}
    assert endings["cpus"] is Ending.UNFINISHED
    assert endings["more than a node"] is Ending.STOPPED
    assert sum(ending is Ending.STOPPED for ending in endings.values()) == 2, "one node has no CPU left"


def test_best_fit_and_packing_take_the_device_in_use() -> None:
    jobs = [pod("a", 0, 500), pod("b", 1, 300)]
    for policy in ("bestfit", "gpupacking", "gpuclustering"):
        places = where(simulate(jobs, nodes(2, 2), policy, log=True))
        assert places["a"] == places["b"], policy


def test_clustering_puts_sizes_apart() -> None:
    jobs = [pod("share", 0, 500), pod("whole", 1, gpus=1), pod("share2", 2, 600), pod("whole2", 3, gpus=1)]
    places = where(simulate(jobs, nodes(4, 4), "gpuclustering", log=True))
    node = {name: devices[0] // 4 for name, devices in places.items()}
    assert node["share"] == node["share2"] != node["whole"] == node["whole2"]


def test_fgd_keeps_whole_devices_for_those_that_usually_need_them() -> None:
    """Typical requests are whole devices: a share on a device in use adds no fragment, on any other device it does."""
    jobs = [pod("a", 0, 500), pod("b", 1, 300), *(pod(str(number), 2 + number) for number in range(40))]
    for seed in range(5):
        places = where(simulate(jobs, nodes(2, 2), "fgd", seed=seed, log=True))
        assert places["a"] == places["b"]
        assert len(places) == 5, "three devices are whole"


def test_fragments_are_what_the_usual_requests_cannot_use() -> None:
    whole, share = ResourceRequest(1000, 1000, 1, ()), ResourceRequest(2000, 500, 1, ("x",))
    fragments = Fragmentation([whole, whole, share, share])
    step = fragments.step(64_000)
    assert fragments.weight == 4, "values are sums over four requests"
    assert fragments.of("x", step, (1000, 400)) == 2 * 400 + 2 * 400
    assert fragments.of("y", step, (1000, 400)) == 2 * 400 + 2 * 1400, "the share runs on x only"
    assert fragments.of("x", fragments.step(1999), (1000, 400)) == 2 * 400 + 2 * 1400, "too few CPUs for the share"
    assert fragments.of("x", step, (600, 600)) == 2 * 1200, "no whole device"


def test_a_loss_of_nothing_is_nothing_to_the_last_digit() -> None:
    """With sums of fractions it was sometimes -1e-13, which scores 49, not 50: half a point of allocation on cpu250."""
    counts = {1: 3, 2: 5, 3: 11}
    requests = [ResourceRequest(cpu, 500 + cpu, 1, ()) for cpu, count in counts.items() for _ in range(count)]
    fragments = Fragmentation(requests)
    full = fragments.of("x", fragments.step(3), (400, 70, 1))
    assert [fragments.of("x", fragments.step(cpu), (400, 70, 1)) for cpu in range(3)] == [full] * 3
    assert isinstance(full, int)


def test_typical_requests_cover_most() -> None:
    many = [ResourceRequest(1, 0, 0, ())] * 90 + [ResourceRequest(2, 0, 0, ())] * 6 + [ResourceRequest(3, 0, 0, ())] * 4
    assert typical(many) == [(many[0], 90), (many[90], 6)]


# --- the job model


@pytest.mark.parametrize(("milli", "gpus"), [(0, 1), (1001, 1), (500, 2)])
def test_a_share_is_of_one_device(milli: int, gpus: int) -> None:
    with pytest.raises(TraceJobError, match="1 to 999 thousandths of one device"):
        pod("a", 0, milli, gpus)


def test_other_policies_give_a_share_a_device_and_leave_out_jobs_without() -> None:
    jobs = [pod("a", 0, 300, seconds=10), pod("b", 0, 300, seconds=10), pod("cpu", 0, gpus=0, seconds=10)]
    result = simulate(jobs, nodes(1), "fifo", check=Invariants())
    assert [(outcome.id, outcome.end) for outcome in result.outcomes] == [("a", 10_000), ("b", 20_000)]
    with pytest.raises(ParameterError, match="several device types"):
        simulate([pod("a", 0, gpu_types=("x", "y"))], nodes(1), "fifo")


@settings(max_examples=60)
@given(
    policy=st.sampled_from(POLICIES),
    rows=st.lists(
        st.tuples(
            st.integers(0, 20),
            st.sampled_from([(0, 1000), (1, 100), (1, 333), (1, 700), (1, 1000), (2, 1000)]),
            st.integers(1, 30_000),
            st.integers(1, 12),
        ),
        min_size=1,
        max_size=20,
    ),
)
def test_devices_are_never_filled_beyond_themselves(
    policy: str, rows: list[tuple[int, tuple[int, int], int, int]]
) -> None:
    jobs = [
        pod(str(number), at, milli, gpus, cpu, seconds) for number, (at, (gpus, milli), cpu, seconds) in enumerate(rows)
    ]
    result = simulate(jobs, nodes(1, 2, 4), policy, check=Invariants())
    assert {outcome.ending for outcome in result.outcomes} <= {Ending.PASSED, Ending.STOPPED, Ending.IMPOSSIBLE}


# --- the workload


def test_inflated_asks_for_the_ratio_and_appends_copies() -> None:
    jobs = [pod(str(number), number, 500) for number in range(10)]
    inflated_jobs = inflated(jobs, 10_000, 1.3, 7)
    assert sum(job.milli for job in inflated_jobs) == 13_000
    assert {job.id for job in inflated_jobs[:10]} == {job.id for job in jobs}, "first all jobs of the trace"
    assert [job.submit for job in inflated_jobs] == list(range(26))
    assert inflated_jobs == inflated(jobs[::-1], 10_000, 1.3, 7) != inflated(jobs, 10_000, 1.3, 8)
    assert sum(job.milli for job in inflated(jobs, 10_000, 0.2, 7)) == 2000
    with pytest.raises(TraceError, match="no job requests a device"):
        inflated([pod("cpu", 0, gpus=0)], 1000, 1.3, 0)


PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p1,1000,10,1,460,
p2,2000,10,0,0,
p3,1,1,2,1000,A|B
p4,1,1,1,1000,A
"""
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1000,2,A\nn2,32000,1000,0,\nn3,8000,1000,4,B\n"


def test_pods_and_nodes_of_openb_are_read(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(PODS, encoding="utf-8")
    (tmp_path / "nodes.csv").write_text(NODES, encoding="utf-8")
    trace = load(str(tmp_path / "pods.csv"))
    assert trace.format == "openb"
    assert [job.request for job in trace.jobs] == [
        ResourceRequest(1000, 460, 1, ()),
        ResourceRequest(2000, 0, 0, ()),
        ResourceRequest(1, 1000, 2, ("A", "B")),
        ResourceRequest(1, 1000, 1, ("A",)),
    ]
    cluster = Cluster(cluster_named(str(tmp_path / "nodes.csv")))
    assert [(node.name, node.devices, node.cpu_milli) for node in cluster.nodes] == [("n1", 2, 64_000), ("n3", 4, 8000)]
    (tmp_path / "nodes.csv").write_text(NODES + "n4,64000,1000,many,A\n", encoding="utf-8")
    with pytest.raises(ClusterShapeError, match="gpu is 'many', not a number") as caught:
        cluster_named(str(tmp_path / "nodes.csv"))
    assert caught.value.where == f"{tmp_path / 'nodes.csv'}:5"


def test_a_request_for_more_devices_than_are_whole_can_use_none() -> None:
    pair = Fragmentation([ResourceRequest(1000, 1000, 2, ())])
    assert pair.of("x", pair.step(64_000), (1000, 400)) == 1400
    assert pair.of("x", pair.step(64_000), (1000, 1000, 400)) == 400


class Careless(Packing):
    """Gives every job the first device."""

    id, title, paper = "careless", "", ""

    def scores(self, job: JobView, nodes: Numbers) -> Numbers:  # noqa: ARG002 - as the base class
        return nodes

    def plan(self, moment: Trigger) -> None:
        for job in moment.arrived:
            self.act(Start(job, (0,)))


@pytest.mark.parametrize("milli", [401, 1000])
def test_the_engine_lets_no_share_be_given_twice(milli: int) -> None:
    jobs, spec = [pod("a", 0, 600), pod("b", 1, 400), pod("c", 2, milli)], nodes(1)
    with pytest.raises(PolicyError, match="device 0 is not free for job c"):
        Simulation(Cluster(spec), Careless(Parameters(), Setup(Cluster(spec))), jobs, lambda _: None).run()
