"""Results as data, as tables of jobs, as lines of events. Times are seconds, exact to the millisecond."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.compare import Pair, pairs, warnings
from paictl.sim.job import Trace
from paictl.sim.metrics import Figures, by_tenant, figures
from paictl.sim.run import JobOutcome, RunResult

_OPTIONAL = (
    "deadline_misses",
    "weighted_miss",
    "slo_jct",
    "best_effort_jct",
    "admitted",
    "admitted_misses",
    "interruptions",
    "wasted",
    "down",
)
"""Figures that are left out if they do not apply."""
REPAIRS = ("repaired", "repair_wait", "repair_idle_hours")
"""Counters for replaced members of gangs: how many, seconds until then, idle device hours."""
MOVES = ("moved", "moved_for", "moved_hours", "moved_idle_hours")
"""Counters for moved gangs: moves, gangs that could start, device hours of lost work and of restarts."""
COUNTED = (
    "conflicts",
    "stranded",
    "promises_broken",
    "over_limit",
    "backfilled",
    "allocation_ratio",
    "dropped",
    "worst_ftf",
    "unfair",
    *REPAIRS,
    *MOVES,
)
_CURVE = "allocation_curve."
"""Prefix of the counters that form a curve."""


@frozen
class Comparison:
    """A trace under several policies, or on several clusters."""

    trace: Trace
    runs: tuple[RunResult, ...]
    figures: tuple[Figures, ...]
    pairs: tuple[Pair, ...]
    warnings: tuple[str, ...]


def compared(trace: Trace, runs: Sequence[RunResult], *, discriminating: bool = True) -> Comparison:
    """Figures, pairs and warnings for runs of a trace. With `discriminating`, also whether it tells policies apart."""
    all_figures = tuple(figures(run) for run in runs)
    messages = warnings(runs, all_figures, discriminating=discriminating)
    cpu_only = sum(not job.gpus for job in trace.jobs)
    if cpu_only and any(len(run.outcomes) == len(trace.jobs) - cpu_only for run in runs):
        messages.append(
            text("{count} jobs without devices were left out: the policy places whole devices", count=cpu_only)
        )
    return Comparison(trace, tuple(runs), all_figures, tuple(pairs(runs)), tuple(messages))


def label(run: RunResult, runs: Sequence[RunResult]) -> str:
    """A name for a run that tells it from the others: with the parameters, cluster and seed in which they differ."""
    same_policy = [other for other in runs if other.policy == run.policy]
    differing = [key for key in run.parameters if len({repr(other.parameters.get(key)) for other in same_policy}) > 1]
    name = run.policy
    if differing:
        name += ":" + ",".join(f"{key}={plain(run.parameters[key])}" for key in differing)
    if len({other.cluster for other in runs}) > 1:
        name += f" on {run.cluster}"
    if len({other.failures for other in runs}) > 1:
        name += f", failures {run.failures or 'none'}"
    if len({other.seed for other in runs}) > 1:
        name += f", seed {run.seed}"
    return name


def plain(value: object) -> str:
    """The value of a parameter as it is written after `key=`."""
    if isinstance(value, list):
        return "/".join(map(plain, value))
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def run_data(run: RunResult, trace: Trace, run_figures: Figures, *, reproducible: bool = False) -> dict[str, Any]:
    """The data of ``-o json`` for a run; with `reproducible`, the time that it took is null."""
    data = asdict(run_figures)
    for name in _OPTIONAL:
        if data[name] is None:
            del data[name]
    return {
        "policy": run.policy,
        "parameters": dict(run.parameters),
        "trace": {
            "path": trace.path,
            "sha256": trace.sha256,
            "jobs": len(trace.jobs),
            "format": trace.format,
            "bad_rows": len(trace.bad),
        },
        "cluster": run.cluster,
        "devices": run.devices,
        "seed": run.seed,
        **({"failures": run.failures} if run.failures else {}),
        **data,
        **{name: run.counters[name] for name in COUNTED if name in run.counters},
        **_causes(run.counters),
        **_curve(run.counters),
        "counters": {name: value for name, value in sorted(run.counters.items()) if not name.startswith(_CURVE)},
        "tenants": [asdict(row) for row in by_tenant(run)],
        "wall_seconds": None if reproducible else run.wall_seconds,
    }


def _curve(counters: Mapping[str, float]) -> dict[str, Any]:
    """Allocated by requested devices, both in per cent, if a policy counts them."""
    curve = {name.removeprefix(_CURVE): value for name, value in counters.items() if name.startswith(_CURVE)}
    return {"allocation_curve": curve} if curve else {}


def _causes(counters: Mapping[str, float]) -> dict[str, Any]:
    """`delay_causes.VC.CAUSE` counters as one object, if a policy has them."""
    causes: dict[str, Any] = {}
    for name, value in sorted(counters.items()):
        first, _, rest = name.partition(".")
        if first == "delay_causes" and rest:
            tenant, _, cause = rest.rpartition(".")
            (causes.setdefault(tenant, {}) if tenant else causes)[cause] = value
    return {"delay_causes": causes} if causes else {}


def compared_data(comparison: Comparison, *, reproducible: bool = False) -> dict[str, Any]:
    """The data of ``-o json`` for a comparison."""
    labels = [label(run, comparison.runs) for run in comparison.runs]
    return {
        "runs": [
            {"label": name, **run_data(run, comparison.trace, run_figures, reproducible=reproducible)}
            for name, run, run_figures in zip(labels, comparison.runs, comparison.figures, strict=True)
        ],
        "pairs": [
            {
                **asdict(pair),
                "significant": pair.significant,
                "first": labels[pair.first],
                "second": labels[pair.second],
            }
            for pair in comparison.pairs
        ],
        "warnings": list(comparison.warnings),
    }


# --- job by job


def jobs_csv(runs: Sequence[RunResult]) -> str:
    """A row for each job of each run, in the order of arrival; columns after `lost` are the policies' notes."""
    labels = [label(run, runs) for run in runs]
    notes = sorted({name for run in runs for outcome in run.outcomes for name in outcome.notes})
    failing = any(run.failures for run in runs)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *(["run"] if len(runs) > 1 else []),
            "id",
            "user",
            "vc",
            "model",
            "gpus",
            "share",
            "urge",
            "submit",
            "first_start",
            "end",
            "ending",
            "work",
            "jct",
            "queueing",
            "waiting",
            "ran",
            "gpu_seconds",
            "preemptions",
            "migrations",
            "resizes",
            "lost",
            *(["interruptions"] if failing else []),
            *notes,
        ]
    )
    for name, run in zip(labels, runs, strict=True):
        for outcome in run.outcomes:
            extra = [outcome.interruptions] if failing else []
            writer.writerow([*([name] if len(runs) > 1 else []), *_row(outcome), *extra, *_noted(outcome, notes)])
    return out.getvalue()


