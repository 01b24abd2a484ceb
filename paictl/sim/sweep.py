"""Many runs at once: policies over ranges of a parameter, several traces and seeds, and estimates of their figures.

The replications of a setting (policy with parameters, on a cluster) are its traces: seeds of one trace share its jobs,
so they count as one value, their mean. With a single trace, its seeds are the replications, and the interval shows the
effect of chance on it; if all of them give the same value, nothing was drawn, and they count as one. Intervals are 95 %
confidence intervals by Student's t, clipped to the possible values of the metric, which does not reduce coverage.

Two settings are compared on the same replications, so that what traces have in common cancels out. Times are compared
by their ratio (of logarithms, so that a trace of long jobs does not outweigh the others), all else by the difference.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product
from math import exp, inf, log, prod, sqrt
from statistics import fmean, stdev
from typing import Any, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.checkpoints import KeptRuns, RunRequest
from paictl.sim.cluster import Cluster
from paictl.sim.failures import failures_of
from paictl.sim.job import Trace
from paictl.sim.metrics import Figures, figures
from paictl.sim.parallel import play, within
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.policies.table import parse
from paictl.sim.simulate import check_failures
from paictl.sim.specify import cluster_named
from paictl.sim.traces.source import TraceError
from paictl.units import SECONDS

METRICS: Final = (
    "mean_jct",
    "p50_jct",
    "p95_jct",
    "p99_jct",
    "mean_queueing",
    "mean_waiting",
    "makespan",
    "utilization",
    "fragmentation",
    "preemptions",
    "migrations",
    "jobs",
    "unfinished",
    "interruptions",
    "wasted",
    "down",
)
"""Figures that a sweep reports."""
TIMES: Final = frozenset({"mean_jct", "p50_jct", "p95_jct", "p99_jct", "mean_queueing", "mean_waiting", "makespan"})
"""Metrics in seconds: settings are compared by their ratio."""
SHARES: Final = frozenset({"utilization", "fragmentation", "wasted", "down"})
"""Metrics that are fractions of 1; all others are at least 0."""
FEW: Final = 4
"""Replications below which an interval says little: the quantile of two is 12.7, of three 4.3."""
MOST: Final = 10_000
"""Runs of one sweep."""
_T: Final = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)
"""97.5 % quantiles of Student's t with 1, 2, … 30 degrees of freedom."""


# --- planning


def expanded(policy: str) -> list[str]:
    """Every policy that `las:knob=1..8` or `las:order=start|running,knob=0.5..2..0.5` stands for, each of them valid.

    `A..B` goes up by 1, `A..B..STEP` by a step, `X|Y` lists values; spans may have units, `30s..5m..30s`. Several
    parameters give all combinations. Raises `ParameterError` for what is no range and for a policy that cannot be.
    """
    head, mark, rest = policy.partition(":")
    parts = [part.partition("=") for part in rest.split(",")] if mark else []
    choices = [[f"{key}{equals}{value}" for value in _values(choice, policy)] for key, equals, choice in parts]
    _check_number(prod(map(len, choices)))  # before they are created: four short ranges can fill the memory
    expansions = [f"{head}{mark}{','.join(chosen)}" for chosen in product(*choices)]
    for expanded_policy in expansions:
        parse(expanded_policy)
    return expansions


def _check_number(number: int) -> None:
    if number > MOST:
        raise ParameterError(
            text("{number:,} runs for each trace, more than {most:,}", number=number, most=MOST),
            where="sweep",
            hint="take fewer seeds or larger steps",
        )


