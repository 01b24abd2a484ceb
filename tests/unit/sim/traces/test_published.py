"""The readers on the published files, against independent counts (policies.md, part C)."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest

from paictl.sim.job import DeadlineKind, Trace
from paictl.sim.traces.load import load
from paictl.sim.traces.profiles import samples, spread_rates, step_times, throughputs, topology
from paictl.sim.traces.source import TraceError, members, source
from tests.conftest import ROOT

FOLDER = ROOT.parent / "shared" / "traces"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the published traces are not here: ../shared/traces")

ITP = {1: 1595, 2: 5778, 3: 3011, 4: 15802, 5: 3629, 6: 2396, 7: 12699, 8: 13047, 9: 11134, 10: 260}


def read(name: str) -> Trace:
    return load(str(FOLDER / name))


def hours(trace: Trace) -> float:
    return sum(job.gpus * job.work for job in trace.jobs) / 3_600_000


def sizes(trace: Trace) -> dict[int, int]:
    return dict(sorted(collections.Counter(job.gpus for job in trace.jobs).items()))


@pytest.mark.parametrize("name", ["philly.tar.gz/philly.csv", "philly.tar.gz/philly.csv.gz"])
def test_philly(name: str) -> None:
    trace = read(name)
    assert (trace.format, len(trace.jobs), trace.bad) == ("philly", 82_247, ())
    assert round(hours(trace)) == 978_078
    counted = sizes(trace)
    assert {size: counted[size] for size in (1, 2, 4, 8, 16)} == {1: 76_627, 2: 1_818, 4: 1_870, 8: 1_643, 16: 199}
    assert max(counted) == 128
    assert collections.Counter(job.vc for job in trace.jobs).most_common(1) == [("6214e9", 41_226)]
    assert len({job.vc for job in trace.jobs}) == 15
    assert round(sum(job.work for job in trace.jobs) / 82_247 / 1000) == 13_136
    # 2017-09-04 10:30:41 to 2017-12-22 08:02:11, the first at 0
    assert min(job.submit for job in trace.jobs) == 0
    assert max(job.submit for job in trace.jobs) == ((108 * 24 + 21) * 3600 + 31 * 60 + 30) * 1000


def test_philly_by_vc_adds_up() -> None:
    names = [str(inner) for inner in members(str(FOLDER / "philly.tar.gz")) if "per_vc_pcs/trace_" in inner]
    traces = [read(f"philly.tar.gz/{inner}") for inner in names]
    assert sum(len(trace.jobs) for trace in traces) == 109_532
    assert all(trace.format == "philly-pcs" and not trace.bad for trace in traces)
    assert {trace.jobs[0].vc for trace in traces} >= {"6214e9", "51b7ef"}


def test_itp_raw_and_with_deadlines() -> None:
    raw = {n: read(f"elasticflow.tar.gz/elasticflow/raw-traces.tar.gz/cluster{n:02}.csv") for n in ITP}
    assert {n: len(trace.jobs) for n, trace in raw.items()} == ITP
    assert sum(len(trace.jobs) for trace in raw.values()) == 69_351
    assert round(sum(map(hours, raw.values()))) == 1_632_720
    more = read("elasticflow.tar.gz/elasticflow-traces.tar.gz/cluster06.csv")
    assert hours(more) == hours(raw[6])
    assert {job.urge for job in more.jobs} == {DeadlineKind.STRICT}
    first = read("elasticflow.tar.gz/elasticflow-traces.tar.gz/cluster01.csv").jobs[0]
    assert (first.submit, first.deadlines[0].time, first.gpus) == (1_932_025_000, 1_933_904_000, 64)
    assert len(read("elasticflow.tar.gz/elasticflow-traces.tar.gz/195job.csv").jobs) == 195
    assert [len(read(f"elasticflow.tar.gz/{name}.csv").jobs) for name in ("elasticVpollux_e", "philly_103959")] == [
        195,
        876,
    ]


@pytest.mark.parametrize(
    ("name", "jobs", "empty", "urges"),
    [
        ("SLO", 30_735, 205, {DeadlineKind.STRICT: 30_940}),
        ("MIX1", 30_756, 184, {DeadlineKind.BEST_EFFORT: 9_216, DeadlineKind.STRICT: 21_724}),
        ("MIX2", 30_746, 194, {DeadlineKind.BEST_EFFORT: 3_139, DeadlineKind.SOFT: 18_525, DeadlineKind.STRICT: 9_276}),
    ],
)
def test_chronus_in_minutes_without_the_jobs_that_ask_for_nothing(
    name: str, jobs: int, empty: int, urges: dict[DeadlineKind, int]
) -> None:
    trace = read(f"chronus.tar.gz/trace_job_Philly_{name}.csv")
    assert (trace.format, len(trace.jobs), len(trace.bad)) == ("chronus", jobs, empty)
    assert {row.message for row in trace.bad} == {"num_gpu is 0, less than 1"}
    counted = collections.Counter(job.urge for job in trace.jobs)
    assert all(abs(counted[urge] - number) <= empty for urge, number in urges.items())
    spans = sorted(job.work for job in trace.jobs)
    assert spans[len(spans) // 2] in (59 * 60_000, 60 * 60_000)  # 60 with those that ask for nothing
    assert 255 < sum(spans) / len(spans) / 60_000 < 265
    assert all(
        len(job.deadlines) == (4 if job.urge is DeadlineKind.SOFT else job.urge is DeadlineKind.STRICT)
        for job in trace.jobs
    )


def test_the_first_bad_row_of_chronus_is_where_it_says() -> None:
    name = "chronus.tar.gz/trace_job_Philly_SLO.csv"
    lines = source(str(FOLDER / name)).text().splitlines()
    assert all(lines[row.line - 1].split(",")[2] == "0" for row in read(name).bad)


def test_chronus_slows_down_what_is_spread() -> None:
    rates = spread_rates(source(str(FOLDER / "chronus.tar.gz/model_info.json")))
    assert round(rates["vgg16", 8][2], 3) == 0.572
    assert round(rates["alexnet", 4][2], 3) == 0.397
    job = next(
        job for job in read("chronus.tar.gz/trace_job_Philly_SLO.csv").jobs if (job.model, job.gpus) == ("vgg16", 8)
    )
    assert job.spread == rates["vgg16", 8]


@pytest.mark.parametrize(("number", "jobs"), [(1, 1494), (2, 5755), (3, 992), (4, 2638)])
def test_muri_in_milliseconds(number: int, jobs: int) -> None:
    trace, together = read(f"muri.tar.gz/trace{number}.csv"), read(f"muri.tar.gz/trace{number}_pr.csv")
    assert (trace.format, len(trace.jobs), len(together.jobs)) == ("muri", jobs, jobs)
    assert {job.submit for job in together.jobs} == {0}
    assert hours(trace) == hours(together)
    if number == 1:
        assert trace.jobs[1].submit == 201_694_000


def test_tiresias() -> None:
    sixty, derived = read("tiresias.tar.gz/60_job.csv"), read("derived.tar.gz/tiresias_like_480_job.csv")
    assert sizes(sixty) == {1: 30, 2: 10, 4: 10, 8: 10}
    assert round(sum(job.work for job in sixty.jobs) / 60 / 1000) == 178
    assert sizes(derived) == {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
    assert {job.skew for job in derived.jobs if job.model == "vgg16"} == {0.743}
    assert [len(samples(source(str(FOLDER / f"tiresias.tar.gz/yarn-gput{n}.csv")))) for n in (1000, 10000)] == [
        1001,
        9999,
    ]


def test_gavel() -> None:
    big, small = read("gavel.tar.gz/max_min_fairness.trace"), read("gavel.tar.gz/minimize_makespan.trace")
    assert (sizes(big), sizes(small)) == ({1: 59, 2: 19, 4: 18}, {1: 71, 2: 6, 4: 23})
    table = throughputs(source(str(FOLDER / "gavel.tar.gz/simulation_throughputs.json")))
    assert len({job for _, job in table.alone}) == 83
    assert len(table.workers) == 6
    job = big.jobs[0]
    kind = (job.model, job.gpus)
    assert job.work == round(job.iterations * 1000 / table.alone["v100", kind])
    assert job.throughput["K80"] == table.alone["k80", kind] / table.alone["v100", kind]
    vc = read("gavel.tar.gz/gavel/msr/seed=0/51b7ef.trace")
    assert vc.jobs[1].submit == 58_417_000


def test_pollux_has_a_hundred_and_sixty_jobs_a_workload_and_what_they_need() -> None:
    loads = {"": 160, "-0.5": 80, "-1.5": 240, "-2.0": 320, "-realistic": 160}
    for load_name, jobs in loads.items():
        trace = read(f"pollux.tar.gz/pollux/workloads{load_name}/workload-6.csv")
        assert (len(trace.jobs), trace.bad) == (jobs, ())
    near = source(str(FOLDER / "pollux.tar.gz/pollux/workloads/workload-6.csv"))
    times = step_times(near, "../traces/cifar10")
    assert times is not None
    assert times.step((1,), 32) == pytest.approx((0.0427886962890625, 0.0004995360016822816))
    middle = times.step((1,), 38.5)
    assert middle is not None
    assert middle[0] == pytest.approx((0.0427886962890625 + 0.05048525333404541) / 2)
    assert times.step((1,), 10**6) is None
    assert step_times(near, "../traces/nothing") is None


def test_sc17() -> None:
    for number in (100, 1000, 5000, 10000):
        trace = read(f"topology_sc17.tar.gz/workloads-{number}.json")
        assert len(trace.jobs) + len(trace.bad) == number
        assert not trace.bad
    table = topology(source(str(FOLDER / "topology_sc17.tar.gz/prof_from_experiments.json")))
    assert table.alone["bvlc_alexnet", "1", 2] == (127.415, 159.115)
    job = next(
        job
        for job in read("topology_sc17.tar.gz/workloads-100.json").jobs
        if (job.model, job.gpus) == ("bvlc_alexnet/1", 2)
    )
    assert job.work == 127_415
    assert job.sensitivity["node"] == pytest.approx(127.415 / 159.115)
    assert job.beside["bvlc_alexnet/1*2"] == pytest.approx(127.415 / 167.87)
    assert "bvlc_alexnet/1*1" not in job.beside, "beside one with one device nobody measured it"


def test_sc17_with_all_jobs_in_one_line(tmp_path: Path) -> None:
    jobs = {
        str(i): {"id": i, "arrival": i, "gpus": 1, "type": "a", "size": "1", "minimal_utility": 0.5} for i in range(3)
    }
    runs = {"1": {"num_gpus": {"1": {"intra-socket": 10, "inter-socket": 12}}}}
    profile = {"solo": {"a": runs}, "collocation": {}}
    (tmp_path / "prof_from_experiments.json").write_text(json.dumps(profile))
    (tmp_path / "jobs.json").write_text(json.dumps(jobs, separators=(",", ":")))
    assert [job.submit for job in load(str(tmp_path / "jobs.json")).jobs] == [0, 1000, 2000]


def test_synergy() -> None:
    assert len(read("synergy.tar.gz/srtf.log").jobs) == 100
    assert read("synergy.tar.gz/static_100job_6_3_1100.0").jobs[1].submit == 1


def test_a_file_that_is_no_trace_is_refused() -> None:
    with pytest.raises(TraceError, match="not in a format"):
        read("tiresias.tar.gz/n1g4.csv")
    with pytest.raises(TraceError, match="archive of") as refused:
        read("tiresias.tar.gz")
    assert "60_job.csv" in str(refused.value.hint)