def _row(outcome: JobOutcome) -> Iterator[object]:
    yield from (
        outcome.id,
        outcome.user,
        outcome.vc,
        outcome.model,
        outcome.gpus,
        outcome.share.value,
        outcome.urge.value,
    )
    yield from map(_seconds, (outcome.submit, outcome.first_start, outcome.end))
    yield outcome.ending.value
    yield from map(
        _seconds, (outcome.work, outcome.jct, outcome.queueing, outcome.waiting, outcome.ran, outcome.service)
    )
    yield from (outcome.preemptions, outcome.migrations, outcome.resizes, _seconds(outcome.lost))


def _noted(outcome: JobOutcome, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = outcome.notes.get(name)
        yield "" if value is None else plain(float(value))


def _seconds(millis: int | None) -> str:
    """Seconds without a needless zero, empty for None."""
    if millis is None:
        return ""
    sign, size = ("-", -millis) if millis < 0 else ("", millis)
    return f"{sign}{size // 1000}" + (f".{size % 1000:03}".rstrip("0") if size % 1000 else "")


def events_jsonl(run: RunResult) -> Iterator[str]:
    """A line for each event of a run with a log."""
    for entry in run.log:
        line = {"time": entry.time / 1000, "what": entry.what, "job": entry.job}
        if entry.devices:
            line["devices"] = list(entry.devices)
        yield json.dumps(line, separators=(",", ":")) + "\n"
