"""The section `sharing` for `hived`: whether a job may start is decided by the same code as on a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import yaml

from paictl.i18n import text
from paictl.sim.policies.parameters import ParameterError
from paictl.units import Millis
from paictl.workload.budgets import SECTION, BudgetLevel, MonthUse, next_month
from paictl.workload.departments import DevicesInUse, UnusedPromises
from paictl.workload.devicelimits import HeldDevices
from paictl.workload.lending import LendUse, lend_use, promises_by_vc
from paictl.workload.sharing import Sharing, SharingUse, read_sharing

if TYPE_CHECKING:
    from paictl.sim.cluster import ClusterShape
    from paictl.sim.placement.cells import Cells
    from paictl.sim.view import JobView
    from paictl.workload.usage import UsageSpan

_LAST: Final = round(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)
"""The calendar of Python ends a year later, and a job that waits for a budget needs the end of the month."""
_ANY: Final = datetime.fromtimestamp(0, UTC)
"""For rules that do not depend on the month."""


def sharing_of(spec: ClusterShape, counted: str) -> Sharing:
    """The sharing rules of a cluster's configuration; none if `counted` is `ignore`."""
    if counted == "ignore" or spec.sharing is None:
        return Sharing()
    return read_sharing(yaml.safe_load(spec.sharing), f"{spec.text}: {SECTION}")


class SimulatedSharing:
    """Budgets, limits and departments of a configuration, with a core and simulated time.

    A job of a tenant without a quota counts for that tenant, although the core has it under another VC.
    """

    def __init__(self, cells: Cells, rules: Sharing, epoch: Millis, running: Callable[[], Iterable[UsageSpan]]) -> None:
        """`epoch` is instant 0 in Unix time (milliseconds); `running` gives the use of running jobs until now."""
        self.rules = rules
        self.holds_back = bool(rules)
        """Whether any rule can make a job wait."""
        self.epoch = epoch
        self._cells = cells
        self._running = running
        self._users: dict[int, str] = {}
        """By job that has not ended, its user."""
        self._month = MonthUse()
        self._used: tuple[Millis, Counter[tuple[str, str]]] | None = None
        """Cache of the month's use: (instant, use)."""
        self._held = HeldDevices(self._user)
        self._in_use = DevicesInUse()
        self._stand: tuple[int, LendUse] | None = None
        """Cache of the use of quotas: (version of the core, use)."""
        if self.rules.limits or self.rules.spares:
            cells.noted = self._note

    @property
    def by_user(self) -> bool:
        """Whether the answer depends on the user."""
        return bool(self.rules.limits or self.rules.budgets)

    # --- events

    def came(self, job: JobView) -> None:
        """A job arrived."""
        self._users[job.number] = job.user

    def left(self, job: JobView) -> None:
        """A job ended."""
        self._users.pop(job.number, None)

    def ran(self, span: UsageSpan) -> None:
        """A job stopped running, after the use `span`."""
        if self.rules.budgets:
            self._unix(span.end)
            self._month.add(span, self.epoch)

    def _note(self, outcomes: Sequence[object]) -> None:
        self._held.note(outcomes)
        self._in_use.note(outcomes)

    def _user(self, uid: str) -> str:
        return self._users.get(self._cells.job_of(uid), "")

    # --- decisions

    def holds(self, job: JobView, borrowed: dict[str, int], now: Millis) -> bool:
        """Whether the rules keep a waiting job from starting now; `borrowed`: opportunistic devices by tenant."""
        rules = self.rules
        request = replace(self._cells.request(job), vc=job.vc)
        promised = promises_by_vc(self._cells.engine.state) if rules.spares else {}
        use = SharingUse(
            self._month_use(now) if rules.budgets else {},
            self._held.devices,
            borrowed,
            rules.spares.use(job.vc, promised, self._in_use.devices),
            self.lending(borrowed) if rules.lending and not request.guaranteed else None,
        )
        return bool(rules.obstacle(request, job.user, use, self._at(now) if rules.budgets else _ANY))

    def strained(self, job: JobView, now: Millis) -> tuple[bool, bool]:
        """(Whether a budget would keep a job from restarting, whether one has reached its warning level)."""
        budgets = self.rules.budgets
        states = budgets.concerning(job.vc, job.user, self._month_use(now)) if budgets else []
        return any(state.holds for state in states), any(state.level is not BudgetLevel.OK for state in states)

    def month_end(self, jobs: Iterable[JobView], now: Millis) -> Millis | None:
        """When the month ends, if one of the jobs is held back by budgets only until then; else None."""
        budgets = self.rules.budgets
        used = self._month_use(now) if budgets else {}
        for job in jobs if budgets else ():
            holding = budgets.holding(job.vc, job.user, used)
            if holding and all(state.budget.most for state in holding):
                return Millis(round(next_month(self._at(now)).timestamp() * 1000) - self.epoch)
        return None

    def lending(self, borrowed: dict[str, int]) -> LendUse:
        """The use of quotas; a job of a tenant without a quota borrows for that tenant."""
        version = self._cells.engine.version
        if self._stand is None or self._stand[0] != version:
            self._stand = version, replace(lend_use(self._cells.engine.state), borrowed=dict(borrowed))
        return self._stand[1]

    def unused(self, borrowed: dict[str, int]) -> UnusedPromises:
        """The unused devices of departments."""
        use = self.lending(borrowed)
        return UnusedPromises(self.rules.departments, use.promised, use.used)

    def _month_use(self, now: Millis) -> Counter[tuple[str, str]]:
        if self._used is None or self._used[0] != now:
            self._unix(now)
            self._used = now, self._month.until(now, self.epoch, self._running())
        return self._used[1]

    def _at(self, now: Millis) -> datetime:
        return datetime.fromtimestamp(self._unix(now) / 1000, UTC)

    def _unix(self, now: Millis) -> Millis:
        """An instant in Unix time (milliseconds); raises `ParameterError` after the end of the calendar."""
        if self.epoch + now >= _LAST:
            raise ParameterError(
                text("budgets are kept by calendar month, and this trace runs past the year 9998"),
                hint="write an earlier start, or sharing=ignore",
            )
        return Millis(self.epoch + now)
