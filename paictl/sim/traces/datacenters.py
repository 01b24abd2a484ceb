"""Logs of data centres whose files we could not get: read by their documented columns, tested on made-up rows."""

from __future__ import annotations

from paictl.i18n import text
from paictl.sim.job import BadRow, Job, Share, TraceStatus
from paictl.sim.traces.base import Format, Rows, has
from paictl.sim.traces.lines import MILLISECOND, SECOND, Line, RowError, table
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis

_FATES = {
    "CANCELLED": TraceStatus.KILLED,
    "FAILED": TraceStatus.FAILED,
    "TIMEOUT": TraceStatus.FAILED,
    "NODE_FAIL": TraceStatus.FAILED,
    "Killed": TraceStatus.KILLED,
    "Failed": TraceStatus.FAILED,
}


def _slurm(line: Line) -> Job:
    """Helios and Acme log what Slurm knows; CPU-only jobs have 0 GPUs and are left out, as in the papers."""
    return Job(
        id=line.text("job_id"),
        submit=line.date("submit_time"),
        gpus=line.whole("gpu_num", 1),
        work=line.span("duration", SECOND, 1),
        vc=line.get("vc") or line.get("type"),
        user=line.get("user"),
        fate=_FATES.get(line.get("state"), TraceStatus.PASSED),
    )


def _spot(line: Line) -> Job:
    gpus = line.whole("gpu_request", 1) * line.whole("worker_num", 1)
    return Job(
        id=line.text("job_name"),
        submit=line.span("submit_time", SECOND),
        gpus=gpus,
        work=line.span("duration", SECOND, 1),
        vc=line.get("organization"),
        gpu_type=line.get("gpu_model") or None,
        share=Share.OPPORTUNISTIC if line.text("job_type") == "Spot" else Share.GUARANTEED,
    )


def _read_slurm(source: TraceFile) -> Rows:
    return table(source, _slurm)


def _read_spot(source: TraceFile) -> Rows:
    return table(source, _spot)


# --- Alibaba PAI 2020: a job is the sum of its tasks, which are in another file

_JOBS = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
_TASKS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)


def _read_pai(source: TraceFile) -> Rows:
    """Jobs of ``pai_job_table.csv`` with devices from ``pai_task_table.csv`` beside it; neither has a heading.

    Tasks request hundredths of devices; a job gets the sum over its tasks, rounded up to whole devices.
    """
    tasks_file = source.sibling("pai_task_table.csv")
    if tasks_file is None:
        raise TraceError(
            "needs pai_task_table.csv beside it, which lists the devices", where=source.name, hint="unpack both tables"
        )
    hundredths_of: dict[str, int] = {}
    for task in table(tasks_file, _task, columns=() if _headed(tasks_file) else _TASKS):
        if not isinstance(task, BadRow):
            name, hundredths = task[1]
            hundredths_of[name] = hundredths_of.get(name, 0) + hundredths

    def row(line: Line) -> Job:
        name = line.text("job_name")
        hundredths = hundredths_of.get(name, 0)
        if hundredths < 1:
            raise RowError(text("job {name} requests no GPU", name=name))
        submit = line.span("start_time", SECOND)
        return Job(
            id=name,
            submit=submit,
            gpus=-(-hundredths // 100),
            work=Millis(line.span("end_time", SECOND, submit + 1) - submit),
            user=line.get("user"),
            fate=TraceStatus.FAILED if line.get("status") == "Failed" else TraceStatus.PASSED,
        )

    return table(source, row, columns=() if _headed(source) else _JOBS)


def _task(line: Line) -> tuple[str, int]:
    return line.text("job_name"), line.whole("inst_num", 0) * line.span("plan_gpu", MILLISECOND)


def _headed(source: TraceFile) -> bool:
    return source.data.startswith(b"job_name")


HELIOS = Format(
    "helios",
    "SenseTime's Helios, in the forms of Lucid and HeliosArtifact",
    "s, dates",
    "job_id, gpu_num, submit_time, duration, vc; user, state",
    "S-Lab-System-Group/HeliosData, CC-BY-4.0",
    has("job_id", "gpu_num", "submit_time", "duration", "vc"),
    _read_slurm,
    published=False,
)
ACME = Format(
    "acme",
    "Shanghai AI Lab's Acme (Seren, Kalos)",
    "s, dates",
    "job_id, gpu_num, submit_time, duration, type (becomes the VC); user, state",
    "InternLM/AcmeTrace, CC-BY-4.0",
    has("job_id", "gpu_num", "submit_time", "duration", "type", without=("vc",)),
    _read_slurm,
    published=False,
)
SPOT = Format(
    "alibaba-spot",
    "Alibaba 2026, high priority and spot",
    "s",
    "job_name, gpu_request, worker_num, submit_time, duration, job_type; organization, gpu_model",
    "alibaba/clusterdata, cluster-trace-v2026-spot-gpu",
    has("job_name", "gpu_request", "worker_num", "job_type"),
    _read_spot,
    published=False,
)
PAI = Format(
    "alibaba-pai",
    "Alibaba PAI 2020",
    "s",
    "pai_job_table.csv (with or without heading), pai_task_table.csv beside it",
    "alibaba/clusterdata, cluster-trace-gpu-v2020, CC-BY-4.0",
    lambda head: head.columns.issuperset(_JOBS) or "pai_job_table" in head.name,
    _read_pai,
    published=False,
)
