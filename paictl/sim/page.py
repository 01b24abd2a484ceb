"""Runs of one trace as a page for the browser: completion times, queue, use and fragments over time, tenants, pairs.

The page loads nothing and needs no network; its parts are in ``templates/pages/sim.*``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from paictl.i18n import in_language, joined, text
from paictl.pages import filled_page
from paictl.sim.compare import Pair, differences
from paictl.sim.metrics import Figures, percentile
from paictl.sim.policies.parameters import as_data
from paictl.sim.policies.table import policy_class
from paictl.sim.report import Comparison, label, plain
from paictl.sim.run import FINISHED, Interval, JobOutcome, RunResult

PAGE_WORDS: Final = (
    "(no tenant)",
    "95% done within",
    "By how much, from most gained to most lost",
    "Completion times",
    "Device hours",
    "Devices in use",
    "Difference in completion times, {b} minus {a}, job by job from most gained to most lost",
    "Figures",
    "Fragmentation: free devices on partly used nodes, as a share of all devices",
    "In every chart: move the pointer, or press the arrow keys once the chart has the focus, to read values.",
    "Job by job",
    "Number of jobs",
    "Waiting jobs",
    "Waiting jobs over time",
    "Longest wait",
    "Mean completion",
    "Mean time without devices.",
    "Mean time without devices, for 12 of {count} tenants; the table lists all.",
    "Mean wait",
    "Over time",
    "Parts of this page",
    "Run",
    "Runs",
    "Share of devices in use over time",
    "Share of devices that are free on partly used nodes over time",
    "Share of jobs by completion time",
    "Share of jobs that complete within a time after submission; further left is better.",
    "Tenant",
    "Tenants",
    "The same jobs under both policies: how many complete earlier, and by how much.",
    "These policies ignore placement.",
    "after {span}",
    "job",
    "within {span}",
    "{better} better, {same} same, {worse} worse",
    "{better} jobs complete earlier under {b}, by {gain} on average; {worse} later, by {loss}; {same} at the same "
    "time. Mean difference {mean}.",
    "{b} against {a}",
    "{count} better",
    "{count} same",
    "{count} worse",
    "{label} with {parameters}",
    "{number} job",
    "{number} jobs",
    "{percent}% of the jobs",
    "{span} or less",
)
"""Keys of texts, as `said` of ``templates/pages/sim.js`` asks for them."""


POINTS: Final = 240
"""Most points of a curve: what a screen can show."""

_FIGURES: Final[tuple[tuple[str, str, str, int], ...]] = (
    ("Jobs done", "jobs", "count", 1),
    ("Not done", "unfinished", "count", -1),
    ("Mean completion", "mean_jct", "span", -1),
    ("Median completion", "p50_jct", "span", -1),
    ("95 % done within", "p95_jct", "span", -1),
    ("99 % done within", "p99_jct", "span", -1),
    ("Mean wait to the first start", "mean_queueing", "span", -1),
    ("Mean time without devices", "mean_waiting", "span", -1),
    ("Makespan", "makespan", "span", -1),
    ("Preemptions", "preemptions", "count", 0),
    ("Migrations", "migrations", "count", 0),
    ("Resizes", "resizes", "count", 0),
    ("Devices in use", "utilization", "share", 1),
    ("Fragmentation", "fragmentation", "share", -1),
    ("Deadlines missed", "deadline_misses", "count", -1),
    ("Weighted miss", "weighted_miss", "share", -1),
    ("Mean completion with a deadline", "slo_jct", "span", -1),
    ("Mean completion without one", "best_effort_jct", "span", -1),
    ("Admitted", "admitted", "count", 0),
    ("Admitted and missed", "admitted_misses", "count", -1),
)
"""(title, field of `Figures`, kind of value, direction: 1 if more is better, -1 if less, 0 neither)."""


_WORDS: Final = (*PAGE_WORDS, *(row[0] for row in _FIGURES))


def page(comparison: Comparison, title: str, language: str = "en") -> str:
    """The page in a language; raises `FileNotFoundError` if the installation lost its parts."""
    return filled_page(
        "sim.html",
        "sim.css",
        ["sim.js"],
        title=in_language(title, language),
        data=page_data(comparison, title, language),
        language=language,
    )


def page_data(comparison: Comparison, title: str, language: str = "en") -> dict[str, Any]:
    """What the script reads; times are seconds."""
    labels = [label(run, comparison.runs) for run in comparison.runs]
    trace = comparison.trace
    seeds = ", ".join(dict.fromkeys(str(run.seed) for run in comparison.runs))
    parts = dict.fromkeys((run.cluster, run.devices) for run in comparison.runs)
    clusters = joined("; ", (text("{name} ({devices} devices)", name=name, devices=number) for name, number in parts))
    summary = text(
        "{trace} (sha256 {digest}), {jobs:,} jobs; cluster {clusters}; seed {seeds}",
        trace=trace.path,
        digest=trace.sha256[:12],
        jobs=len(trace.jobs),
        clusters=clusters,
        seeds=seeds,
    )
    if trace.bad:
        summary = text("{about}; {rows:,} rows left out", about=summary, rows=len(trace.bad))
    return {
        "title": in_language(title, language),
        "about": in_language(summary, language),
        "warnings": [in_language(warning, language) for warning in comparison.warnings],
        "words": {} if language == "en" else {key: in_language(key, language) for key in _WORDS},
        "figures": _figures(comparison.figures),
        "runs": [_run(name, run) for name, run in zip(labels, comparison.runs, strict=True)],
        "pairs": [_pair(pair, comparison.runs, labels) for pair in comparison.pairs],
    }


def _figures(all_figures: Sequence[Figures]) -> list[list[Any]]:
    rows = []
    for title, field, kind, direction in _FIGURES:
        values = [getattr(figures, field) for figures in all_figures]
        if any(value for value in values) or field in ("jobs", "mean_jct"):
            rows.append([title, kind, direction, values])
    return rows


def _run(name: str, run: RunResult) -> dict[str, Any]:
    done = sorted(outcome.jct / 1000 for outcome in run.outcomes if outcome.jct is not None)
    first = run.intervals[0].start if run.intervals else 0

    def curve(value: Callable[[Interval], float]) -> list[list[float]]:
        rows = _merged(run.intervals)
        points = [[(row.start - first) / 1000, round(value(row), 5)] for row in rows]
        return [*points, [(rows[-1].end - first) / 1000, points[-1][1]]] if rows else []

    size = run.devices
    return {
        "label": name,
        "parameters": _chosen(run),
        "located": run.located,
        "jct": _distribution(done, len(run.outcomes)),
        "queue": curve(lambda row: row.waiting / (row.end - row.start)),
        "used": curve(lambda row: row.used / (row.end - row.start) / size),
        "fragments": curve(lambda row: row.stray / (row.end - row.start) / size),
        "tenants": _tenants(run.outcomes),
    }


def _chosen(run: RunResult) -> str:
    """The parameters of a run that are not the policy's own, as they are written."""
    usual = as_data(policy_class(run.policy).Parameters())
    return ", ".join(f"{key}={plain(value)}" for key, value in run.parameters.items() if value != usual.get(key))


