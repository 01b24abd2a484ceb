"""The readers on rows that follow the documentation of each format, including bad rows."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.job import BadRow, Deadline, DeadlineKind, Job, Share, Trace, TraceStatus
from paictl.sim.traces.load import FORMATS, detected_format, load
from paictl.sim.traces.native import COLUMNS, to_csv
from paictl.sim.traces.source import TraceError, TraceFile, source
from paictl.units import Millis


def read(folder: Path, text: str, name: str = "trace.csv", kind: str | None = None) -> Trace:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load(str(path), kind)


# --- our own

PROFILED = "training"
"""A field of traces that come with profiles."""


def test_every_field_of_a_job_has_a_column() -> None:
    assert len({column.field for column in COLUMNS}) == len(COLUMNS)
    assert {column.field for column in COLUMNS} == {field.name for field in fields(Job)} - {PROFILED}


RATE = st.floats(0.001, 8, allow_nan=False)
NAME = st.text(st.characters(categories=["L", "N"], include_characters=" -_/()\",.'"), min_size=1, max_size=12).map(
    str.strip
)
KEY = (
    st.text(st.characters(categories=["L", "N"], include_characters=' -_/().,"'), min_size=1, max_size=8)
    .map(str.strip)
    .filter(bool)
)
RATES = st.dictionaries(KEY, RATE, max_size=3)
COUNTS = st.dictionaries(st.integers(1, 64), RATE, max_size=3)
TIME = st.integers(0, 10**10).map(Millis)

JOBS = st.lists(
    st.builds(
        Job,
        id=NAME.filter(bool),
        submit=st.integers(0, 10**9).map(Millis),
        gpus=st.integers(1, 4096),
        work=TIME,
        user=NAME,
        vc=NAME,
        model=NAME,
        priority=st.integers(-9, 999),
        share=st.sampled_from(Share),
        urge=st.sampled_from(DeadlineKind),
        deadlines=st.dictionaries(TIME, st.floats(0, 10), max_size=4).map(
            lambda by_time: tuple(Deadline(at, by_time[at]) for at in sorted(by_time))
        ),
        elastic=st.none() | st.integers(1, 8).flatmap(lambda low: st.tuples(st.just(low), st.integers(low, 64))),
        scaling=COUNTS,
        throughput=RATES,
        sensitivity=RATES,
        spread=COUNTS,
        skew=st.floats(0, 1),
        gpu_util=st.floats(0, 1),
        gpu_mem=st.floats(0, 1),
        coloc=RATES,
        beside=RATES,
        gpu_type=st.none() | NAME.filter(bool),
        iterations=st.integers(0, 10**9),
        fate=st.sampled_from(TraceStatus),
        dies_after=st.none() | TIME,
        facts=RATES,
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda job: job.id,
)


@given(JOBS)
def test_what_is_written_is_read_back(jobs: list[Job]) -> None:
    data = to_csv(jobs).encode()
    read_back = [
        row[1]
        for row in detected_format(TraceFile("x", data)).read(TraceFile("x", data))
        if not isinstance(row, BadRow)
    ]
    assert read_back == jobs
    assert to_csv(read_back).encode() == data


def test_native_rows_that_are_wrong_are_counted_with_their_line(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        "id,submit,gpus,duration,deadlines,share\n"
        "a,0,1,10,,\n"
        "b,soon,1,10,,\n"
        "c,0,0,10,,\n"
        "d,0,1,-5,,\n"
        "\n"
        "e,0,1,10,20=1;10=2,\n"
        "f,0,1,10,,best\n"
        "g,0,1\n"
        "a,5,1,10,,\n"
        "h,0,2.5,10,,\n"
        "i,0.0015,2,1e3,30=1,opportunistic\n",
    )
    assert [job.id for job in trace.jobs] == ["a", "i"]
    assert trace.jobs[1] == Job(
        "i", Millis(2), 2, Millis(1_000_000), share=Share.OPPORTUNISTIC, deadlines=(Deadline(Millis(30_000), 1.0),)
    )
    assert [(row.line, row.message) for row in trace.bad] == [
        (3, "submit is 'soon', not a number"),
        (4, "a job needs at least 1 device, not 0"),
        (5, "duration is -5, which is negative"),
        (7, "deadlines must be in order of time"),
        (8, "share is 'best', not one of guaranteed, opportunistic"),
        (9, "3 values in 6 columns"),
        (10, "job 'a' already exists"),
        (11, "gpus is '2.5', not a whole number"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,submit,gpus,duration,colour\na,0,1,1,red\n", "no column 'colour'"),
        ("id,submit,gpus,duration,id\na,0,1,1,b\n", "two columns 'id'"),
        ("id,submit,gpus,duration\na,0,none,1\n", "contains no job: 1 rows, the first: gpus is 'none'"),
        ("id,submit,gpus,duration\n", "has no job"),
        ("", "is empty"),
        (" \n", "is empty"),
        ("hello\nworld\n", "not in a format"),
        ("id,submit,gpu,duration\na,0,1,10\n", "the first line lacks a column: gpus"),
        ("id,submit,gpus,duration\nx,0,1,1e30\n", "not a number"),
        ("id,submit,gpus,duration\nx,0,1,99999999999\n", "hundred years"),
    ],
)
def test_a_file_without_any_job_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=said) as refused:
        read(tmp_path, text)
    assert str(tmp_path) in str(refused.value)
    assert refused.value.hint


def test_a_format_that_does_not_exist_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no format 'tirsias'") as refused:
        read(tmp_path, "x", kind="tirsias")
    assert refused.value.hint == "did you mean 'tiresias'?"


# --- sources of traces

TEXT = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,0,606,vgg19,164,30\n"


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_a_trace_in_an_archive_in_an_archive_is_the_same_trace(tmp_path: Path) -> None:
    plain = read(tmp_path, TEXT)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    inner = archive({"./deep/a.csv": TEXT.encode(), "deep/b.csv": b"x"})
    (tmp_path / "all.tar.gz").write_bytes(archive({"one/a.csv": TEXT.encode(), "two/a.csv": b"x", "in.tar.gz": inner}))
    for name in ("t.csv.gz", "all.tar.gz/one/a.csv", "all.tar.gz:one/a.csv", "all.tar.gz/in.tar.gz/a.csv"):
        trace = load(f"{tmp_path}/{name}")
        assert (trace.jobs, trace.sha256) == (plain.jobs, plain.sha256)
    for name, problem in {
        "all.tar.gz": "archive of 3 files",
        "all.tar.gz/a.csv": "is there 2 times",
        "all.tar.gz/c.csv": "holds no",
        "nothing.csv": "no such file",
        "t.tar.gz/x": "no such file",
        "": "is a folder",
    }.items():
        with pytest.raises(TraceError, match=problem):
            load(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\x1f\x8b123", "cannot be unpacked"), (b"id,submit,gpus,duration\n\xff,0,1,1\n", "not valid UTF-8")],
)
def test_a_damaged_file_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(data)
    with pytest.raises(TraceError, match=said):
        load(str(tmp_path / "x.csv"))
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(TraceError, match="is not an archive"):
        load(str(tmp_path / "x.tar.gz/a"))


# --- formats whose files we could not get: rows as they are documented


def test_philly_log(tmp_path: Path) -> None:
    server = {"ip": "m47", "gpus": [f"gpu{n}" for n in range(8)]}
    entry = {
        "status": "Killed",
        "vc": "ee9e8c",
        "jobid": "application_1",
        "user": "ce2f4c",
        "submitted_time": "2017-10-07 01:11:39",
        "attempts": [
            {"start_time": "2017-10-07 01:12:09", "end_time": "2017-10-07 01:13:23", "detail": [server]},
            {"start_time": "2017-10-07 01:13:30", "end_time": "2017-10-09 06:53:12", "detail": [server, server]},
            {"start_time": "2017-10-09 07:00:00", "end_time": None, "detail": [server]},
        ],
    }
    never = entry | {"jobid": "application_2", "attempts": []}
    later = entry | {"jobid": "application_3", "submitted_time": "2017-10-07 01:11:49", "status": "Pass"}
    trace = read(tmp_path, json.dumps([entry, never, {"jobid": 1}, later], indent=2), "cluster_job_log")
    assert trace.format == "philly-log"
    first, second = trace.jobs
    assert first == Job(
        "application_1",
        Millis(0),
        16,
        Millis((74 + 2 * 86400 + 5 * 3600 + 39 * 60 + 42) * 1000),
        user="ce2f4c",
        vc="ee9e8c",
        fate=TraceStatus.KILLED,
    )
    assert (second.submit, second.fate) == (10_000, TraceStatus.PASSED)
    text = (tmp_path / "cluster_job_log").read_text().splitlines()
    assert [row.message.split(":")[0] for row in trace.bad] == [
        "no attempt with a start, an end and devices",
        "is not a job of cluster_job_log",
    ]
    assert all(text[row.line - 1].strip() == "{" for row in trace.bad)


def test_helios_and_acme(tmp_path: Path) -> None:
    helios = read(
        tmp_path,
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
        "1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
        "1425514,uzqls,vcpDC,0,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0\n",
    )
    assert helios.format == "helios"
    assert [(job.submit, job.gpus, job.work, job.fate) for job in helios.jobs] == [
        (0, 1, 36_848_000, TraceStatus.PASSED),
        (26_000, 4, 249_000, TraceStatus.FAILED),
    ]
    assert [row.line for row in helios.bad] == [4]
    acme = read(
        tmp_path,
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "5778432,u5907,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,"
        "2023-03-01 00:20:51+08:00,117,32,936.0\n"
        "5778469,u5907,1,8,128,Pretrain,COMPLETED,2023-02-28 16:23:58+00:00,x,x,2693,13,21544.0\n",
    )
    assert acme.format == "acme"
    assert [(job.submit, job.vc, job.work) for job in acme.jobs] == [
        (0, "Other", 117_000),
        (336_000, "Pretrain", 2_693_000),
    ]


def test_alibaba(tmp_path: Path) -> None:
    spot = read(
        tmp_path,
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
        "239255,13,A10,20,1,1,0,2764799,HP\n437260,57,A100-SXM4-80GB,15,1,16,9589663,41060,Spot\n",
    )
    assert spot.format == "alibaba-spot"
    assert [(job.gpus, job.gpu_type, job.share) for job in spot.jobs] == [
        (1, "A10", Share.GUARANTEED),
        (16, "A100-SXM4-80GB", Share.OPPORTUNISTIC),
    ]
    jobs = "j1,i1,u1,Terminated,4550879.0,4551416.0\nj2,i2,u1,Failed,4550880,4550890\nj3,i3,u1,Running,4550881,\n"
    with pytest.raises(TraceError, match=r"needs pai_task_table.csv beside it"):
        read(tmp_path, jobs, "pai_job_table.csv")
    (tmp_path / "pai_task_table.csv").write_text(
        "j1,ps,1.0,Terminated,1,2,600,29.2,,MISC\nj1,worker,3.0,Terminated,1,2,600,29.2,50.0,MISC\n"
        "j2,ps,1.0,Terminated,1,2,600,29.2,,MISC\nj3,worker,1.0,Running,1,2,600,29.2,100,V100\n"
    )
    pai = read(tmp_path, jobs, "pai_job_table.csv")
    assert [(job.id, job.gpus, job.work) for job in pai.jobs] == [("j1", 2, 537_000)]
    assert [row.message for row in pai.bad] == ["job j2 requests no GPU", "end_time is empty"]


def test_what_stands_in_another_file_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="table with the time of a step"):
        read(tmp_path, "LM\tpython\tx\t--steps\t1\t10\t1\t1\t-1.0\t0\n", "a.trace")
    with pytest.raises(TraceError, match="the profile with the durations"):
        read(
            tmp_path,
            '{"0": {"arrival": 7, "gpus": 2, "id": 0, "minimal_utility": 0.4, "size": "1", "type": "x"}}',
            "a.json",
        )
    with pytest.raises(TraceError, match="no profile of 'cifar10'"):
        read(tmp_path, "name,time,application,num_replicas,batch_size\nc-0,53,cifar10,6,2048\n")


def test_every_format_is_documented() -> None:
    assert len({kind.name for kind in FORMATS}) == len(FORMATS)
    assert all(kind.title and kind.unit and kind.columns and kind.origin for kind in FORMATS)
    assert {kind.name for kind in FORMATS if not kind.published} == {
        "philly-log",
        "helios",
        "acme",
        "alibaba-pai",
        "alibaba-spot",
    }


def packed_row(rows: int) -> bytes:
    return b"id,submit,duration,gpus\n" + b"1,0,1,1\n" * rows


@pytest.mark.parametrize(
    ("name", "inner", "packed"),
    [
        ("t.csv.gz", "", lambda: gzip.compress(packed_row(200_000))),
        ("t.csv.xz", "", lambda: lzma.compress(packed_row(200_000), preset=0)),
        ("t.tar.gz", "/t.csv", lambda: archive({"t.csv": packed_row(200_000)})),
        ("long.gz", "", lambda: gzip.compress(b"x" * 40_000_000)),
        ("long.tar.gz", "/t.csv", lambda: archive({"t.csv": b"x" * 40_000_000})),
    ],
    ids=["csv.gz", "csv.xz", "tar.gz", "long.gz", "long.tar.gz"],
)
def test_what_unpacks_to_more_than_a_trace_can_be_is_refused(
    tmp_path: Path, name: str, inner: str, packed: Callable[[], bytes]
) -> None:
    path = tmp_path / name
    path.write_bytes(packed())
    with pytest.raises(TraceError, match="unpacks to far more") as refused:
        source(f"{path}{inner}")
    assert str(refused.value.where).endswith(f"{name}{inner}")


def test_a_trace_that_is_packed_well_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(packed_row(90_000)))
    assert source(str(path)).data == packed_row(90_000)


# --- Shockwave

SPEEDS = "model,batch_size,gpus,steps_per_second\nLM,10,1,10\nLM,20,1,10\nA3C,,1,0.0\n"
SHOCKWAVE = "job,submit,model,batch_size,steps,gpus,mode,samples_per_epoch,epochs,batch_by_epoch\n"


def shockwave(folder: Path, *rows: str) -> Trace:
    (folder / "throughputs_v100.csv").write_text(SPEEDS, encoding="utf-8")
    return read(folder, SHOCKWAVE + "".join(f"{row}\n" for row in rows))


def test_shockwave_plays_each_job_alone_in_rounds(tmp_path: Path) -> None:
    trace = shockwave(
        tmp_path,
        "a,5,LM,10,2000,1,static,10000,2,10x2",  # 2,000 steps at 10 a second
        "b,0,LM,10,3000,1,gns,10000,3,10x1 20x2",  # after 120 s in its second epoch, which counts as done: 500 steps
        "c,0,LM,20,500,1,gns,10000,1,20x1 10x1",  # never smaller
    )
    assert trace.format == "shockwave"
    assert {job.id: (job.submit, job.work) for job in trace.jobs} == {
        "a": (5000, 200_000),
        "b": (0, 170_000),
        "c": (0, 50_000),
    }
    facts = trace.jobs[1].facts
    assert [facts[f"switch.1.{field}"] for field in ("at", "batch", "epoch")] == [120.0, 20.0, 2.0]
    assert (facts["epochs"], facts["batch.20.epoch_seconds"], facts["profile.1.epochs"]) == (3.0, 50.0, 2.0)


def test_shockwave_says_what_is_wrong_with_a_row(tmp_path: Path) -> None:
    trace = shockwave(
        tmp_path,
        "a,0,LM,10,100,1,static,1000,1,10x1",
        "b,0,LM,10,100,1,often,1000,1,10x1",
        "c,0,LM,10,100,1,gns,1000,1,10",
        "d,0,LM,10,100,2,gns,1000,1,10x1",
    )
    assert [(bad.line, bad.message) for bad in trace.bad] == [
        (3, "mode 'often' is not one of static, accordion, gns"),
        (4, "batch_by_epoch has '10'; write BATCHxEPOCHS"),
        (5, "LM with batch size 10 on 2 devices was not measured"),
    ]
    (tmp_path / "throughputs_v100.csv").write_text("model,batch_size,gpus,steps_per_second\nLM,ten,1,10\n")
    with pytest.raises(TraceError, match="is not a row of model") as caught:
        load(str(tmp_path / "trace.csv"))
    assert caught.value.where == f"{tmp_path / 'throughputs_v100.csv'}:2"
    (tmp_path / "throughputs_v100.csv").unlink()
    with pytest.raises(TraceError, match="is missing"):
        load(str(tmp_path / "trace.csv"))


def test_what_shockwave_knows_of_a_job_goes_through_native_csv(tmp_path: Path) -> None:
    trace = shockwave(tmp_path, "b,0,LM,10,3000,1,gns,10000,3,10x1 20x2")
    again = read(tmp_path, to_csv(trace.jobs), "native.csv")
    assert again.jobs[0].facts == trace.jobs[0].facts
