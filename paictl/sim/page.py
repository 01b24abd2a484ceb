"""Runs of one trace as one page for the browser: completion times, queue, use and fragments over time, tenants, pairs.

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
from paictl.sim.report import Compared, label, plain
from paictl.sim.run import FINISHED, Interval, JobOutcome, RunResult

PAGE_WORDS: Final = (
    "(no tenant)",
    "95% done within",
    "By how much, from most gained to most lost",
    "Completion times",
    "Device hours",
    "Devices in use",
    "Difference of completion times, {b} minus {a}, job by job from most gained to most lost",
    "Figures",
    "Fragmentation: free devices on partly used nodes, as a share of all devices",
    "In every chart: move the pointer, or the arrow keys once it has the focus, to read values.",
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
"""(words, field of `Figures`, kind of value, 1 more is better, -1 less, 0 neither)."""


_WORDS: Final = (*PAGE_WORDS, *(row[0] for row in _FIGURES))


def page(given: Compared, title: str, language: str = "en") -> str:
    """The page in a language; raises `FileNotFoundError` if the installation lost its parts."""
    return filled_page(
        "sim.html", "sim.css", ["sim.js"], title=in_language(title, language), data=page_data(given, title, language),
        language=language,
    )  # fmt: skip


def page_data(given: Compared, title: str, language: str = "en") -> dict[str, Any]:
    """What the script reads; times are seconds."""
    labels = [label(run, given.runs) for run in given.runs]
    trace = given.trace
    seeds = ", ".join(dict.fromkeys(str(run.seed) for run in given.runs))
    parts = dict.fromkeys((run.cluster, run.devices) for run in given.runs)
    clusters = joined("; ", (text("{name} ({devices} devices)", name=name, devices=number) for name, number in parts))
    about = text(
        "{trace} (sha256 {digest}), {jobs:,} jobs; cluster {clusters}; seed {seeds}",
        trace=trace.path, digest=trace.sha256[:12], jobs=len(trace.jobs), clusters=clusters, seeds=seeds,
    )  # fmt: skip
    if trace.bad:
        about = text("{about}; {rows:,} rows left out", about=about, rows=len(trace.bad))
    return {
        "title": in_language(title, language),
        "about": in_language(about, language),
        "warnings": [in_language(warning, language) for warning in given.warnings],
        "words": {} if language == "en" else {key: in_language(key, language) for key in _WORDS},
        "figures": _figures(given.figures),
        "runs": [_run(name, run) for name, run in zip(labels, given.runs, strict=True)],
        "pairs": [_pair(pair, given.runs, labels) for pair in given.pairs],
    }


def _figures(found: Sequence[Figures]) -> list[list[Any]]:
    rows = []
    for words, field, kind, better in _FIGURES:
        values = [getattr(figures, field) for figures in found]
        if any(value for value in values) or field in ("jobs", "mean_jct"):
            rows.append([words, kind, better, values])
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
    """As few neighbours together as there are points."""
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
        rows.append([
            name, len(groups[name]), _mean(waits), max(waits, default=0) / 1000, _mean(jcts),
            None if late is None else late / 1000, sum(outcome.service for outcome in groups[name]) / 3_600_000,
        ])  # fmt: skip
    return rows


def _pair(one: Pair, runs: Sequence[RunResult], labels: Sequence[str]) -> dict[str, Any]:
    changes = sorted(found.change / 1000 for found in differences(runs[one.first], runs[one.second]))
    last = max(1, len(changes) - 1)
    ranks = sorted({round(place * (len(changes) - 1) / (POINTS - 1)) for place in range(POINTS)}) if changes else []
    return {
        "a": labels[one.first],
        "b": labels[one.second],
        "better": one.better,
        "worse": one.worse,
        "same": one.same,
        "gain": one.mean_gain,
        "loss": one.mean_loss,
        "mean": one.mean_difference,
        "curve": [[round(rank / last, 5), changes[rank]] for rank in ranks],
    }


def _mean(millis: Sequence[int]) -> float | None:
    return sum(millis) / len(millis) / 1000 if millis else None
