"""Many runs at once: policies over ranges of a parameter, several traces and seeds, and what their figures come to.

A replication is one (trace, seed). Figures of a setting (policy with parameters, on a cluster) are means over its
replications with a 95 % confidence interval by Student's t; two settings are compared by the differences of the
same replications, so that what traces and seeds have in common cancels out. Where all seeds of a trace give the same
value, nothing was drawn: they are one replication.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product
from math import prod, sqrt
from statistics import fmean, stdev
from typing import Any, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.cluster import Cluster
from paictl.sim.failures import failures_of
from paictl.sim.job import Trace
from paictl.sim.kept import KeptRuns, RunRequest
from paictl.sim.metrics import Figures, figures
from paictl.sim.parallel import play, within
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.policies.table import parse
from paictl.sim.simulate import check_failures
from paictl.sim.specify import cluster_named
from paictl.sim.traces.source import TraceError

METRICS: Final = (
    "mean_jct", "p50_jct", "p95_jct", "p99_jct", "mean_queueing", "mean_waiting", "makespan", "utilization",
    "fragmentation", "preemptions", "migrations", "jobs", "unfinished", "interruptions", "wasted", "down",
)  # fmt: skip
"""Figures that a sweep reports."""
MOST: Final = 10_000
"""Runs of one sweep."""
_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantiles of Student's t with 1, 2, … 30 degrees of freedom."""


# --- what to play


def expanded(policy: str) -> list[str]:
    """Every policy that `las:knob=1..8` or `las:order=start|running,knob=0.5..2..0.5` stands for, each of them valid.

    `A..B` goes up by 1, `A..B..STEP` by a step, `X|Y` lists values; several parameters give all combinations. Raises
    `ParameterError` for what is no range and for a policy that cannot be.
    """
    head, mark, rest = policy.partition(":")
    parts = [part.partition("=") for part in rest.split(",")] if mark else []
    choices = [[f"{key}{equals}{value}" for value in _values(given, policy)] for key, equals, given in parts]
    _check_number(prod(map(len, choices)))  # before they are made: four short ranges can fill the memory
    made = [f"{head}{mark}{','.join(chosen)}" for chosen in product(*choices)]
    for one in made:
        parse(one)
    return made


def _check_number(number: int) -> None:
    if number > MOST:
        raise ParameterError(
            text("{number:,} runs for each trace, more than {most:,}", number=number, most=MOST), where="sweep",
            hint="take fewer seeds or larger steps",
        )  # fmt: skip


def _values(given: str, policy: str) -> list[str]:
    if "|" in given:
        return [value.strip() for value in given.split("|")]
    if ".." not in given:
        return [given]
    try:
        low, high, *steps = (Decimal(part) for part in given.split(".."))
        (step,) = steps or (Decimal(1),)
        if not (low.is_finite() and high.is_finite() and step.is_finite() and low <= high and step > 0):
            raise ValueError(given)
    except (InvalidOperation, ValueError):
        raise ParameterError(
            text("{given!r} is not a valid range", given=given), where=f"policy {policy!r}",
            hint="write 1..8, or 0.5..2..0.5 with a step, or a|b|c",
        ) from None  # fmt: skip
    number = int((high - low) / step) + 1
    if number > MOST:
        raise ParameterError(
            text("{given!r} has more than {most:,} values", given=given, most=MOST), where=f"policy {policy!r}",
            hint="take a larger step: 1..1000000..1000",
        )  # fmt: skip
    return [f"{(low + step * place).normalize():f}" for place in range(number)]


def seeds_of(given: Sequence[str]) -> list[int]:
    """`3`, `1..10`: the seeds, each once; raises `ParameterError`."""
    found: list[int] = []
    for one in given:
        low, _, high = one.partition("..")
        if not low.isdecimal() or not (high or low).isdecimal() or not 0 <= int(high or low) - int(low) < MOST:
            raise ParameterError(
                text("{given!r} is not a valid seed", given=one), where="--seed", hint="write 3, or 1..10"
            )
        found += range(int(low), int(high or low) + 1)
    return list(dict.fromkeys(found))


def planned(
    policies: Sequence[str],
    clusters: Sequence[str],
    seeds: Sequence[str],
    inflate: float | None = None,
    failures: Sequence[str] = (),
) -> list[RunRequest]:
    """Every run of one trace, by cluster, failures, policy and seed; raises what is wrong before one begins."""
    texts = list(dict.fromkeys(one for policy in policies for one in expanded(policy)))
    shapes = [cluster_named(cluster) for cluster in dict.fromkeys(clusters)]
    drawn = seeds_of(seeds) or [0]
    models = [failures_of(one) for one in dict.fromkeys(failures)] or [None]
    for one, shape, model in product(texts, shapes, models):
        if model is not None:
            check_failures(model, Cluster(shape), parse(one)[0])
    number = len(texts) * len(shapes) * len(models) * len(drawn)
    _check_number(number)
    return [
        RunRequest(policy, shape, seed, inflate, failures=model)
        for shape in shapes for model in models for policy in texts for seed in drawn
    ]  # fmt: skip


def check_fits(trace: Trace, wanted: Sequence[RunRequest]) -> None:
    """Raise `TraceError` if there is a cluster that is too small for each job of a trace: columns may be swapped."""
    smallest = min(job.gpus if job.elastic is None else min(job.gpus, job.elastic[0]) for job in trace.jobs)
    for shape in dict.fromkeys(one.cluster.text for one in wanted):
        size = min(sum(node.devices for node in one.cluster.nodes) for one in wanted if one.cluster.text == shape)
        if smallest > size:
            raise TraceError(
                text("no job fits on {cluster}: the smallest requests {smallest:,} devices, and there are {size:,}",
                     cluster=shape, smallest=smallest, size=size),
                where=trace.path,
                hint="give a larger cluster, or compare the column names with the rows: two may be swapped",
            )  # fmt: skip


