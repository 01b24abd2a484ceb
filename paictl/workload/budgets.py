"""Budgets of device hours for tenants and users, and the use of the present month (`docs/budgets.md`).

Pure: what was used in the month is given, in device-milliseconds by (virtual cluster, user).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.units import Millis
from paictl.workload.usage import UsageKind, UsageSpan
from paictl.workload.usagereport import HOUR

SECTION: Final = "sharing"
"""The section of services-configuration.yaml that says them, and all else about sharing."""
EACH: Final = "*"
"""As a user: each one who has no entry of their own for the same virtual cluster."""
WARN_AT: Final = 80.0
"""Percent at which a budget warns where it does not say."""

Used: TypeAlias = Mapping[tuple[str, str], int]
"""Device-milliseconds of a month by (virtual cluster, user), guaranteed and opportunistic together; never changed."""


class OverBudget(StrEnum):
    """What happens to jobs when a budget is used up; those that run go on in any case."""

    WAIT = "wait"
    REFUSE = "refuse"
    WARN = "warn"


class BudgetLevel(StrEnum):
    """How much of a budget is used."""

    OK = "ok"
    WARNING = "warning"
    SPENT = "spent"


@frozen
class UsageBudget:
    """A limit of device time in a calendar month (UTC); an empty `vc` or `user` stands for all of them together."""

    vc: str
    user: str
    most: int
    """Device-milliseconds."""
    warn_at: float = WARN_AT
    """Percent."""
    over: OverBudget = OverBudget.WAIT

    @property
    def hours(self) -> float:
        """Device hours in a month."""
        return self.most / HOUR


@frozen
class BudgetState:
    """A budget as it stands for `user`, who is one of many where the budget is for each; `used` is in device-ms."""

    budget: UsageBudget
    user: str
    used: int

    @property
    def level(self) -> BudgetLevel:
        """How much is used; a budget of nothing is spent from the beginning."""
        if self.used >= self.budget.most:
            return BudgetLevel.SPENT
        warned = self.used * 100 >= self.budget.most * self.budget.warn_at
        return BudgetLevel.WARNING if warned else BudgetLevel.OK

    @property
    def percent(self) -> float:
        """The share that is used; 100 for a budget of nothing."""
        return 100 * self.used / self.budget.most if self.budget.most else 100.0

    @property
    def holds(self) -> bool:
        """Whether no new job starts because of it."""
        return self.used >= self.budget.most and self.budget.over is not OverBudget.WARN

    @property
    def whose(self) -> Text:
        """Whom it is for."""
        if self.user and self.budget.vc:
            return text("user {user} in virtual cluster {vc}", user=self.user, vc=self.budget.vc)
        if self.user:
            return text("user {user}", user=self.user)
        if self.budget.vc:
            return text("virtual cluster {vc}", vc=self.budget.vc)
        return text("the whole cluster")

    @property
    def subject(self) -> str:
        """What an event about it is about: ``kind/name``."""
        if self.user:
            return f"user/{self.user}"
        return f"vc/{self.budget.vc}" if self.budget.vc else "cluster/budget"

    @property
    def sentence(self) -> Text:
        """How it stands, in a sentence."""
        return text(
            "{whose} has used {used:,.2f} of {hours:,.6g} device hours in its budget",
            whose=self.whose,
            used=self.used / HOUR,
            hours=self.budget.hours,
        )

    def reason(self, now: datetime) -> Text:
        """Why jobs wait for it; the same words all month, so that no user is warned twice."""
        if not self.budget.most:
            return text("the budget of {whose} is 0 device hours", whose=self.whose)
        return text(
            "the budget of {whose} is used up: {hours:,.6g} device hours in {month}; it resets on {day}",
            whose=self.whose,
            hours=self.budget.hours,
            month=f"{now:%Y-%m}",
            day=f"{next_month(now):%Y-%m-%d}",
        )


class Budgets:
    """All budgets of a cluster, in the order of the configuration."""

    def __init__(self, budgets: Iterable[UsageBudget] = ()) -> None:
        self.all: Sequence[UsageBudget] = tuple(budgets)
        self._named = {(budget.vc, budget.user) for budget in self.all}
        self._by_vc = {
            vc: tuple(budget for budget in self.all if budget.vc in ("", vc))
            for vc in ("", *(budget.vc for budget in self.all))
        }
        """Those that concern a virtual cluster (empty: one without a budget of its own): a decision must not look at
        all."""
        self._sums: tuple[Used, Counter[tuple[str, str]]] = {}, Counter()
        """The use that was asked about last, and its sums: a decision must not add up all users."""
        self._holding: dict[tuple[str, str], list[BudgetState]] = {}
        """What `holding` has found by that use."""

    def __bool__(self) -> bool:
        return bool(self.all)

    def of(self, vc: str, user: str) -> Iterator[UsageBudget]:
        """The budgets that a job of a user in a virtual cluster has to fit."""
        for budget in self._by_vc.get(vc, self._by_vc[""]):
            if budget.user in ("", user) or (budget.user == EACH and (budget.vc, user) not in self._named):
                yield budget

    def state(self, budget: UsageBudget, user: str, used: Used) -> BudgetState:
        """How a budget stands for a user."""
        who = "" if not budget.user else user
        return BudgetState(budget, who, self._summed(used)[budget.vc, who])

    def _summed(self, used: Used) -> Counter[tuple[str, str]]:
        if self._sums[0] is not used:
            self._sums, self._holding = (used, _sums(used)), {}
        return self._sums[1]

    def concerning(self, vc: str, user: str, used: Used) -> list[BudgetState]:
        """How the budgets stand that a job of a user in a virtual cluster has to fit."""
        return [self.state(budget, user, used) for budget in self.of(vc, user)]

    def holding(self, vc: str, user: str, used: Used) -> list[BudgetState]:
        """The budgets because of which no job of a user in a virtual cluster starts; must not be changed."""
        self._summed(used)
        if (vc, user) not in self._holding:
            self._holding[vc, user] = [state for state in self.concerning(vc, user, used) if state.holds]
        return self._holding[vc, user]

    def states(self, used: Used) -> list[BudgetState]:
        """How all budgets stand; one for each user has a state for every user who used something."""
        states = []
        for budget in self.all:
            if budget.user != EACH:
                states.append(self.state(budget, budget.user, used))
                continue
            users = {
                user for vc, user in used if user and budget.vc in ("", vc) and (budget.vc, user) not in self._named
            }
            states.extend(self.state(budget, user, used) for user in sorted(users))
        return states


def _sums(used: Used) -> Counter[tuple[str, str]]:
    """The use of each (virtual cluster, user), where an empty one stands for all of them together."""
    sums: Counter[tuple[str, str]] = Counter()
    for (vc, user), amount in used.items():
        for key in {(vc, user), (vc, ""), ("", user), ("", "")}:
            sums[key] += amount
    return sums


def next_month(now: datetime) -> datetime:
    """The first instant of the month that follows an instant in UTC."""
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return now.replace(year=year, month=month, day=1, hour=0, minute=0, second=0, microsecond=0)


_USED: Final = (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC)


def month_of(at: Millis) -> Millis:
    """The first instant of the month (UTC) of an instant; both in Unix time."""
    first = datetime.fromtimestamp(at / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return Millis(round(first.timestamp() * 1000))


class MonthUse:
    """What has ended in a month, by (virtual cluster, user), in device-milliseconds; instants are Unix time.

    Its month is that of the last span it was told of. Time never goes back, so older months are of no use.
    """

    def __init__(self) -> None:
        self.start = Millis(0)
        """The first instant of the month."""
        self._used: Counter[tuple[str, str]] = Counter()

    def add(self, span: UsageSpan, epoch: Millis) -> None:
        """A span has ended, whose instants count from `epoch`; what of it lies before its last month is left out."""
        end = Millis(epoch + span.end)
        month = month_of(Millis(end - 1)) if span.end > span.start else self.start
        if month > self.start:
            self.start, self._used = month, Counter()
        if span.kind in _USED and (amount := span.within(Millis(self.start - epoch), span.end)):
            self._used[span.vc, span.user] += amount

    def until(self, now: Millis, epoch: Millis, open_spans: Iterable[UsageSpan]) -> Counter[tuple[str, str]]:
        """The use of the month of an instant, what still runs included; `now` counts from `epoch` as the spans do."""
        month = month_of(Millis(epoch + now))
        used = Counter(self._used) if month == self.start else Counter[tuple[str, str]]()
        for span in open_spans:
            if span.kind in _USED and (amount := span.within(Millis(month - epoch), now)):
                used[span.vc, span.user] += amount
        return used

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"start": self.start, "used": [[*key, amount] for key, amount in self._used.items()]}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> MonthUse:
        """The inverse of `dump`."""
        use = cls()
        use.start = Millis(data["start"])
        use._used.update({(vc, user): amount for vc, user, amount in data["used"]})
        return use
