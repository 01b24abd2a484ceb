"""Traces of the simulators of Tiresias (NSDI'19) and Muri (SIGCOMM'22), which began as a copy of it."""

from __future__ import annotations

from paictl.sim.job import Job, Share
from paictl.sim.traces.base import Format, Rows, has
from paictl.sim.traces.lines import MILLISECOND, SECOND, Line, table
from paictl.sim.traces.profiles import skew
from paictl.sim.traces.source import TraceFile


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
    "muri", "Muri's simulator and testbed", "ms",
    "job_id, num_gpu, submit_time, duration, iteration_time; model_name, priority",
    "Rivendile/Muri, Apache-2.0", has("job_id", "num_gpu", "submit_time", "duration", "iteration_time"), _read_muri,
)  # fmt: skip
TIRESIAS = Format(
    "tiresias", "Tiresias' simulator", "s", "job_id, num_gpu, submit_time, duration; model_name",
    "SymbioticLab/Tiresias, Apache-2.0",
    has("job_id", "num_gpu", "submit_time", "duration", without=("iteration_time", "ddl", "expect_time_list", "state")),
    _read_tiresias,
)  # fmt: skip