def _values(given: str, policy: str) -> list[str]:
    if "|" in given:
        return [value.strip() for value in given.split("|")]
    if ".." not in given:
        return [given]
    parts = given.split("..")
    unit = next((part[-1] for part in parts if part[-1:] in SECONDS), "")
    try:
        low, high, *steps = (_number(part, unit) for part in parts)
        (step,) = steps or (Decimal(1),)
        if not (low.is_finite() and high.is_finite() and step.is_finite() and low <= high and step > 0):
            raise ValueError(given)
    except (InvalidOperation, ValueError):
        raise ParameterError(
            text("{given!r} is not a valid range", given=given),
            where=f"policy {policy!r}",
            hint="write 1..8, or 0.5..2..0.5 with a step, or 30s..5m..30s, or a|b|c",
        ) from None
    number = int((high - low) / step) + 1
    if number > MOST:
        raise ParameterError(
            text("{given!r} has more than {most:,} values", given=given, most=MOST),
            where=f"policy {policy!r}",
            hint="take a larger step: 1..1000000..1000",
        )
    return [f"{(low + step * place).normalize():f}{unit}" for place in range(number)]


def _number(part: str, unit: str) -> Decimal:
    """A bound or step of a range, counted in the unit of its first part that has one."""
    own = part[-1:] if part[-1:] in SECONDS else unit
    number = Decimal(part.removesuffix(own))
    return number * Decimal(SECONDS[own]) / Decimal(SECONDS[unit]) if own else number


def seeds_of(written: Sequence[str]) -> list[int]:
    """`3`, `1..10`: the seeds, each once; raises `ParameterError`."""
    seeds: list[int] = []
    for seed_range in written:
        low, _, high = seed_range.partition("..")
        if not low.isdecimal() or not (high or low).isdecimal() or not 0 <= int(high or low) - int(low) < MOST:
            raise ParameterError(
                text("{given!r} is not a valid seed", given=seed_range), where="--seed", hint="write 3, or 1..10"
            )
        seeds += range(int(low), int(high or low) + 1)
    return list(dict.fromkeys(seeds))


def planned(
    policies: Sequence[str],
    clusters: Sequence[str],
    seeds: Sequence[str],
    inflate: float | None = None,
    failures: Sequence[str] = (),
) -> list[RunRequest]:
    """Every run of one trace, by cluster, failures, policy and seed; errors are raised before any run begins."""
    texts = list(dict.fromkeys(expanded_policy for policy in policies for expanded_policy in expanded(policy)))
    shapes = [cluster_named(cluster) for cluster in dict.fromkeys(clusters)]
    seed_numbers = seeds_of(seeds) or [0]
    models = [failures_of(written) for written in dict.fromkeys(failures)] or [None]
    for expanded_policy, shape, model in product(texts, shapes, models):
        if model is not None:
            check_failures(model, Cluster(shape), parse(expanded_policy)[0])
    number = len(texts) * len(shapes) * len(models) * len(seed_numbers)
    _check_number(number)
    return [
        RunRequest(policy, shape, seed, inflate, failures=model)
        for shape in shapes
        for model in models
        for policy in texts
        for seed in seed_numbers
    ]


def check_fits(trace: Trace, requests: Sequence[RunRequest]) -> None:
    """Raise `TraceError` if a cluster is too small for every job of a trace: columns may be swapped."""
    smallest = min(job.gpus if job.elastic is None else min(job.gpus, job.elastic[0]) for job in trace.jobs)
    for shape in dict.fromkeys(request.cluster.text for request in requests):
        size = min(
            sum(node.devices for node in request.cluster.nodes) for request in requests if request.cluster.text == shape
        )
        if smallest > size:
            raise TraceError(
                text(
                    "no job fits on {cluster}: the smallest requests {smallest:,} devices, and there are {size:,}",
                    cluster=shape,
                    smallest=smallest,
                    size=size,
                ),
                where=trace.path,
                hint="give a larger cluster, or compare the column names with the rows: two may be swapped",
            )


