"""Budgets, limits and run times, in the section `sharing`.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    sharing:
      budgets:
      - {vc: vision, device-hours: 5000}
      - {vc: vision, user: ann, device-hours: 400}
      user-limits:
      - {vc: vision, devices: 16}
      run-times:
      - {vc: vision, default: 24h, max: 7d}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.config.reading.source import place_of
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.units import Millis, span_text
from paictl.workload.runlimits import limit_of

_EACH = "*"


@rule("SVC730", "shared-twice", ERROR)
def shared_twice(document: Document) -> Findings:
    """Two entries of a list in `sharing` are for the same virtual cluster and user.

    Why: it is unclear which of the two is intended, and the larger one has no effect.

    Fails with::

        # services-configuration.yaml
           user-limits:
           - {vc: vision, devices: 16}
        +  - {vc: vision, user: "*", devices: 8}
    """
    # Every entry after the first for its virtual cluster and user.
    defaults = {
        "budgets": "",
        "user-limits": _EACH,
        "borrow-limits": "",
        "run-times": "",
        "backfill": "",
        "spares": "",
        "min-run-times": "",
        "lend-limits": "",
        "task-limits": _EACH,
        "history-limits": _EACH,
    }
    for kind, default in defaults.items():
        first: dict[tuple[str, str], MappingNode] = {}
        for row in _rows(document, kind):
            key = _text(row, "vc"), _text(row, "user") or default
            earlier = first.setdefault(key, row)
            if earlier is not row:
                message = text(
                    "a second entry of {kind} for {key}, the first is in line {line}",
                    kind=kind,
                    key=_whose(*key),
                    line=place_of(earlier).line,
                )
                yield Finding(row, message, "remove one of the two")


@rule("SVC731", "budget-without-accounts", ERROR)
def budget_without_accounts(document: Document) -> Findings:
    """There are budgets, or an order by recent use, but no accounts of device time are kept.

    Why: what was used follows from the accounts, so the scheduler does not start with these settings.

    Fails with::

        # services-configuration.yaml
           - {vc: vision, default: 24h, max: 7d}
        +hivedscheduler: {accounts: false}
    """
    # The list of budgets and the order, if accounts are switched off.
    accounts = document.top.mapping("hivedscheduler").get("accounts")
    off = isinstance(accounts, ScalarNode) and accounts.value is False
    sharing = document.top.mapping("sharing")
    if off and (at := sharing.key("budgets")) is not None:
        yield Finding(at, "budgets need accounts of device time", "remove accounts: false, or the budgets")
    if off and (at := sharing.key("opportunistic-order")) is not None:
        message = "opportunistic-order needs accounts of device time"
        yield Finding(at, message, "remove accounts: false, or opportunistic-order")


@rule("SVC732", "budget-out-of-reach", WARNING)
def budget_out_of_reach(document: Document) -> Findings:
    """The budget of a user in a virtual cluster is larger than the budget of the virtual cluster.

    Why: a job has to fit both budgets, so the user can never use up the larger one.

    Fails with::

        # services-configuration.yaml
        -  - {vc: vision, user: ann, device-hours: 400}
        +  - {vc: vision, user: ann, device-hours: 6000}
    """
    # Every budget of a user, or of each, with more hours than the budget of its virtual cluster.
    whole = {_text(row, "vc"): _hours(row) for row in _rows(document, "budgets") if not _text(row, "user")}
    for row in _rows(document, "budgets"):
        most, hours = whole.get(_text(row, "vc")), _hours(row)
        if _text(row, "user") and most is not None and hours is not None and hours > most:
            message = text(
                "a budget of {hours:,g} device hours, but that of {row} is {most:,g}",
                hours=hours,
                row=_whose(_text(row, "vc"), ""),
                most=most,
            )
            yield Finding(row.get("device-hours") or row, message, "lower it, or raise the other one")


@rule("SVC733", "run-time-over-maximum", ERROR)
def run_time_over_maximum(document: Document) -> Findings:
    """The default run time of a virtual cluster is longer than its maximum.

    Why: jobs that do not set a limit would get one that jobs may not ask for.

    Fails with::

        # services-configuration.yaml
        -  - {vc: vision, default: 24h, max: 7d}
        +  - {vc: vision, default: 10d, max: 7d}
    """
    for row in _rows(document, "run-times"):
        default, most = row.scalar("default"), row.scalar("max")
        if default is None or most is None:
            continue
        span, bound = _span(default), _span(most)
        if span is not None and bound is not None and span > bound:
            message = text(
                "the default run time {span} is longer than the maximum {bound}",
                span=span_text(span),
                bound=span_text(bound),
            )
            yield Finding(default, message, text("write at most {most}", most=most.text))


@rule("SVC734", "default-run-time-unused", WARNING)
def default_unused(document: Document) -> Findings:
    """A virtual cluster has a default run time, and requires that jobs set theirs.

    Why: a job that does not set a limit is refused, so no job ever gets the default.

    Fails with::

        # services-configuration.yaml
        -  - {vc: vision, default: 24h, max: 7d}
        +  - {vc: vision, default: 24h, required: true}
    """
    for row in _rows(document, "run-times"):
        default, required = row.key("default"), row.scalar("required")
        if default is not None and required is not None and required.text == "true":
            message = text("jobs of {row} must set their run time, so no job gets the default", row=_text(row, "vc"))
            yield Finding(default, message, "remove one of the two keys")


@rule("SVC735", "backfill-without-limits", WARNING)
def backfill_without_limits(document: Document) -> Findings:
    """A virtual cluster has backfill, but its jobs can run without a run-time limit.

    Why: no start can be promised while jobs without a limit hold the cells, so backfill has no effect.

    Fails with::

        # services-configuration.yaml
           - {vc: vision, default: 24h, max: 7d}
        +  backfill:
        +  - {vc: speech, mode: easy}
    """
    # Every entry of backfill for a virtual cluster without a default, a maximum or required limits.
    limited = {_text(row, "vc") for row in _rows(document, "run-times") if _limits(row)}
    for row in _rows(document, "backfill"):
        vc = _text(row, "vc")
        if vc not in limited and (vc or not limited):
            message = text(
                "jobs of {vc} may run without a limit", vc=_whose(vc, "") if vc else text("all virtual clusters")
            )
            yield Finding(row, message, "add an entry to run-times with default, max, or required: true")


@rule("SVC736", "min-run-time-over-maximum", WARNING)
def min_run_time_over_maximum(document: Document) -> Findings:
    """The minimum run time of a virtual cluster is not shorter than the maximum run time of its jobs.

    Why: none of its jobs is ever preempted by a job with a higher priority, so priorities have no effect on running
    jobs.

    Fails with::

        # services-configuration.yaml
           - {vc: vision, default: 24h, max: 7d}
        +  min-run-times:
        +  - {vc: vision, time: 7d}
    """
    most = {_text(row, "vc"): row.scalar("max") for row in _rows(document, "run-times")}
    for row in _rows(document, "min-run-times"):
        time, bound = row.scalar("time"), most.get(_text(row, "vc"))
        if time is None or bound is None:
            continue
        span, limit = _span(time), _span(bound)
        if span is not None and limit is not None and span >= limit:
            message = text(
                "the minimum run time {span} is not shorter than the maximum {limit}",
                span=span_text(span),
                limit=span_text(limit),
            )
            yield Finding(time, message, text("write less than {bound}", bound=bound.text))


def _limits(row: MappingNode) -> bool:
    required = row.scalar("required")
    return any(row.key(key) for key in ("default", "max")) or (required is not None and required.text == "true")


def _rows(document: Document, kind: str) -> Iterator[MappingNode]:
    yield from document.top.mapping("sharing").sequence(kind).mappings()


def _text(row: MappingNode, key: str) -> str:
    node = row.text(key)
    return "" if node is None else node.text


def _hours(row: MappingNode) -> float | None:
    node = row.get("device-hours")
    value = node.value if isinstance(node, ScalarNode) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _span(node: ScalarNode) -> Millis | None:
    try:
        return limit_of(node.text)
    except PaictlError:  # the schema reports it
        return None


def _whose(vc: str, user: str) -> str:
    who = text("each user") if user == _EACH else text("user {user}", user=user) if user else ""
    where = text("virtual cluster {vc}", vc=vc) if vc else ""
    if who and where:
        return text("{user} in {where}", user=who, where=where)
    return who or where or text("the whole cluster")