def _distribution(done: Sequence[float], jobs: int) -> list[list[float]]:
    """(seconds, share of all jobs done within) at evenly spaced ranks."""
    if not done:
        return []
    ranks = sorted({round(place * (len(done) - 1) / (POINTS - 1)) for place in range(POINTS)})
    return [[done[rank], round((rank + 1) / jobs, 6)] for rank in ranks]


def _merged(intervals: Sequence[Interval]) -> list[Interval]:
    """Neighbouring intervals merged until there are at most `POINTS`."""
    step = -(-len(intervals) // POINTS) or 1
    rows = []
    for start in range(0, len(intervals), step):
        part = intervals[start : start + step]
        sums = (sum(getattr(row, field) for row in part) for field in ("used", "running", "waiting", "queued", "stray"))
        rows.append(Interval(part[0].start, part[-1].end, *sums))
    return [row for row in rows if row.end > row.start]


def _tenants(outcomes: Sequence[JobOutcome]) -> list[list[Any]]:
    """VC, jobs, mean wait, longest wait, mean completion, 95 % of them, device hours."""
    groups: dict[str, list[JobOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.vc, []).append(outcome)
    rows = []
    for name in sorted(groups):
        done = [outcome for outcome in groups[name] if outcome.ending in FINISHED]
        waits = [outcome.waiting or 0 for outcome in done]
        jcts = sorted(outcome.jct or 0 for outcome in done)
        late = percentile(jcts, 0.95)
        rows.append(
            [
                name,
                len(groups[name]),
                _mean(waits),
                max(waits, default=0) / 1000,
                _mean(jcts),
                None if late is None else late / 1000,
                sum(outcome.service for outcome in groups[name]) / 3_600_000,
            ]
        )
    return rows


def _pair(pair: Pair, runs: Sequence[RunResult], labels: Sequence[str]) -> dict[str, Any]:
    changes = sorted(difference.change / 1000 for difference in differences(runs[pair.first], runs[pair.second]))
    last = max(1, len(changes) - 1)
    ranks = sorted({round(place * (len(changes) - 1) / (POINTS - 1)) for place in range(POINTS)}) if changes else []
    return {
        "a": labels[pair.first],
        "b": labels[pair.second],
        "better": pair.better,
        "worse": pair.worse,
        "same": pair.same,
        "gain": pair.mean_gain,
        "loss": pair.mean_loss,
        "mean": pair.mean_difference,
        "curve": [[round(rank / last, 5), changes[rank]] for rank in ranks],
    }


def _mean(millis: Sequence[int]) -> float | None:
    return sum(millis) / len(millis) / 1000 if millis else None
