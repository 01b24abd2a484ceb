"""Pods of Alibaba's cluster with shared GPUs (openb, FGD's traces): requests for fractional GPUs, CPU and memory."""

from __future__ import annotations

from paictl.sim.job import WHOLE, Job
from paictl.sim.traces.base import Format, Rows, has
from paictl.sim.traces.lines import LONGEST, Line, table
from paictl.sim.traces.source import TraceFile
from paictl.units import Millis


def _row(line: Line) -> Job:
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


def _read(source: TraceFile) -> Rows:
    return table(source, _row)


OPENB = Format(
    "openb", "Alibaba's openb pods (FGD)", "none",
    "name, cpu_milli, memory_mib, num_gpu, gpu_milli; gpu_spec: pods come one by one in the order of the file and stay",
    "hkust-adsl/kubernetes-scheduler-simulator, Apache-2.0",
    has("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), _read,
)  # fmt: skip
"""No time passes: the published figures are about how much of a cluster can be allocated."""
