"""Tags: what one can be, and what is left after a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.workload.tags import LONGEST_TAG, MOST_TAGS, TagError, is_tag, known, tags_of, with_changes

words = st.text(st.characters(codec="utf-8"), max_size=LONGEST_TAG + 2)
# Made to fit rather than filtered: a health check of Hypothesis stops a test that throws most of its examples away.
tags = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters=","),
    min_size=1,
    max_size=LONGEST_TAG,
)


@pytest.mark.parametrize("word", ["a", "sweep-7", "实验", "a/b=c:d", "x" * LONGEST_TAG])
def test_words_of_all_kinds_are_tags(word: str) -> None:
    assert is_tag(word)


@pytest.mark.parametrize("word", ["", "a b", "a,b", "a\n", "\u202ea", "\u3000", "\x1b[2J", "x" * (LONGEST_TAG + 1)])
def test_what_would_not_fit_a_line_or_a_list_is_none(word: str) -> None:
    with pytest.raises(TagError):
        with_changes((), [word])
    with pytest.raises(TagError):
        with_changes((), (), [word])
    assert known([word, "a"]) == ("a",)


@given(st.lists(tags, max_size=MOST_TAGS, unique=True), st.lists(tags, max_size=9), st.lists(tags, max_size=9))
def test_after_a_change_there_is_what_was_added_and_not_what_was_removed(
    before: list[str], add: list[str], remove: list[str]
) -> None:
    assert all(is_tag(word) for word in (*before, *add, *remove))
    wanted = (set(before) | set(add)) - set(remove)
    if len(wanted) > MOST_TAGS:
        with pytest.raises(TagError, match="too many"):
            with_changes(before, add, remove)
        return
    after = with_changes(before, add, remove)
    assert set(after) == wanted
    assert len(after) == len(wanted)
    assert [one for one in after if one in before] == [one for one in before if one in wanted]
    assert with_changes(after, add, remove) == after


@given(st.lists(words, max_size=MOST_TAGS + 5))
def test_of_what_anybody_has_written_by_hand_the_tags_are_read(found: list[str]) -> None:
    read = tags_of({"tags": [*found, 7, None]})
    assert with_changes((), read) == read
    assert known(",".join(read).split(",")) == read
    assert tags_of({"tags": "a,b"}) == tags_of({"tags": {"a": 1}}) == tags_of({}) == ()