def swept(
    traces: Sequence[Trace],
    wanted: Sequence[RunRequest],
    *,
    kept: Sequence[KeptRuns] = (),
    processes: int | None = None,
    part: Callable[[float], None] | None = None,
) -> list[SweepRun]:
    """Play all of it, a trace at a time; `part` is called with the part that is played.

    `kept`, one for each trace, is where runs are kept until all of them are there.
    """
    for trace in traces:
        check_fits(trace, wanted)
    made: list[SweepRun] = []
    for place, trace in enumerate(traces):
        runs = play(
            trace.jobs, wanted, processes=processes, kept=kept[place] if kept else None, drop=False,
            part=None if part is None else within(part, place, len(traces)),
        )  # fmt: skip
        made += [
            SweepRun(trace.path, one.policy, run.cluster, run.seed, figures(run), run.failures)
            for one, run in zip(wanted, runs, strict=True)
        ]
    for store, one in product(kept, wanted):
        store.drop(one)
    return made


# --- what came of it


@frozen
class SweepRun:
    """One run: a setting under one replication."""

    trace: str
    policy: str
    """With parameters, as asked for."""
    cluster: str
    seed: int
    figures: Figures
    failures: str = ""


@frozen
class Estimate:
    """A mean over replications and its 95 % confidence interval; `low` and `high` are None for a single one."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def certain(self) -> bool:
        """Whether the interval leaves 0 out: the sign of a difference is not chance."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@frozen
class Setting:
    """What stays the same over the replications."""

    policy: str
    cluster: str
    failures: str
    estimates: Mapping[str, Estimate]
    """By metric; without those that some run has not."""
    against: Mapping[str, Estimate]
    """Difference to the first setting of the same cluster, by metric; empty for that one."""


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and confidence interval of at least one value."""
    mean, count = fmean(values), len(values)
    if count < 2:
        return Estimate(mean, None, None, count)
    half = (_T[count - 2] if count - 2 < len(_T) else 1.96) * stdev(values) / sqrt(count)
    return Estimate(mean, mean - half, mean + half, count)


def settings(runs: Iterable[SweepRun]) -> list[Setting]:
    """Every setting in the order of its first run."""
    groups: dict[tuple[str, str, str], dict[tuple[str, int], Figures]] = {}
    for run in runs:
        groups.setdefault((run.policy, run.cluster, run.failures), {})[run.trace, run.seed] = run.figures
    firsts: dict[str, dict[tuple[str, int], Figures]] = {}
    made = []
    for (policy, cluster, failures), mine in groups.items():
        first = firsts.setdefault(cluster, mine)
        shared = [key for key in mine if key in first] if first is not mine else []
        estimates, against = {}, {}
        for metric in METRICS:
            values = {key: getattr(one, metric) for key, one in mine.items()}
            if None in values.values():
                continue
            estimates[metric] = estimate(_replications(values))
            theirs = {key: getattr(first[key], metric) for key in shared}
            if theirs and None not in theirs.values():
                against[metric] = estimate(_replications({key: values[key] - theirs[key] for key in shared}))
        made.append(Setting(policy, cluster, failures, estimates, against))
    return made


def _replications(values: Mapping[tuple[str, int], float]) -> list[float]:
    """The values by (trace, seed), those of a trace once if all of its seeds gave the same."""
    traces: dict[str, list[float]] = {}
    for (trace, _), value in values.items():
        traces.setdefault(trace, []).append(value)
    return [value for row in traces.values() for value in (row[:1] if len(set(row)) == 1 else row)]


# --- as data


def sweep_data(runs: Sequence[SweepRun]) -> dict[str, Any]:
    """What ``-o json`` of a sweep has: settings with estimates, and every run."""
    return {
        "settings": [
            {
                "policy": one.policy, "cluster": one.cluster, "failures": one.failures or None,
                "metrics": {name: _estimate_data(value) for name, value in one.estimates.items()},
                "against_first": {
                    name: {**_estimate_data(value), "significant": value.certain}
                    for name, value in one.against.items()
                },
            }
            for one in settings(runs)
        ],
        "runs": list(_rows(runs)),
    }  # fmt: skip


def _estimate_data(given: Estimate) -> dict[str, Any]:
    return {"mean": given.mean, "low": given.low, "high": given.high, "replications": given.count}


def _rows(runs: Iterable[SweepRun]) -> Iterator[dict[str, Any]]:
    for run in runs:
        figures = {metric: getattr(run.figures, metric) for metric in METRICS}
        yield {"trace": run.trace, "policy": run.policy, "cluster": run.cluster, "failures": run.failures,
               "seed": run.seed, **figures}  # fmt: skip


def sweep_rows(runs: Sequence[SweepRun]) -> Iterator[dict[str, Any]]:
    """A row for each run: trace, policy, cluster, failures, seed, a column for each swept parameter, metrics.

    A parameter that a policy was not given is an empty text, a figure that a run has not is None.
    """
    parts = [run.policy.partition(":")[2].split(",") for run in runs]
    written = [dict(part.partition("=")[::2] for part in row if "=" in part) for row in parts]
    names = list(dict.fromkeys(key for row in written for key in row))
    for given, row in zip(written, _rows(runs), strict=True):
        metrics = {metric: row.pop(metric) for metric in METRICS}
        yield {**row, **{name: given.get(name, "") for name in names}, **metrics}


def sweep_csv(runs: Sequence[SweepRun]) -> str:
    """The rows of `sweep_rows`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for place, row in enumerate(sweep_rows(runs)):
        if not place:
            writer.writerow(row)
        writer.writerow(["" if value is None else value for value in row.values()])
    return out.getvalue()
