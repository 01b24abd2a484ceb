"""Budgets, limits for users, and the month's use, by themselves."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from paictl.errors import PaictlError
from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.budgets import BudgetLevel, Budgets, MonthUse, OverBudget, UsageBudget, month_of, next_month
from paictl.workload.sharing import Sharing, SharingUse, read_sharing
from paictl.workload.usage import Holding, UsageLedger

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def request(vc: str = "vision", priority: int = 0, size: int = 4) -> PodRequest:
    return PodRequest("uid", "ns/pod", vc, priority, size, "ns/group", ((size, 1),))


BUDGETS = Budgets(
    [
        UsageBudget("vision", "", 100 * HOUR),
        UsageBudget("vision", "ann", 50 * HOUR, over=OverBudget.WARN),
        UsageBudget("vision", "*", 10 * HOUR),
        UsageBudget("", "bob", 30 * HOUR, over=OverBudget.REFUSE),
    ]
)


@pytest.mark.parametrize(
    ("vc", "user", "concerned"),
    [
        ("vision", "ann", [("vision", ""), ("vision", "ann")]),
        ("vision", "bob", [("vision", ""), ("vision", "*"), ("", "bob")]),
        ("speech", "bob", [("", "bob")]),
        ("speech", "ann", []),
    ],
)
def test_which_budgets_concern_whom(vc: str, user: str, concerned: list[tuple[str, str]]) -> None:
    assert [(one.vc, one.user) for one in BUDGETS.of(vc, user)] == concerned


@pytest.mark.parametrize(
    ("used", "level"),
    [
        (0, BudgetLevel.OK),
        (79_999, BudgetLevel.OK),
        (80_000, BudgetLevel.WARNING),
        (99_999, BudgetLevel.WARNING),
        (100_000, BudgetLevel.SPENT),
        (100_001, BudgetLevel.SPENT),
    ],
)
def test_levels_change_at_the_exact_millisecond(used: int, level: BudgetLevel) -> None:
    budgets = Budgets([UsageBudget("vision", "", 100_000)])
    (state,) = budgets.states({("vision", "ann"): used - used // 3, ("vision", "bob"): used // 3, ("speech", "ann"): 9})
    assert (state.used, state.level) == (used, level)


def test_only_budgets_that_hold_hold() -> None:
    used = {("vision", "ann"): 60 * HOUR, ("speech", "bob"): 25 * HOUR, ("vision", "bob"): 6 * HOUR}
    assert BUDGETS.holding("vision", "ann", used) == []
    assert [one.user for one in BUDGETS.holding("speech", "bob", used)] == ["bob"]
    assert [one.user for one in BUDGETS.states(used)] == ["", "ann", "bob", "bob"]
    more = used | {("vision", "bob"): 10 * HOUR}
    assert [one.user for one in BUDGETS.holding("vision", "bob", more)] == ["bob", "bob"], "it is counted anew"
    assert [one.user for one in BUDGETS.holding("vision", "bob", used)] == ["bob"]


def test_what_holds_a_gang_back_is_said_and_opportunistic_ones_have_no_limit() -> None:
    sharing = read_sharing({"user-limits": [{"vc": "vision", "devices": 6}]})
    held = SharingUse({}, {("vision", "ann"): 3})
    assert sharing.obstacle(request(size=3), "ann", held, NOW) == ""
    assert "holds 3, and this needs 4" in sharing.obstacle(request(size=4), "ann", held, NOW)
    assert sharing.obstacle(request(size=4, priority=-1), "ann", held, NOW) == ""
    assert sharing.obstacle(request("speech"), "ann", held, NOW) == ""
    unknown = read_sharing({"budgets": [{"vc": "vision", "device-hours": 1}]})
    assert "not been read yet" in unknown.obstacle(request(), "ann", SharingUse(None, {}), NOW)
    assert unknown.obstacle(request("speech"), "ann", SharingUse(None, {}), NOW) == ""


@pytest.mark.parametrize(
    "section",
    [
        [],
        {"budgets": {}},
        {"budgets": [1]},
        {"budgets": [{"vc": "a"}]},
        {"user-limits": [{"devices": 1}]},
        {"budgets": [{"device-hours": 1, "over": "explode"}]},
        {"budgets": [{"device-hours": "much"}]},
        {"budgets": [{"device-hours": float("inf")}]},
        {"user-limits": [{"vc": "a", "devices": float("inf")}]},
    ],
)
def test_a_section_that_the_schema_would_refuse_is_refused_here_too(section: object) -> None:
    with pytest.raises(PaictlError, match="this section cannot be read"):
        read_sharing(section)


def test_without_a_section_nothing_is_asked() -> None:
    assert not read_sharing(None)
    assert not Sharing()
    assert not read_sharing({})


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (NOW, datetime(2026, 12, 1, tzinfo=UTC)),
        (datetime(2026, 12, 31, 23, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_the_next_month_begins(now: datetime, then: datetime) -> None:
    assert next_month(now) == then
    assert month_of(Millis(round(then.timestamp() * 1000))) == round(then.timestamp() * 1000)


@pytest.mark.parametrize("seed", range(5))
def test_the_months_use_is_the_integral_of_what_was_held_in_it(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a property test
    epoch = Millis(round(datetime(2026, 10, 20, tzinfo=UTC).timestamp() * 1000))
    ledger, use, now = UsageLedger(Millis(0)), MonthUse(), Millis(0)
    integral: Counter[tuple[int, str, str]] = Counter()
    running: dict[str, tuple[str, str, int]] = {}
    entered = 0
    for number in range(300):
        step = rng.choice((0, 1, HOUR, DAY, 3 * DAY))
        for vc, user, devices in running.values():
            at = now
            while at < now + step:  # day by day, so that no month is met in the middle
                end = min(now + step, at - at % DAY + DAY)
                integral[month_of(Millis(epoch + at)), vc, user] += devices * (end - at)
                at = Millis(end)
        now = Millis(now + step)
        if running and rng.random() < 0.5:
            uid = rng.choice(list(running))
            del running[uid]
            ledger.release(uid, now, lost=rng.random() < 0.3)
        else:
            uid, vc, user = f"p{number}", rng.choice("AB"), rng.choice(("ann", "bob"))
            running[uid] = vc, user, rng.randrange(1, 9)
            classes = ((now, rng.random() < 0.5),)
            ledger.place(Holding(uid, uid, vc, f"{user}~{uid}", "V100", running[uid][2], classes))
        for span in ledger.closed[entered:]:
            use.add(span, epoch)
        entered = len(ledger.closed)
        if rng.random() < 0.2:
            use = MonthUse.load(use.dump())
        month = month_of(Millis(epoch + now))
        expected = {(vc, user): amount for (start, vc, user), amount in integral.items() if start == month and amount}
        assert dict(use.until(now, epoch, ledger.open_spans(now))) == expected
