"""Microsoft's ITP clusters (ElasticFlow, ASPLOS'23): the raw logs and the traces with models and deadlines."""

from __future__ import annotations

from paictl.sim.job import Deadline, DeadlineKind, Job
from paictl.sim.traces.base import FileHead, Format, Rows
from paictl.sim.traces.lines import SECOND, Line, table
from paictl.sim.traces.source import TraceFile


def _row(line: Line) -> Job:
    submit = line.span("submission_time" if line.get("submission_time") else "submit_time", SECOND)
    column = "deadline" if line.get("deadline") else "ddl"
    best = line.get("best_effort") == "1"
    deadlines = (Deadline(line.span(column, SECOND)),) if line.get(column) and not best else ()
    return Job(
        id=line.text("job_id"), submit=submit, gpus=line.whole("num_gpu", 1), work=line.span("duration", SECOND, 1),
        model=line.get("model_name"), deadlines=deadlines,
        urge=DeadlineKind.STRICT if deadlines else DeadlineKind.BEST_EFFORT, iterations=_iterations(line),
    )  # fmt: skip


def _iterations(line: Line) -> int:
    column = "num_iteration" if line.get("num_iteration") else "iteration"
    return line.whole(column, 0) if line.get(column) else 0


def _read(source: TraceFile) -> Rows:
    return table(source, _row)


def _tells(head: FileHead) -> bool:
    timed = {"submission_time"} <= head.columns or {"submit_time", "ddl"} <= head.columns
    return timed and {"job_id", "num_gpu", "duration"} <= head.columns


ITP = Format(
    "itp", "ITP clusters and ElasticFlow's artifact", "s",
    "job_id, submission_time or submit_time, num_gpu, duration; deadline or ddl (an instant), model_name, best_effort",
    "microsoft/elasticflow-traces, MIT; pkusys/ElasticFlow, Apache-2.0", _tells, _read,
)  # fmt: skip
