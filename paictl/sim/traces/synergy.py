"""Small deployment traces of Synergy (OSDI'22): number, model, arrival, steps, devices, without heading."""

from __future__ import annotations

import re
from typing import Final

from paictl.sim.job import Job
from paictl.sim.traces.base import FileHead, Format, Rows
from paictl.sim.traces.lines import SECOND, Line, table
from paictl.sim.traces.source import TraceFile
from paictl.units import Millis

_COLUMNS: Final = ("number", "model", "arrival", "iterations", "gpus")
_FIRST: Final = re.compile(r"\d+,[a-z]\w*,\d+(\.\d+)?,\d+,\d+\s*$", re.ASCII)

STEP_MS: Final = 100
"""[I] The file has steps but no times: a step counts as a tenth of a second for every model."""


def _row(line: Line) -> Job:
    steps = line.whole("iterations", 1)
    return Job(
        id=line.text("number"),
        submit=line.span("arrival", SECOND),
        gpus=line.whole("gpus", 1),
        work=Millis(steps * STEP_MS),
        model=line.text("model"),
        iterations=steps,
    )


def _read(source: TraceFile) -> Rows:
    return table(source, _row, columns=_COLUMNS)


def _tells(head: FileHead) -> bool:
    return bool(_FIRST.match(head.start.splitlines()[0] if head.start else ""))


SYNERGY = Format(
    "synergy", "Synergy's deployment", "s, steps",
    "5 columns without heading: number, model, arrival, steps (taken for 0.1 s each: the file has no times), GPUs",
    "msr-fiddle/synergy, MIT", _tells, _read,
)  # fmt: skip