def swept(
    traces: Sequence[Trace],
    requests: Sequence[RunRequest],
    *,
    kept: Sequence[KeptRuns] = (),
    processes: int | None = None,
    part: Callable[[float], None] | None = None,
) -> list[SweepRun]:
    """Play all runs, a trace at a time; `part` is called with the fraction that is played.

    `kept`, one for each trace, keeps runs until all of them are there.
    """
    for trace in traces:
        check_fits(trace, requests)
    sweep_runs: list[SweepRun] = []
    for place, trace in enumerate(traces):
        runs = play(
            trace.jobs,
            requests,
            processes=processes,
            kept=kept[place] if kept else None,
            drop=False,
            part=None if part is None else within(part, place, len(traces)),
        )
        sweep_runs += [
            SweepRun(trace.path, request.policy, run.cluster, run.seed, figures(run), run.failures)
            for request, run in zip(requests, runs, strict=True)
        ]
    for store, request in product(kept, requests):
        store.drop(request)
    return sweep_runs


# --- results


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
    """A mean over replications and its 95 % confidence interval; `low` and `high` are None for a single one.

    Of a ratio: the geometric mean, and `neutral` is 1.
    """

    mean: float
    low: float | None
    high: float | None
    count: int
    over: str = "traces"
    """What the replications are: "traces", or "seeds" of a single one."""
    neutral: float = 0.0

    @property
    def certain(self) -> bool:
        """Whether the interval excludes `neutral`: the sign of a difference is not chance."""
        return self.low is not None and self.high is not None and (self.low > self.neutral or self.high < self.neutral)


@frozen
class Setting:
    """What stays the same over the replications."""

    policy: str
    cluster: str
    failures: str
    estimates: Mapping[str, Estimate]
    """By metric, without those that some run lacks."""
    against: Mapping[str, Estimate]
    """Difference to the first setting of the same cluster, by metric; empty for that one."""
    ratios: Mapping[str, Estimate]
    """Ratio to it, for the metrics in `TIMES` that are above 0 in all runs."""

    def certain(self, metric: str) -> bool:
        """Whether the difference to the first setting is significant, by the ratio if there is one."""
        return (self.ratios.get(metric) or self.against[metric]).certain


def estimate(
    values: Sequence[float], *, least: float = -inf, most: float = inf, over: str = "traces", ratio: bool = False
) -> Estimate:
    """Mean and confidence interval of at least one value, within the possible range; logarithmic for ratios."""
    sample = [log(value) for value in values] if ratio else list(values)
    mean, count, neutral = fmean(sample), len(sample), float(ratio)
    if count < 2:
        return Estimate(exp(mean) if ratio else mean, None, None, count, over, neutral)
    half = quantile(count - 1) * stdev(sample) / sqrt(count)
    low, high = mean - half, mean + half
    if ratio:
        return Estimate(exp(mean), exp(low), exp(high), count, over, neutral)
    return Estimate(mean, max(least, low), min(most, high), count, over, neutral)


