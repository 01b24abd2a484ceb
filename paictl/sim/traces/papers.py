"""Small formats of published traces, one row function each.

- Chronus' artifact (SoCC'21): in minutes, with up to four deadlines for a job and their values.
- Microsoft's ITP clusters (ElasticFlow, ASPLOS'23): the raw logs and the traces with models and deadlines.
- Pods of Alibaba's cluster with shared GPUs (openb, FGD's traces): requests for fractional GPUs, CPU and memory.
- Small deployment traces of Synergy (OSDI'22): number, model, arrival, steps, devices, without heading.
- The simulators of Tiresias (NSDI'19) and Muri (SIGCOMM'22), which began as a copy of it.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from paictl.i18n import text
from paictl.sim.job import NO_SCALING, WHOLE, Deadline, DeadlineKind, Job, Share
from paictl.sim.traces.base import FileHead, Format, Rows, has
from paictl.sim.traces.lines import LONGEST, MILLISECOND, MINUTE, SECOND, Line, RowError, span, table, whole
from paictl.sim.traces.profiles import skew, spread_rates
from paictl.sim.traces.source import TraceFile
from paictl.units import Millis

# --- Chronus

_URGES = {"strict": DeadlineKind.STRICT, "soft": DeadlineKind.SOFT, "best": DeadlineKind.BEST_EFFORT}


def _row_chronus(line: Line, spread: dict[tuple[str, int], dict[int, float]]) -> Job:
    urge = _URGES.get(line.text("job_type"))
    if urge is None:
        raise RowError(
            text("job_type is {word!r}, not one of {names}", word=line.get("job_type"), names=", ".join(_URGES))
        )
    gpus, model = line.whole("num_gpu", 1), line.get("model_name")
    submit = line.span("submit_time", MINUTE)
    deadlines: tuple[Deadline, ...] = ()
    if urge is not DeadlineKind.BEST_EFFORT:
        times = line.text("expect_time_list").split("-")
        values = line.text("expect_value_list").split("-")
        if len(times) != len(values):
            raise RowError(text("{deadlines} deadlines with {values} values", deadlines=len(times), values=len(values)))
        deadlines = tuple(
            Deadline(Millis(submit + span(time, "expect_time_list", MINUTE)), whole(value, "expect_value_list", 0))
            for time, value in zip(times, values, strict=True)
        )
    return Job(
        id=line.text("job_id"),
        submit=submit,
        gpus=gpus,
        work=line.span("duration", MINUTE, 1),
        vc=line.get("user"),
        user=line.get("user"),
        model=model,
        urge=urge,
        deadlines=deadlines,
        spread=spread.get((model, gpus), NO_SCALING),
        skew=skew(model),
    )


def _read_chronus(source: TraceFile) -> Rows:
    rates = source.sibling("model_info.json")
    return table(source, partial(_row_chronus, spread=spread_rates(rates) if rates else {}))


CHRONUS = Format(
    "chronus",
    "Chronus' artifact",
    "min",
    "job_id, num_gpu, submit_time, duration, expect_time_list, expect_value_list, job_type; user, model_name",
    "S-Lab-System-Group/ChronusArtifact, MIT",
    has("job_id", "num_gpu", "submit_time", "duration", "expect_time_list", "expect_value_list"),
    _read_chronus,
)


# --- ITP


def _row_itp(line: Line) -> Job:
    submit = line.span("submission_time" if line.get("submission_time") else "submit_time", SECOND)
    column = "deadline" if line.get("deadline") else "ddl"
    best = line.get("best_effort") == "1"
    deadlines = (Deadline(line.span(column, SECOND)),) if line.get(column) and not best else ()
    return Job(
        id=line.text("job_id"),
        submit=submit,
        gpus=line.whole("num_gpu", 1),
        work=line.span("duration", SECOND, 1),
        model=line.get("model_name"),
        deadlines=deadlines,
        urge=DeadlineKind.STRICT if deadlines else DeadlineKind.BEST_EFFORT,
        iterations=_iterations(line),
    )


def _iterations(line: Line) -> int:
    column = "num_iteration" if line.get("num_iteration") else "iteration"
    return line.whole(column, 0) if line.get(column) else 0


def _read_itp(source: TraceFile) -> Rows:
    return table(source, _row_itp)


def _tells_itp(head: FileHead) -> bool:
    timed = {"submission_time"} <= head.columns or {"submit_time", "ddl"} <= head.columns
    return timed and {"job_id", "num_gpu", "duration"} <= head.columns


ITP = Format(
    "itp",
    "ITP clusters and ElasticFlow's artifact",
    "s",
    "job_id, submission_time or submit_time, num_gpu, duration; deadline or ddl (an instant), model_name, best_effort",
    "microsoft/elasticflow-traces, MIT; pkusys/ElasticFlow, Apache-2.0",
    _tells_itp,
    _read_itp,
)


# --- openb


def _row_openb(line: Line) -> Job:
    gpus = line.whole("num_gpu", 0)
    types = tuple(part for part in line.get("gpu_spec").split("|") if part) if gpus else ()
    return Job(
        id=line.text("name"),
        submit=Millis(line.number),
        gpus=gpus,
        work=Millis(LONGEST),
        gpu_milli=min(WHOLE, line.whole("gpu_milli", 1)) if gpus else WHOLE,
        cpu_milli=line.whole("cpu_milli", 0),
        memory_mib=line.whole("memory_mib", 0),
        gpu_type=types[0] if len(types) == 1 else None,
        gpu_types=types if len(types) > 1 else (),
    )


def _read_openb(source: TraceFile) -> Rows:
    return table(source, _row_openb)


OPENB = Format(
    "openb",
    "Alibaba's openb pods (FGD)",
    "none",
    "name, cpu_milli, memory_mib, num_gpu, gpu_milli; gpu_spec: pods come one by one in the order of the file and stay",
    "hkust-adsl/kubernetes-scheduler-simulator, Apache-2.0",
    has("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
    _read_openb,
)
"""No time passes: the published figures are about how much of a cluster can be allocated."""


# --- Synergy

_COLUMNS: Final = ("number", "model", "arrival", "iterations", "gpus")
_FIRST: Final = re.compile(r"\d+,[a-z]\w*,\d+(\.\d+)?,\d+,\d+\s*$", re.ASCII)

STEP_MS: Final = 100
"""[I] The file has steps but no times: a step counts as a tenth of a second for every model."""


def _row_synergy(line: Line) -> Job:
    steps = line.whole("iterations", 1)
    return Job(
        id=line.text("number"),
        submit=line.span("arrival", SECOND),
        gpus=line.whole("gpus", 1),
        work=Millis(steps * STEP_MS),
        model=line.text("model"),
        iterations=steps,
    )


def _read_synergy(source: TraceFile) -> Rows:
    return table(source, _row_synergy, columns=_COLUMNS)


def _tells_synergy(head: FileHead) -> bool:
    return bool(_FIRST.match(head.start.splitlines()[0] if head.start else ""))


SYNERGY = Format(
    "synergy",
    "Synergy's deployment",
    "s, steps",
    "5 columns without heading: number, model, arrival, steps (taken for 0.1 s each: the file has no times), GPUs",
    "msr-fiddle/synergy, MIT",
    _tells_synergy,
    _read_synergy,
)


# --- Tiresias and Muri


def _tiresias(line: Line) -> Job:
    model = line.get("model_name")
    return Job(
        id=line.text("job_id"),
        submit=line.span("submit_time", SECOND),
        gpus=line.whole("num_gpu", 1),
        work=line.span("duration", SECOND, 1),
        model=model,
        skew=skew(model),
        iterations=line.whole("iterations", 0) if line.get("iterations") else 0,
    )


def _muri(line: Line) -> Job:
    model = line.get("model_name")
    step = line.number_or("iteration_time", 0)
    stages = [line.number_or(f"resource_time_{stage}", 0) for stage in range(3)]
    return Job(
        id=line.text("job_id"),
        submit=line.span("submit_time", MILLISECOND),
        gpus=line.whole("num_gpu", 1),
        work=line.span("duration", MILLISECOND, 1),
        model=model,
        skew=skew(model),
        share=Share.OPPORTUNISTIC if line.get("priority") == "1" else Share.GUARANTEED,
        iterations=line.whole("iterations", 0) if line.get("iterations") else 0,
        # the time of each step on CPUs and storage, on the GPU, and on the network (Muri §4)
        gpu_util=min(1.0, stages[1] / step) if step and any(stages) else 1.0,
        facts={
            f"stage.{name}": time for name, time in zip(("cpu", "gpu", "network", "step"), [*stages, step], strict=True)
        },
    )


def _read_tiresias(source: TraceFile) -> Rows:
    return table(source, _tiresias)


def _read_muri(source: TraceFile) -> Rows:
    return table(source, _muri)


MURI = Format(
    "muri",
    "Muri's simulator and testbed",
    "ms",
    "job_id, num_gpu, submit_time, duration, iteration_time; model_name, priority",
    "Rivendile/Muri, Apache-2.0",
    has("job_id", "num_gpu", "submit_time", "duration", "iteration_time"),
    _read_muri,
)
TIRESIAS = Format(
    "tiresias",
    "Tiresias' simulator",
    "s",
    "job_id, num_gpu, submit_time, duration; model_name",
    "SymbioticLab/Tiresias, Apache-2.0",
    has("job_id", "num_gpu", "submit_time", "duration", without=("iteration_time", "ddl", "expect_time_list", "state")),
    _read_tiresias,
)
