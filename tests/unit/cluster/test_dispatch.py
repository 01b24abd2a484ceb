"""The queue around the scheduler's book, when the book is made late."""

from __future__ import annotations

from itertools import count

import pytest

from paictl.cluster.embedded import dispatch
from paictl.cluster.embedded.dispatch import Bound, Dispatcher
from paictl.scheduler.book import Book
from tests.unit.scheduler.support import config, healthy, pod


def test_a_pod_whose_group_runs_joins_it_though_its_like_was_refused_before_the_book_was_made() -> None:
    book, asked = Book(healthy(config(A={"NODE": 1}))), []
    first, second = (pod(uid, "A", 2, group="default/gang", pods=2) for uid in "ab")
    book.place(first, now=0.0)

    def make() -> Book:
        asked.append("book")
        return book

    later = Dispatcher()
    later.add(second, 1)
    later.resume_later(make, ["n0"])
    later.waiting.refuse("default/gang")
    assert (list(later.nodes or ()), asked) == (["n0"], [])
    (bound,) = later.next(0.0)
    assert isinstance(bound, Bound)
    assert (bound.uid, asked) == ("b", ["book"])
    assert list(later.nodes or ()) == ["n0", "n1", "n2", "n3"], "those of the book that is there now"


def test_with_a_broken_device_what_another_tenant_releases_can_help() -> None:
    dispatcher = Dispatcher()
    dispatcher.resume(Book(healthy(config(A={"NODE": 1}, B={"NODE": 3}))))
    for number, uid in enumerate(("b0", "b1", "b2")):
        dispatcher.add(pod(uid, "B", 4), number)
        (bound,) = dispatcher.next(0.0)
        assert isinstance(bound, Bound)
    assert dispatcher.book is not None
    used = {known.info.node for known in dispatcher.book.pods.values() if known.info}
    (free,) = {"n0", "n1", "n2", "n3"} - used
    dispatcher.report_device(free, 0, False, 0.0)
    dispatcher.add(pod("a", "A", 4), 3)
    assert dispatcher.next(0.0) == []
    dispatcher.remove("b1", 0.0)
    (bound,) = dispatcher.next(0.0)
    assert isinstance(bound, Bound)
    assert bound.uid == "a"


@pytest.mark.parametrize("moves", [True, False])
def test_who_was_refused_is_asked_again_after_a_start_that_moves_what_is_shown_as_bad(
    monkeypatch: pytest.MonkeyPatch, moves: bool
) -> None:
    asked: list[str] = []

    class Asked(Book):
        def place(self, request, *args):  # type: ignore[no-untyped-def]
            asked.append(request.uid)
            return super().place(request, *args)

    queue, times = Dispatcher(), count()
    queue.resume(Asked(healthy(config(A={"NODE": 1}, B={"NODE": 3}))))
    monkeypatch.setattr(dispatch, "shown_as_bad", lambda _: {0: next(times)} if moves else {})
    queue.add(pod("waits", "A", 4, pods=2), 0)
    assert queue.next(0.0) == []
    queue.add(pod("starts", "B", 4), 1)
    (bound,) = queue.next(0.0)
    assert isinstance(bound, Bound)
    assert queue.next(0.0) == []
    assert asked == (["waits", "starts", "waits"] if moves else ["waits", "starts"])
