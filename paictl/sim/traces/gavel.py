"""Traces of Gavel (OSDI'20): steps of named workloads; how long steps take is in a table beside them."""

from __future__ import annotations

from functools import partial
from typing import Final

from paictl.i18n import text
from paictl.sim.job import Deadline, DeadlineKind, Job
from paictl.sim.traces.base import FileHead, Format, Rows
from paictl.sim.traces.lines import SECOND, Line, RowError, table
from paictl.sim.traces.profiles import JobType, Throughputs, throughputs
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis

_LONG: Final = (
    "job_type",
    "command",
    "folder",
    "argument",
    "needs_data",
    "total_steps",
    "scale_factor",
    "weight",
    "slo",
    "arrival",
)
_SHORT: Final = ("job_type", "command", "argument", "needs_data", "total_steps", "arrival", "scale_factor")
"""Columns of the physical cluster's traces, and of those of single VCs of Philly (``msr``)."""

_TABLES: Final = (
    "../throughputs/simulation_throughputs.json",
    "../../throughputs/simulation_throughputs.json",
    "../simulation_throughputs.json",
    "simulation_throughputs.json",
    "simulation_throughputs.json.gz",
)
_PHYSICAL: Final = ("../throughputs/physical_cluster_throughputs.json", "physical_cluster_throughputs.json")
"""For traces of the authors' own cluster (``physical_cluster/``); it reproduces the published figures."""
REFERENCE: Final = "v100"


class _Rates:
    """The rates of each job type from the table, computed once."""

    def __init__(self, profile: Throughputs) -> None:
        self.profile = profile
        self.types = [name for name in profile.workers if not name.endswith("_unconsolidated")]
        self._by_type: dict[JobType, tuple[dict[str, float], dict[str, float], dict[str, float]]] = {}
        self._pairs: dict[JobType, list[tuple[str, JobType, float]]] = {}
        for (worker, job, other), (own_rate, _) in profile.pairs.items():
            self._pairs.setdefault(job, []).append((worker, other, own_rate))

    def of(self, job: JobType) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        """(rate by device type, rate beside another model, further facts); raises `RowError` for an unknown one."""
        if job not in self._by_type:
            self._by_type[job] = self._make(job)
        return self._by_type[job]

    def _make(self, job: JobType) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
        alone = self.profile.alone
        base = alone.get((REFERENCE, job), 0.0)
        if base <= 0:
            raise RowError(
                text("job type {kind} on {gpus} devices is not in the table of throughputs", kind=job[0], gpus=job[1])
            )
        rates = {
            worker.upper(): alone[worker, job] / base for worker in self.types if alone.get((worker, job), 0.0) > 0
        }
        beside = {
            f"{worker.upper()}/{other[0]}": own_rate / alone[worker, job]
            for worker, other, own_rate in self._pairs.get(job, ())
            if worker in self.types and other[1] == job[1] and alone.get((worker, job), 0.0) > 0
        }
        facts = {"steps_per_second": base}
        for worker in self.types:
            spread_rate = alone.get((f"{worker}_unconsolidated", job), 0.0)
            if spread_rate > 0 and alone.get((worker, job), 0.0) > 0:
                facts[f"unconsolidated.{worker.upper()}"] = spread_rate / alone[worker, job]
        return rates, beside, facts


def _row(line: Line, rates: _Rates) -> Job:
    kind = (line.text("job_type"), line.whole("scale_factor", 1))
    rate, beside, facts = rates.of(kind)
    steps = line.whole("total_steps", 1)
    submit = line.span("arrival", SECOND)
    work = Millis(max(1, round(steps * SECOND / facts["steps_per_second"])))
    slo = line.number_or("slo", -1.0)
    deadlines = (Deadline(Millis(submit + round(work * slo))),) if slo > 0 else ()
    return Job(
        id=str(line.number - 1),
        submit=submit,
        gpus=kind[1],
        work=work,
        model=kind[0],
        iterations=steps,
        throughput=rate,
        coloc=beside,
        facts={**facts, "weight": line.number_or("weight", 1.0)},
        deadlines=deadlines,
        urge=DeadlineKind.STRICT if deadlines else DeadlineKind.BEST_EFFORT,
    )


def _read(source: TraceFile) -> Rows:
    tables = (*_PHYSICAL, *_TABLES) if "physical_cluster" in source.name else _TABLES
    throughput_file = next((file for path in tables if (file := source.sibling(path)) is not None), None)
    if throughput_file is None:
        raise TraceError(
            "counts work in steps, but the table with the time of a step is missing",
            where=source.name,
            hint="put Gavel's simulation_throughputs.json into the same folder",
        )
    column_count = source.data.partition(b"\n")[0].count(b"\t") + 1
    columns = _LONG if column_count == len(_LONG) else _SHORT
    return table(
        source, partial(_row, rates=_Rates(throughputs(throughput_file))), columns=columns, delimiter="\t", quoted=False
    )


def _tells(head: FileHead) -> bool:
    return head.tabs + 1 in (len(_LONG), len(_SHORT)) and not head.start.startswith("{")


GAVEL = Format(
    "gavel",
    "Gavel's simulator",
    "s, steps",
    "10 columns (7 in msr/) without heading, set apart by tabulators: job type, command, ..., total steps, "
    "scale factor, priority weight, SLO, arrival; simulation_throughputs.json beside it",
    "stanford-futuredata/gavel, MIT",
    _tells,
    _read,
)
