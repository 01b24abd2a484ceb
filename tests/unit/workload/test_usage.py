"""The ledger of device time against a count that is kept another way, with kills at random."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable

import pytest

from paictl.units import Millis
from paictl.workload.usage import Holding, UsageAmount, UsageKind, UsageLedger, UsageSpan
from paictl.workload.usagereport import Dimension, UsageRow, add_up, total

OPERATIONS = 1_000_000 if os.environ.get("PAICTL_SOAK") else 5_000
VCS, SKUS = ("a", "b"), ("V100", "A100")


class Kept:
    """A ledger with what its caller keeps: rows and state are stored together or not at all."""

    def __init__(self) -> None:
        self.ledger = UsageLedger(Millis(0))
        self.rows: list[UsageSpan] = []
        self.state = self._dumped()

    def _dumped(self) -> str:
        return json.dumps(self.ledger.dump())

    def store(self) -> None:
        self.rows += self.ledger.closed
        self.ledger.closed.clear()
        self.state = self._dumped()

    def kill(self) -> None:
        """What was not stored is gone, and the next process reads what was."""
        self.ledger = UsageLedger.load(json.loads(self.state))

    def spans(self, now: int) -> list[UsageSpan]:
        return [*self.rows, *self.ledger.open_spans(Millis(now))]


class Count:
    """Devices in use by (VC, class), promised by VC, and what has been integrated step by step."""

    def __init__(self) -> None:
        self.pods: dict[str, tuple[str, str, int, bool]] = {}
        self.promised: dict[tuple[str, str], int] = {}
        self.area = dict.fromkeys(((vc, kind) for vc in VCS for kind in UsageKind), 0)

    def pass_time(self, span: int) -> None:
        for vc, _, devices, guaranteed in self.pods.values():
            self.area[vc, UsageKind.GUARANTEED if guaranteed else UsageKind.OPPORTUNISTIC] += devices * span
        for (vc, _), devices in self.promised.items():
            self.area[vc, UsageKind.PROMISED] += devices * span


def step(chance: random.Random, kept: Kept, count: Count, now: int, number: int) -> None:
    """One thing happens, to the ledger and to the count."""
    at, ledger = Millis(now), kept.ledger
    match chance.randrange(10):
        case 0:
            count.promised = {(vc, sku): chance.randrange(0, 40) for vc in VCS for sku in SKUS}
            ledger.promise(at, count.promised)
        case 1 | 2 if count.pods:
            group = count.pods[chance.choice(list(count.pods))][1]
            guaranteed = chance.random() < 0.5
            ledger.change_class(group, at, guaranteed=guaranteed)
            for uid, (vc, other, devices, _) in count.pods.items():
                if other == group:
                    count.pods[uid] = (vc, group, devices, guaranteed)
        case 3 | 4 | 5 if len(count.pods) > 3:
            uid = chance.choice(list(count.pods))
            del count.pods[uid]
            ledger.release(uid, at, lost=chance.random() < 0.3)
        case _ if len(count.pods) < 30:
            vc, group, devices, guaranteed = chance.choice(VCS), f"g{number // 3}", chance.randrange(1, 9), True
            if any(other == group for _, other, _, _ in count.pods.values()):
                guaranteed = next(pod[3] for pod in count.pods.values() if pod[1] == group)
            count.pods[f"p{number}"] = (vc, group, devices, guaranteed)
            user = f"u{chance.randrange(4)}"
            ledger.place(
                Holding(
                    f"p{number}", group, vc, f"{user}~j{number // 3}", chance.choice(SKUS), devices, ((at, guaranteed),)
                )
            )


def test_the_books_equal_the_integral_of_occupancy_with_kills_at_random() -> None:
    chance = random.Random(11)  # noqa: S311 - moments, not secrets
    kept, count, now, number = Kept(), Count(), 0, 0
    while number < OPERATIONS:
        number += 1
        if chance.random() < 0.05:  # a command dies before it is acknowledged: none of it has happened
            step(chance, kept, _copy(count), now, number)
            kept.kill()
            continue
        step(chance, kept, count, now, number)
        kept.store()
        if chance.random() < 0.05:
            kept.kill()
        if chance.random() < 0.7:
            span = chance.choice((1, 7, 1000, 86_400_001))
            count.pass_time(span)
            now += span
        if number % (OPERATIONS // 20) == 0:
            check(kept, count, now, chance)


def _copy(count: Count) -> Count:
    copy = Count()
    copy.pods, copy.promised = dict(count.pods), dict(count.promised)
    return copy


def within(spans: Iterable[UsageSpan], start: int, end: int) -> list[UsageAmount]:
    return [amount for span in spans for amount in span.amounts(Millis(start), Millis(end))]


def check(kept: Kept, count: Count, now: int, chance: random.Random) -> None:
    spans = kept.spans(now)
    rows = {row.key[0]: row for row in add_up(within(spans, 0, now), (Dimension.VC,))}
    for vc in VCS:
        row = rows.get(vc, UsageRow((vc,)))
        guaranteed, promised = count.area[vc, UsageKind.GUARANTEED], count.area[vc, UsageKind.PROMISED]
        assert (row.guaranteed, row.opportunistic, row.idle) == (
            guaranteed,
            count.area[vc, UsageKind.OPPORTUNISTIC],
            promised - guaranteed,
        )
    whole = total(rows.values())
    for by in ((Dimension.USER,), (Dimension.JOB, Dimension.SKU), tuple(Dimension)):  # however it is added up
        assert total(add_up(within(spans, 0, now), by)) == whole
    cuts = sorted(chance.randrange(now + 1) for _ in range(3))  # and in whatever windows
    windows = zip([0, *cuts], [*cuts, now], strict=True)
    parts = [total(add_up(within(spans, start, end), ())) for start, end in windows]
    assert total(parts) == whole


def place(ledger: UsageLedger, uid: str, at: int, *, devices: int = 4, guaranteed: bool = True) -> None:
    ledger.place(Holding(uid, "g", "a", "ann~job", "V100", devices, ((Millis(at), guaranteed),)))


def books(ledger: UsageLedger, end: int, *by: Dimension) -> list[UsageRow]:
    return add_up(within([*ledger.closed, *ledger.open_spans(Millis(end))], 0, end), by)


def test_a_pod_counts_in_each_class_for_as_long_as_it_was_in_it() -> None:
    ledger = UsageLedger(Millis(0))
    place(ledger, "p", 10)
    ledger.change_class("g", Millis(30), guaranteed=False)
    ledger.change_class("g", Millis(35), guaranteed=False)  # as it is
    ledger.change_class("g", Millis(60), guaranteed=True)
    ledger.release("p", Millis(100), lost=False)
    row = total(books(ledger, 200, Dimension.JOB))
    assert (row.guaranteed, row.opportunistic, row.lost) == (4 * 60, 4 * 30, 0)


def test_work_that_was_cut_off_is_lost_in_all_its_classes() -> None:
    ledger = UsageLedger(Millis(0))
    place(ledger, "p", 0, devices=2)
    ledger.change_class("g", Millis(10), guaranteed=False)
    ledger.release("p", Millis(30), lost=True)
    row = total(books(ledger, 100, Dimension.VC))
    assert (row.guaranteed, row.opportunistic, row.lost) == (20, 40, 60)


def test_what_is_idle_belongs_to_the_tenant_and_not_to_a_user() -> None:
    ledger = UsageLedger(Millis(0))
    ledger.promise(Millis(0), {("a", "V100"): 8, ("b", "V100"): 2})
    place(ledger, "p", 50)
    ledger.promise(Millis(100), {("a", "V100"): 6})
    rows = books(ledger, 200, Dimension.VC, Dimension.USER)
    assert rows == [
        UsageRow(("a", ""), idle=8 * 100 + 6 * 100 - 4 * 150),
        UsageRow(("a", "ann"), guaranteed=4 * 150),
        UsageRow(("b", ""), idle=200),
    ]


def test_a_pod_cannot_hold_devices_twice_and_one_that_holds_none_releases_nothing() -> None:
    ledger = UsageLedger(Millis(0))
    place(ledger, "p", 0)
    with pytest.raises(ValueError, match="holds devices already"):
        place(ledger, "p", 5)
    ledger.release("q", Millis(5), lost=False)
    assert ledger.closed == []
