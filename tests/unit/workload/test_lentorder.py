"""The order of opportunistic gangs: what decayed use is, whose turn it is, and what a configuration may say."""

from __future__ import annotations

import json
import random
from math import exp2

import pytest

from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload.lentorder import DecayedUse, OrderBy, Turns
from paictl.workload.sharing import read_sharing
from paictl.workload.usage import UsageKind, UsageSpan
from paictl.workload.usagereport import HOUR

LIFE = Millis(24 * HOUR)


def span(start: float, end: float, devices: int = 1, vc: str = "a", user: str = "ann", **more: UsageKind) -> UsageSpan:
    kind = more.get("kind", UsageKind.OPPORTUNISTIC)
    return UsageSpan(kind, vc, user, "", "", devices, Millis(round(start * HOUR)), Millis(round(end * HOUR)))


def used(use: DecayedUse, hours: float, *running: UsageSpan) -> int:
    return use.until(Millis(round(hours * HOUR)), running)["a", "ann"]


def test_use_counts_half_after_each_half_life() -> None:
    use = DecayedUse(LIFE)
    use.add(span(0, 0.001, 1000))
    now = used(use, 0.001)
    assert now == pytest.approx(HOUR, rel=1e-4)
    assert [used(use, 0.001 + 24 * lives) for lives in (1, 2, 3)] == pytest.approx([now / 2, now / 4, now / 8], abs=1)


def test_a_device_in_use_for_ever_counts_its_half_life_over_the_logarithm_of_two() -> None:
    use = DecayedUse(LIFE)
    use.add(span(0, 24 * 40))
    assert used(use, 24 * 40) / HOUR == pytest.approx(24 / 0.693147, rel=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_use_is_the_integral_of_the_weight_however_it_is_told(seed: int) -> None:
    """In pieces or as one, ended or running, told in any order: against a sum over short steps."""
    dice = random.Random(seed)  # noqa: S311 the same spans every time
    starts = [dice.uniform(0, 90) for _ in range(3)]
    spans = [span(start, start + dice.uniform(0.1, 30), dice.randint(1, 8)) for start in starts]
    now = 130.0
    exact = 0.0
    for one in spans:
        step = (one.end - one.start) / 5000
        middles = (one.start + (number + 0.5) * step for number in range(5000))
        exact += sum(one.devices * step * exp2(-(now * HOUR - at) / LIFE) for at in middles)
    whole, pieces = DecayedUse(LIFE), DecayedUse(LIFE)
    for one in dice.sample(spans, len(spans)):
        whole.add(one)
        middle = dice.uniform(one.start / HOUR, one.end / HOUR)
        for part in ((one.start / HOUR, middle), (middle, one.end / HOUR)):
            pieces.add(span(*part, one.devices))
    assert used(whole, now) == pytest.approx(exact, rel=1e-6, abs=10)
    assert used(pieces, now) == pytest.approx(exact, rel=1e-6, abs=10)
    last = max(one.end for one in spans) / HOUR
    assert used(DecayedUse(LIFE), last, *(one for one in spans if one.end / HOUR == last)) == pytest.approx(
        sum(
            one.devices * LIFE / 0.693147180559945 * (1 - exp2(-(one.end - one.start) / LIFE))
            for one in spans
            if one.end / HOUR == last
        ),
        rel=1e-6,
    )


def test_only_time_without_a_guarantee_counts() -> None:
    use = DecayedUse(LIFE)
    for kind in UsageKind:
        use.add(span(0, 1, kind=kind))
    assert used(use, 1, span(0, 1, kind=UsageKind.GUARANTEED)) == used_alone(1)


def used_alone(hours: float) -> int:
    use = DecayedUse(LIFE)
    use.add(span(0, hours))
    return used(use, hours)


def test_another_half_life_keeps_what_counts_now() -> None:
    use = DecayedUse(LIFE)
    use.add(span(0, 5, 8))
    before = used(use, 10)
    use.change(Millis(HOUR), Millis(10 * HOUR))
    assert used(use, 10) == before
    assert used(use, 11) == pytest.approx(before / 2, abs=1)


def test_what_is_written_down_counts_the_same() -> None:
    use = DecayedUse(LIFE)
    use.add(span(0, 5, 8))
    use.add(span(3, 7, 2, "b", "bob"))
    again = DecayedUse.load(json.loads(json.dumps(use.dump())))
    assert again.dump() == use.dump()
    assert again.until(Millis(50 * HOUR), ()) == use.until(Millis(50 * HOUR), ())


# --- turns


def turns(used: dict[tuple[str, str], int], devices: dict[tuple[str, str], int] | None = None) -> Turns:
    return Turns({who: hours * HOUR for who, hours in used.items()}, devices or {}, {"a": 8, "b": 2}, LIFE)


def test_the_virtual_cluster_goes_first_that_used_least_for_its_promise() -> None:
    order = turns({("a", "ann"): 16, ("b", "bob"): 5})
    assert order.rank("a", "ann", 1) < order.rank("b", "bob", 1), "2 hours a device against 2.5"
    assert order.rank("c", "cid", 1) < order.rank("a", "ann", 1), "it has used nothing"


def test_the_user_goes_first_that_used_least_in_it() -> None:
    order = turns({("a", "ann"): 16, ("a", "bob"): 15})
    assert order.rank("a", "bob", 1) < order.rank("a", "ann", 1)
    assert order.rank("a", "new", 1) < order.rank("a", "bob", 1)


def test_devices_in_use_count_for_an_hour_in_advance() -> None:
    assert turns({}, {("a", "ann"): 8}).use("a") == HOUR
    assert Turns({}, {("a", "ann"): 8}, {"a": 8}, Millis(1000)).use("a") == 1000


def test_who_is_ahead_is_said_with_what_both_used() -> None:
    order = turns({("a", "ann"): 16, ("a", "bob"): 8, ("b", "bob"): 2})
    found = order.ahead(("a", "ann", 1), [("b", "bob", 1), ("a", "bob", 1), ("a", "ann", 1), ("b", "bob", 1)])
    assert found is not None
    assert (found.gangs, found.vc, found.user, found.used, found.than, found.more) == (3, "b", "", 1, "a", 3)
    found = order.ahead(("a", "ann", 1), [("a", "bob", 1), ("a", "ann", 1)])
    assert found is not None
    assert (found.gangs, found.vc, found.user, found.used, found.than, found.more) == (1, "a", "bob", 8, "ann", 16)
    assert order.ahead(("b", "bob", 1), [("b", "bob", 1), ("a", "ann", 1)]) is None


# --- what a configuration says


def test_the_section_is_read() -> None:
    order = read_sharing({"opportunistic-order": {"by": "decayed-use"}}).order
    assert order is not None
    assert (order.by, order.half_life) == (OrderBy.DECAYED_USE, LIFE)
    order = read_sharing({"opportunistic-order": {"by": "decayed-use", "half-life": "12h"}}).order
    assert order is not None
    assert order.half_life == 12 * HOUR
    assert read_sharing({}).order is None


@pytest.mark.parametrize("said", [{}, {"by": "luck"}, {"by": "decayed-use", "half-life": "0s"}, [], "decayed-use"])
def test_what_cannot_be_read_is_refused(said: object) -> None:
    with pytest.raises(PaictlError):
        read_sharing({"opportunistic-order": said})
