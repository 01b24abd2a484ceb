from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paictl.scheduler.journal import Journal

CHANGES = st.lists(st.tuples(st.sampled_from("lds"), st.integers(0, 4), st.integers(0, 9)), max_size=30)


def change(journal: Journal, row: list[int], box: dict[int, int], kind: str, key: int, value: int) -> None:
    if kind == "l":
        journal.set_item(row, key, value)
    elif kind == "d" and key in box:
        journal.drop(box, key)
    else:
        journal.put(box, key, value)


@given(before=CHANGES, inside=CHANGES, nested=CHANGES)
def test_rollback_is_the_identity(before: Any, inside: Any, nested: Any) -> None:
    journal, row, box = Journal(), [0] * 5, {}  # type: ignore[var-annotated]
    for item in before:
        change(journal, row, box, *item)
    assert journal.log is None, "nothing is logged outside a transaction"
    start = (list(row), dict(box))
    outer = journal.begin()
    for item in inside:
        change(journal, row, box, *item)
    middle = (list(row), dict(box))
    inner = journal.begin()
    for item in nested:
        change(journal, row, box, *item)
    journal.rollback(inner)
    assert (row, box) == middle
    journal.rollback(outer)
    assert (row, box) == start
    assert journal.log is None


def test_commit_of_an_inner_transaction_is_undone_by_the_outer() -> None:
    journal, row = Journal(), [1]
    outer = journal.begin()
    journal.begin()
    journal.set_item(row, 0, 2)
    journal.commit()
    assert row == [2]
    journal.rollback(outer)
    assert row == [1]