def quantile(freedom: int) -> float:
    """97.5 % quantile of Student's t with these degrees of freedom; above 30 by its expansion, to four digits."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def settings(runs: Iterable[SweepRun]) -> list[Setting]:
    """Every setting in the order of its first run."""
    groups: dict[tuple[str, str, str], dict[tuple[str, int], Figures]] = {}
    for run in runs:
        groups.setdefault((run.policy, run.cluster, run.failures), {})[run.trace, run.seed] = run.figures
    firsts: dict[str, dict[tuple[str, int], Figures]] = {}
    result = []
    for (policy, cluster, failures), by_replication in groups.items():
        first = firsts.setdefault(cluster, by_replication)
        estimates: dict[str, Estimate] = {}
        against: dict[str, Estimate] = {}
        ratios: dict[str, Estimate] = {}
        for metric in METRICS:
            values = {key: getattr(run_figures, metric) for key, run_figures in by_replication.items()}
            if None in values.values():
                continue
            top = 1.0 if metric in SHARES else inf
            estimates[metric] = _over(values, least=0.0, most=top)
            baseline = {key: getattr(first[key], metric) for key in by_replication if key in first}
            if first is by_replication or not baseline or None in baseline.values():
                continue
            against[metric] = _over({key: values[key] - baseline[key] for key in baseline}, least=-top, most=top)
            if metric in TIMES and min(*baseline.values(), *values.values()) > 0:
                ratios[metric] = _ratio(values, baseline)
        result.append(Setting(policy, cluster, failures, estimates, against, ratios))
    return result


def _over(values: Mapping[tuple[str, int], float], *, least: float, most: float) -> Estimate:
    over, sample = _replications(values)
    return estimate(sample, least=least, most=most, over=over)


def _ratio(values: Mapping[tuple[str, int], float], baseline: Mapping[tuple[str, int], float]) -> Estimate:
    """The ratio of means for each trace; for a single trace, seed by seed."""
    if len({trace for trace, _ in baseline}) > 1:
        own_means, baseline_means = (
            _replications({key: table[key] for key in baseline})[1] for table in (values, baseline)
        )
        return estimate([a / b for a, b in zip(own_means, baseline_means, strict=True)], ratio=True)
    over, sample = _replications({key: values[key] / baseline[key] for key in baseline})
    return estimate(sample, over=over, ratio=True)


def _replications(values: Mapping[tuple[str, int], float]) -> tuple[str, list[float]]:
    """The kind of replication and its values: the mean over seeds of each trace; for a single trace, each seed."""
    traces: dict[str, list[float]] = {}
    for (trace, _), value in values.items():
        traces.setdefault(trace, []).append(value)
    if len(traces) > 1:
        return "traces", [fmean(row) for row in traces.values()]
    (row,) = traces.values()
    return "seeds", row[:1] if len(set(row)) == 1 else row


# --- as data


def sweep_data(runs: Sequence[SweepRun]) -> dict[str, Any]:
    """The data of ``-o json`` for a sweep: settings with estimates, and every run."""
    return {
        "settings": [
            {
                "policy": setting.policy,
                "cluster": setting.cluster,
                "failures": setting.failures or None,
                "metrics": {name: _estimate_data(value) for name, value in setting.estimates.items()},
                "against_first": {
                    name: {
                        **_estimate_data(value),
                        "significant": setting.certain(name),
                        "ratio": _estimate_data(setting.ratios[name]) if name in setting.ratios else None,
                    }
                    for name, value in setting.against.items()
                },
            }
            for setting in settings(runs)
        ],
        "runs": list(_rows(runs)),
    }


def _estimate_data(value: Estimate) -> dict[str, Any]:
    return {
        "mean": value.mean,
        "low": value.low,
        "high": value.high,
        "replications": value.count,
        "over": value.over,
    }


def _rows(runs: Iterable[SweepRun]) -> Iterator[dict[str, Any]]:
    for run in runs:
        figures = {metric: getattr(run.figures, metric) for metric in METRICS}
        yield {
            "trace": run.trace,
            "policy": run.policy,
            "cluster": run.cluster,
            "failures": run.failures,
            "seed": run.seed,
            **figures,
        }


def sweep_rows(runs: Sequence[SweepRun]) -> Iterator[dict[str, Any]]:
    """A row for each run: trace, policy, cluster, failures, seed, a column for each swept parameter, metrics.

    A parameter that a policy does not set is an empty text, a figure that a run does not have is None.
    """
    parts = [run.policy.partition(":")[2].split(",") for run in runs]
    parameters = [dict(part.partition("=")[::2] for part in row if "=" in part) for row in parts]
    names = list(dict.fromkeys(key for row in parameters for key in row))
    for run_parameters, row in zip(parameters, _rows(runs), strict=True):
        metrics = {metric: row.pop(metric) for metric in METRICS}
        yield {**row, **{name: run_parameters.get(name, "") for name in names}, **metrics}


def sweep_csv(runs: Sequence[SweepRun]) -> str:
    """The rows of `sweep_rows`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for place, row in enumerate(sweep_rows(runs)):
        if not place:
            writer.writerow(row)
        writer.writerow(["" if value is None else value for value in row.values()])
    return out.getvalue()
