"""Budgets of device hours: how they stand, and what is said about them at a submission or a push."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Protocol

from paictl.cluster.interface import (
    ClusterError,
    Configuration,
    Identity,
    JobView,
    Metered,
    UnsupportedError,
)
from paictl.config.models.services import STANDARD_NAME
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.config.reading.problem import Problem, Severity
from paictl.config.reading.source import place_of
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.operate.usage import month_span
from paictl.workload.budgets import SECTION, BudgetLevel, BudgetState, OverBudget, Used
from paictl.workload.usage import UsageKind

if TYPE_CHECKING:
    from paictl.workload.sharing import Sharing

_USED = (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC)


class BudgetPorts(Identity, Configuration, Metered, Protocol):
    """What is needed of a cluster to see how its budgets stand."""


@frozen
class BudgetReport:
    """The budgets of a cluster in a month, in the order of the configuration."""

    cluster: str
    month: str
    states: tuple[BudgetState, ...]


def budgets(cluster: BudgetPorts, vc: str | None = None, user: str | None = None) -> BudgetReport:
    """How the budgets of the newest configuration stand, those of one tenant or those that concern a user.

    Raises as `Metered.usage` does where there are budgets.
    """
    rules = sharing_of(cluster)
    states = rules.budgets.states(used_now(cluster)) if rules.budgets else []
    shown = (state for state in states if vc in (None, state.budget.vc) and (user is None or state.user in ("", user)))
    return BudgetReport(cluster.name, f"{cluster.now.astimezone(UTC):%Y-%m}", tuple(shown))


def as_data(report: BudgetReport) -> dict[str, object]:
    """The budgets as JSON values, with exact device-milliseconds."""
    return {
        "cluster": report.cluster,
        "month": report.month,
        "budgets": [
            {
                "vc": state.budget.vc,
                "user": state.user,
                "deviceHours": state.budget.hours,
                "usedDeviceMs": state.used,
                "percent": round(state.percent, 2),
                "warnAt": state.budget.warn_at,
                "over": state.budget.over.value,
                "level": state.level.value,
            }
            for state in report.states
        ],
    }


def sharing_of(cluster: Configuration) -> Sharing:
    """What the newest configuration says; nothing where none was pushed."""
    versions = cluster.configurations()
    return _sharing_in(versions[-1].files if versions else {})


def _sharing_in(files: Mapping[str, str]) -> Sharing:
    from paictl.cluster.configured import ConfigSnapshot  # late: `config validate` loads this module and pushes nothing

    return ConfigSnapshot(0, files).sharing


def used_now(cluster: BudgetPorts) -> Used:
    """Device-milliseconds of this month by (virtual cluster, user); nothing where no accounts are written yet."""
    start, end = month_span(f"{cluster.now.astimezone(UTC):%Y-%m}")
    used: Counter[tuple[str, str]] = Counter()
    for amount in cluster.usage(start, end).amounts:
        if amount.kind in _USED:
            used[amount.vc, amount.user] += amount.amount
    return used


def remarks(cluster: BudgetPorts, jobs: Iterable[JobView]) -> list[Text]:
    """What to say about the budgets of jobs that were just submitted, each budget once.

    Nothing where the accounts cannot be read: a submission does not depend on them.
    """
    try:
        rules = sharing_of(cluster)
        used = used_now(cluster) if rules.budgets else {}
    except (ClusterError, UnsupportedError):
        return []
    distinct: dict[str, Text] = {}
    for vc, user in dict.fromkeys((job.vc, job.key.partition("~")[0]) for job in jobs):
        for state in rules.budgets.concerning(vc, user, used) if rules.budgets else ():
            if state.level is BudgetLevel.WARNING or (state.level is BudgetLevel.SPENT and not state.holds):
                distinct.setdefault(state.sentence, state.sentence)
            elif state.holds:
                reason = text("jobs wait: {reason}", reason=state.reason(cluster.now.astimezone(UTC)))
                distinct.setdefault(reason, reason)
    return list(distinct.values())


def below_use(
    cluster: BudgetPorts, files: Mapping[str, str], places: Mapping[str, str] | None = None
) -> tuple[Problem, ...]:
    """Budgets in files that are used up already; nothing where the accounts cannot be read.

    `places` are the paths of the files, for messages.
    """
    content = files.get(STANDARD_NAME, "")
    if SECTION not in content:
        return ()
    try:
        rules = _sharing_in(files)
        states = rules.budgets.states(used_now(cluster)) if rules.budgets else []
    except PaictlError:  # other findings say what is wrong with the files
        return ()
    return tuple(_below_use((places or {}).get(STANDARD_NAME, STANDARD_NAME), content, rules, states))


def _below_use(path: str, content: str, rules: Sharing, states: Iterable[BudgetState]) -> Iterator[Problem]:
    (document, *_) = load_memory({path: content}).documents
    if document.kind is not FileKind.SERVICES:
        return
    rows = list(document.top.mapping(SECTION).sequence("budgets").mappings())
    for state in states:
        if state.level is BudgetLevel.SPENT and state.used:
            row = rows[rules.budgets.all.index(state.budget)]
            yield Problem(
                place_of(row.get("device-hours") or row),
                "budget",
                "budget-below-use",
                Severity.WARNING,
                text("{said}: {effect}", said=state.sentence, effect=_effect(state.budget.over)),
                text("raise it, or wait: it resets next month"),
            )


def _effect(over: OverBudget) -> Text:
    match over:
        case OverBudget.WAIT:
            return text("no new jobs start")
        case OverBudget.REFUSE:
            return text("new jobs are refused")
        case OverBudget.WARN:
            return text("new jobs start with a warning")
