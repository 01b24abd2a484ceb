from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.loop import EventLoop, EventPriority
from paictl.units import Millis

EVENTS = st.lists(st.tuples(st.integers(0, 5).map(Millis), st.sampled_from(EventPriority)), max_size=30)


@given(EVENTS)
def test_events_come_by_time_then_urgency_then_order_of_scheduling(events: list[tuple[Millis, EventPriority]]) -> None:
    loop: EventLoop[int] = EventLoop()
    for index, (at, urgency) in enumerate(events):
        loop.schedule(at, urgency, index)
    popped = list(iter(loop.pop, None))
    assert popped == sorted(range(len(events)), key=lambda index: (*events[index], index))


@given(EVENTS, st.integers(0, 6).map(Millis))
def test_a_loop_rebuilt_from_its_pending_events_goes_on_alike(
    events: list[tuple[Millis, EventPriority]], until: Millis
) -> None:
    first: EventLoop[int] = EventLoop()
    for index, (at, urgency) in enumerate(events):
        first.schedule(at, urgency, index)
    while first.pop(until) is not None:
        pass
    second: EventLoop[int] = EventLoop(first.now)
    for at, urgency, event in first.pending():
        second.schedule(at, urgency, event)
    assert list(iter(first.pop, None)) == list(iter(second.pop, None))


def test_the_clock_stops_at_until_and_never_goes_back() -> None:
    loop: EventLoop[str] = EventLoop()
    loop.schedule(Millis(10), EventPriority.END, "end")
    assert loop.pop(Millis(5)) is None
    assert loop.now == 5
    loop.schedule(Millis(1), EventPriority.ARRIVAL, "late")
    assert loop.pop() == "late"
    assert loop.now == 5
    assert loop.peek() == 10
    assert loop.pop() == "end"
    assert len(loop) == 0
    assert loop.pop(Millis(3)) is None
    assert loop.now == 10


def test_what_is_forgotten_does_not_happen_and_moves_no_clock() -> None:
    loop: EventLoop[str] = EventLoop()
    loop.schedule(Millis(10), EventPriority.END, "void")
    loop.schedule(Millis(20), EventPriority.END, "end")
    assert loop.first() == "void"
    loop.forget()
    assert (loop.now, loop.peek(), loop.first()) == (0, 20, "end")
    loop.schedule(Millis(5), EventPriority.ARRIVAL, "early")
    assert loop.pop() == "early"
    assert loop.now == 5
