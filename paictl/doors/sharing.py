"""What holds gangs back on Kubernetes besides the scheduler: budgets and limits for users (`docs/budgets.md`).

The rules are checked under the core's lock before a decision. What users hold is derived from the groups; what tenants
have used in the month comes from the accounts every few seconds, and until it is known no gang with a budget starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from paictl.cluster.pods.lines import PodTimes, group_times
from paictl.workload.budgets import BudgetState, Used
from paictl.workload.departments import DepartmentUse, DevicesInUse, UnusedPromises
from paictl.workload.devicelimits import BorrowedDevices, DevicesBy, HeldDevices
from paictl.workload.lending import LendUse, lend_use, promises_by_vc
from paictl.workload.lentorder import LentDevices, RecentUse, Turns
from paictl.workload.preemption import GroupTimes, SparingRules
from paictl.workload.sharing import Sharing, SharingUse

if TYPE_CHECKING:
    from paictl.doors.table import PodTable
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.units import Millis


class DoorSharing:
    """The rules of the configuration together with the current use; needs the core's lock."""

    def __init__(self, rules: Sharing, table: PodTable, state: Callable[[], State], now: Callable[[], Millis]) -> None:
        """`state` returns the state of the core's engine, `now` milliseconds since 1970."""
        self.rules = rules
        self.month: Used | None = None
        """Device-milliseconds of the month by (virtual cluster, user); None until the accounts are read."""
        self._table = table
        self._state = state
        self._by_vc = promises_by_vc(state())
        """Devices that the configuration promises, by virtual cluster."""
        self._held = HeldDevices(self._user)
        self._borrowed = BorrowedDevices()
        self._unguaranteed = LentDevices(self._user)
        self._used = DevicesInUse()
        counters = (
            (self._held, rules.limits),
            (self._borrowed, rules.borrowing),
            (self._unguaranteed, rules.order),
            (self._used, rules.departments or rules.lending or rules.spares),
        )
        self._counters: list[DevicesBy[Any]] = [counter for counter, rule in counters if rule]
        """The counters that some rule needs."""
        self.recent: RecentUse | None = None
        """Recent use without a guarantee; None until the accounts are read."""
        self.sparing = SparingRules(rules.preemption, self._times, now, rules.departments)
        """What running groups would lose, as the core asks."""
        self._holding: frozenset[tuple[str, str, str]] = frozenset()
        self._answer: tuple[PodRequest, str, int, str] | None = None
        """The last guaranteed request in `obstacle`, with its user, the second of the question, and the answer."""

    def _user(self, uid: str) -> str:
        entry = self._table.by_uid.get(uid)
        return entry.user if entry is not None else ""

    def _times(self, group: Group) -> GroupTimes | None:
        """Since when a group runs; None if none of its pods do."""
        return group_times(group, self._pod_times)

    def _pod_times(self, uid: str) -> PodTimes | None:
        entry = self._table.by_uid.get(uid)
        return None if entry is None else PodTimes(entry.limit, entry.began, entry.checkpoint)

    def start(self, groups: Mapping[str, Group]) -> None:
        """Start with the groups of a core that opens; `note` keeps them up to date."""
        self._answer = None
        for counter in self._counters:
            counter.start(groups)

    def note(self, outcomes: Sequence[object]) -> None:
        """Groups have changed."""
        self._answer = None
        for counter in self._counters:
            counter.note(outcomes)

    def turns(self) -> Turns | None:
        """The current order of opportunistic gangs; None: by creation time.

        Until the accounts are read, only what is in use counts.
        """
        departments, order = self.rules.departments, self.rules.order
        unused = UnusedPromises(departments, self._by_vc, self._used.devices) if departments else None
        if order is None:
            return None if unused is None else Turns.by_departments(unused)
        return Turns(self.recent or {}, self._unguaranteed.devices, self._by_vc, order.half_life, unused)

    def departments(self) -> list[DepartmentUse]:
        """Use and promise of each department."""
        return self.rules.departments.use(self._by_vc, self._used.devices)

    def lent_lately(self) -> dict[str, int]:
        """Decayed device-milliseconds without a guarantee by virtual cluster; empty without an order."""
        used: Counter[str] = Counter(dict.fromkeys(self._by_vc, 0))
        for (vc, _), amount in (self.recent or {}).items():
            used[vc] += amount
        return dict(used) if self.rules.order is not None and self.recent is not None else {}

    @property
    def awaits_accounts(self) -> bool:
        """Whether there are budgets, but the use is not known yet."""
        return bool(self.rules.budgets) and self.month is None

    def obstacle(self, request: PodRequest, now: float) -> str:
        """Why a gang that has no place may not get one at a Unix time; empty if it may."""
        user, last = self._user(request.uid), self._answer
        if last is not None and last[0] is request and last[1:3] == (user, int(now)):
            return last[3]  # with backfill, one decision asks for its pod and again for its line
        answer = self._obstacle(request, user, now)
        self._answer = (request, user, int(now), answer) if request.guaranteed else None
        return answer

    def _obstacle(self, request: PodRequest, user: str, now: float) -> str:
        spares = self.rules.spares
        promise = spares.use(request.vc, self._by_vc, self._used.devices) if spares and request.guaranteed else None
        lent = None if request.guaranteed else self._lent()  # only matters to gangs that borrow
        use = SharingUse(self.month, self._held.devices, self._borrowed.devices, promise, lent)
        return self.rules.obstacle(request, user, use, datetime.fromtimestamp(now, UTC))

    def _lent(self) -> LendUse | None:
        return lend_use(self._state(), self._by_vc, self._used.devices) if self.rules.lending else None

    def lenders(self) -> list[tuple[str, int, int]]:
        """(virtual cluster, devices of its promise that others may use now, devices that it lends at most)."""
        use = self._lent()
        if use is None:
            return []
        lendable = self.rules.lending.lendable(use)
        return [(vc, lendable.get(vc, 0), most) for vc, most in sorted(self.rules.lending.devices.items())]

    def renew(self, month: Used) -> bool:
        """Update the month's use; whether other gangs are held back than before."""
        first, self.month, self._answer = self.month is None, month, None
        holding = frozenset((state.budget.vc, state.budget.user, state.user) for state in self.states() if state.holds)
        changed, self._holding = holding != self._holding, holding
        return first or changed

    def states(self) -> list[BudgetState]:
        """The state of the budgets; empty until the accounts are read."""
        return [] if self.month is None else self.rules.budgets.states(self.month)

    def borrowers(self) -> list[tuple[str, int, int]]:
        """(virtual cluster, devices without a guarantee, devices allowed) for all with a borrow limit."""
        return [(vc, self._borrowed.devices[vc], most) for vc, most in sorted(self.rules.borrowing.devices.items())]

    def holders(self) -> list[tuple[str, str, int, int]]:
        """(virtual cluster, user, devices held, devices allowed) for all users who hold devices and have a limit."""
        rows = []
        for (vc, user), devices in sorted(self._held.devices.items()):
            if (most := self.rules.limits.of(vc, user)) is not None:
                rows.append((vc, user, devices, most))
        return rows
