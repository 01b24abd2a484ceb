"""Rows of host lists: where fields stand, and what quotes mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.reading.csvtable import parse_csv
from paictl.config.reading.source import Source, place_of


def rows(text: str) -> list[list[str]]:
    return [[field.text for field in row.fields] for row in parse_csv(Source("worker.csv", text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a,b", [["a", "b"]]),
        ("a,b\n", [["a", "b"]]),
        ("a,b\r\nc,d\r", [["a", "b"], ["c", "d"]]),
        ("\n \n", [[], []]),
        ("a", [["a"]]),
        (",", [["", ""]]),
        ("a,b,", [["a", "b", ""]]),
        (' a ,"b"', [[" a ", "b"]]),
        ('"a,b",c', [["a,b", "c"]]),
        ('"a""b",c', [['a"b', "c"]]),
        ('"a,b\nc,d', [['"a', "b"], ["c", "d"]]),
        ('a"x",b', [['a"x"', "b"]]),
    ],
)
def test_fields(text: str, expected: list[list[str]]) -> None:
    assert rows(text) == expected


def test_places_and_what_was_written() -> None:
    row = parse_csv(Source("worker.csv", 'x\n "a" ,b'))[1]
    assert [str(place_of(field)) for field in row.fields] == ["worker.csv:2:1", "worker.csv:2:7"]
    assert [field.written for field in row.fields] == [' "a" ', "b"]


@pytest.mark.parametrize(("text", "left"), [("a,b\nc,d", "c,d"), ("a,b\r\nc,d", "c,d"), ("a,b", "")])
def test_a_row_goes_away_with_its_line_end(text: str, left: str) -> None:
    whole = parse_csv(Source("worker.csv", text))[0].whole
    assert text[: whole.start] + text[whole.end :] == left


@given(st.text(alphabet='ab," \n\r#', max_size=60))
def test_the_fields_of_a_row_are_its_line_cut_at_commas(text: str) -> None:
    source = Source("worker.csv", text)
    for row in parse_csv(source):
        line = text[row.start : row.end]
        assert row.blank == (not line.strip())
        if not row.blank:
            assert ",".join(field.written for field in row.fields) == line
