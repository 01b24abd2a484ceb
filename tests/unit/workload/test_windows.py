"""Maintenance windows: whom they keep away, and which ones cannot be added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.maintenance import windows_from, windows_text
from paictl.cluster.values import ClusterError
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload.windows import Window, WindowError, Windows

NODES = ("a", "b", "c")
WRITTEN = (
    '[{"name": "w", "nodes": ["a"], "start": "2026-12-01T00:00:00Z", "end": "2026-12-02T00:00:00Z", '
    '"noticeSeconds": %s}]'
)


def window(name: str = "w", nodes: tuple[str, ...] = ("a",), start: int = 100, end: int = 200) -> Window:
    return Window(name, nodes, Millis(start), Millis(end))


@pytest.mark.parametrize(
    ("now", "limit", "closes"),
    [
        (0, 100, False),
        (0, 101, True),
        (0, None, True),
        (99, 1, False),
        (99, 2, True),
        (100, 1, True),
        (199, 1, True),
        (200, None, False),
        (200, 5, False),
    ],
)
def test_a_window_closes_to_who_would_meet_it(now: int, limit: int | None, closes: bool) -> None:
    assert window().closes(Millis(now), None if limit is None else Millis(limit)) is closes


spans = st.tuples(st.integers(0, 50), st.integers(1, 30)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(
    st.lists(st.tuples(st.sampled_from(NODES), spans), max_size=5), st.integers(0, 60), st.none() | st.integers(1, 60)
)
def test_closed_is_who_meets_some_instant_and_the_longest_run_time_is_exact(
    found: list[tuple[str, tuple[int, int]]], now: int, limit: int | None
) -> None:
    windows = Windows(tuple(window(f"w{i}", (node,), *span) for i, (node, span) in enumerate(found)))
    ends = 200 if limit is None else now + limit
    expected = {node for node, (start, end) in found if any(start <= at < end for at in range(now, ends))}
    assert windows.closed(Millis(now), None if limit is None else Millis(limit)) == expected
    if "a" in windows.closed(Millis(now), None):
        tried = [span for span in range(1, 90) if "a" not in windows.closed(Millis(now), Millis(span))]
        assert windows.longest(Millis(now), lambda gone: "a" not in gone) == max(tried, default=None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (window("w2", ("a", "b"), 199, 300), "it overlaps window w of a"),
        (window("w", ("b",), 300, 400), "window 'w' already exists"),
        (window("w2", ("d",), 300, 400), "no node 'd'"),
        (window("w2", (), 300, 400), "has no nodes"),
        (window("w2", ("b",), 40, 60), "begins in the past"),
        (window("w2", ("b",), 20, 40), "ends in the past"),
        (window("w2", ("b",), 300, 300), "ends before it begins"),
        (window("W 2", ("b",), 300, 400), "is not a valid window name"),
    ],
)
def test_a_window_that_cannot_be_is_refused_and_nothing_changes(more: Window, message: str) -> None:
    windows = Windows((window(),))
    with pytest.raises(WindowError, match=message) as refused:
        windows.added(more, Millis(50), NODES)
    assert refused.value.hint
    assert refused.value.exit_code == 1


def test_windows_that_touch_or_are_of_other_nodes_do_not_overlap() -> None:
    windows = Windows((window(),))
    for more in (window("w2", ("a",), 200, 300), window("w3", ("a",), 60, 100), window("w4", ("b",), 100, 200)):
        windows = windows.added(more, Millis(50), NODES)
    assert [one.name for one in windows] == ["w", "w2", "w3", "w4"]
    assert windows.active(Millis(100)) == {"a": window(), "b": windows.find("w4")}
    with pytest.raises(PaictlError, match="no window") as refused:
        windows.without("w5")
    assert "did you mean" in str(refused.value.hint)


def test_a_window_that_keeps_nodes_free_closes_them_and_drains_nobody() -> None:
    kept = Window("defrag-1", ("w1",), Millis(0), Millis(100), hold=True)
    windows = Windows((kept, Window("maintenance-1", ("w2",), Millis(0), Millis(100))))
    assert windows.closed(Millis(50), None) == {"w1", "w2"}
    assert list(windows.active(Millis(50))) == ["w2"], "who is in maintenance has to leave"
    assert list(windows.held(Millis(50))) == ["w1"]
    assert (windows.active(Millis(100)), windows.held(Millis(100))) == ({}, {})
    assert (windows.free_name(), windows.free_name(hold=True)) == ("maintenance-2", "defrag-2")
    assert windows_from(windows_text(windows)) == windows, "a door reads it as it was written"


@pytest.mark.parametrize("text", ["[" * 100_000, WRITTEN % "Infinity", WRITTEN % "1e999", WRITTEN % '"soon"'])
def test_a_text_that_is_no_list_of_windows_is_refused_as_damaged(text: str) -> None:
    """Anything else than `ClusterError` would end the thread that tells the door of windows."""
    with pytest.raises(ClusterError, match="the maintenance windows are corrupt"):
        windows_from(text)
