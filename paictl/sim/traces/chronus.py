"""Traces of Chronus' artifact (SoCC'21): in minutes, with up to four deadlines for a job and their values."""

from __future__ import annotations

from functools import partial

from paictl.i18n import text
from paictl.sim.job import NO_SCALING, Deadline, DeadlineKind, Job
from paictl.sim.traces.base import Format, Rows, has
from paictl.sim.traces.lines import MINUTE, Line, RowError, span, table, whole
from paictl.sim.traces.profiles import skew, spread_rates
from paictl.sim.traces.source import TraceFile
from paictl.units import Millis

_URGES = {"strict": DeadlineKind.STRICT, "soft": DeadlineKind.SOFT, "best": DeadlineKind.BEST_EFFORT}


def _row(line: Line, spread: dict[tuple[str, int], dict[int, float]]) -> Job:
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
        id=line.text("job_id"), submit=submit, gpus=gpus, work=line.span("duration", MINUTE, 1),
        vc=line.get("user"), user=line.get("user"), model=model, urge=urge, deadlines=deadlines,
        spread=spread.get((model, gpus), NO_SCALING), skew=skew(model),
    )  # fmt: skip


def _read(source: TraceFile) -> Rows:
    rates = source.sibling("model_info.json")
    return table(source, partial(_row, spread=spread_rates(rates) if rates else {}))


CHRONUS = Format(
    "chronus", "Chronus' artifact", "min",
    "job_id, num_gpu, submit_time, duration, expect_time_list, expect_value_list, job_type; user, model_name",
    "S-Lab-System-Group/ChronusArtifact, MIT",
    has("job_id", "num_gpu", "submit_time", "duration", "expect_time_list", "expect_value_list"), _read,
)  # fmt: skip
