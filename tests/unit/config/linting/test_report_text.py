"""The text form: the caret stands under the very characters, whatever the line holds."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.report.text import MAX_COLUMNS, Excerpt, summary
from paictl.config.linting.validate import CheckedFile, Report, validate
from paictl.config.reading.load import load_memory
from paictl.config.reading.problem import Edit, Problem, Severity
from paictl.config.reading.source import Source, Span, place_of, shows
from paictl.errors import PaictlError


def shown(text: str, start: int, end: int, hint: str | None = "do it") -> list[str]:
    source = Source("f.yaml", text)
    at = Span(source, start, end)
    problem = Problem(place_of(at), "ABC123", "some-name", Severity.ERROR, "what is wrong", hint, (), source)
    return plain(FORMATS["text"](Report((problem,), ()))).splitlines()[:-2]


def test_a_problem_looks_like_this() -> None:
    text = "a: 1\nbb: {c: [1, 2]}\n"
    assert shown(text, text.index("["), text.index("]") + 1) == [
        "error[ABC123 some-name]: what is wrong",
        " --> f.yaml:2:9",
        "  |",
        "2 | bb: {c: [1, 2]}",
        "  |         ^^^^^^",
        "  = hint: do it",
    ]


def test_line_numbers_widen_the_gutter() -> None:
    text = "\n" * 99 + "x: 1\n"
    lines = shown(text, 99, 100, None)
    assert lines == ["error[ABC123 some-name]: what is wrong", "   --> f.yaml:100:1", "    |", "100 | x: 1", "    | ^"]


def test_of_several_lines_the_first_and_the_last_are_shown() -> None:
    text = "a:\n  - b\n  - c\n  - d\ne: 1\n"
    assert shown(text, text.index("-"), text.index("d") + 1, None)[2:] == [
        "  |",
        "2 |   - b",
        "  |   ^^^",
        ". |",
        "4 |   - d",
        "  |   ^^^",
    ]
    assert shown(text, text.index("b"), text.index("c") + 1, None)[3:] == [
        "2 |   - b",
        "  |     ^",
        "3 |   - c",
        "  |   ^^^",
    ]


def test_a_span_that_ends_with_its_line_is_one_line() -> None:
    assert shown("ab\ncd\n", 0, 3, None)[3:] == ["1 | ab", "  | ^^"]


def test_the_end_of_the_file_and_empty_lines_can_be_pointed_at() -> None:
    assert shown("a: [\n", 5, 5, None)[3:] == ["2 |", "  | ^"]
    assert shown("", 0, 0, None)[3:] == ["1 |", "  | ^"]
    assert shown("a", 1, 1, None)[3:] == ["1 | a", "  |  ^"]


@pytest.mark.parametrize(
    ("line", "start", "end", "text", "indent", "width"),
    [
        ("a\tb", 2, 3, "a    b", 5, 1),
        ("\tb", 0, 2, "    b", 0, 5),
        ("结点: x", 4, 5, "结点: x", 6, 1),
        ("结点: x", 0, 2, "结点: x", 0, 4),
        ("e\u0301x", 2, 3, "e\u0301x", 1, 1),
        ("a\x1b[31mb", 6, 7, "a\\x1b[31mb", 9, 1),
        ("a\u202eb", 2, 3, "a\\u202eb", 7, 1),
        ("a", 5, 9, "a", 1, 1),
        ("abc", 2, 1, "abc", 2, 1),
    ],
)
def test_columns_are_those_of_a_terminal(line: str, start: int, end: int, text: str, indent: int, width: int) -> None:
    assert Excerpt.of(line, start, end) == Excerpt(text, indent, width)


def columns(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" and unicodedata.category(c) not in ("Mn", "Me") for c in text)
    return wide + sum(unicodedata.category(c) not in ("Mn", "Me") for c in text)


@given(st.text(alphabet="ab \té中\u0301\x1b\u202e😀", max_size=400), st.integers(0, 400), st.integers(0, 50))
def test_the_caret_stands_under_the_span_in_any_line(line: str, start: int, length: int) -> None:
    start = min(start, len(line))
    excerpt = Excerpt.of(line, start, start + length)
    assert all(shows(character) for character in excerpt.text)
    assert columns(excerpt.text) <= MAX_COLUMNS + 6
    assert excerpt.width >= 1
    assert excerpt.indent <= columns(excerpt.text)
    assert excerpt.indent + excerpt.width <= max(columns(excerpt.text), excerpt.indent + 1)


@pytest.mark.parametrize("at", [0, 30, 500_000, 999_990])
def test_of_a_very_long_line_the_part_around_the_span_is_shown(at: int) -> None:
    line = "x" * at + "HERE" + "y" * (1_000_000 - at)
    excerpt = Excerpt.of(line, at, at + 4)
    assert excerpt.text[excerpt.indent : excerpt.indent + excerpt.width] == "HERE"
    assert len(excerpt.text) <= MAX_COLUMNS + 6


def test_styles_are_only_decoration() -> None:
    text = "virtualClusters: []\n"
    report = validate(load_memory({"hivedscheduler.yaml": text.encode()}))
    styles = {style for line in FORMATS["text"](report) for style, _ in line}
    assert {"bold red", "bold blue", ""} <= styles
    assert "\x1b" not in plain(FORMATS["text"](report))


def problem(severity: Severity, *edits: Edit) -> Problem:
    source = edits[0].at.source if edits else Source("f", "x")
    return Problem(place_of(Span(source, 0, 1)), "ABC1", "n", severity, "m", None, edits, source)


def test_without_files_there_is_nothing_to_sum_up() -> None:
    assert plain(FORMATS["text"](Report((), ()))) == "no file to check\n"
    assert plain(FORMATS["text"](Report((), (), (), (PaictlError("m"),)))) == ""


def test_the_summary_counts() -> None:
    from paictl.config.reading.kinds import FileKind

    files = tuple(CheckedFile(name, FileKind.JOB) for name in "abc")
    assert summary(Report((), files)) == "3 files checked, all clean"
    assert summary(Report((), files[:1])) == "1 file checked, all clean"
    edit = Edit(Span(Source("f", "x"), 0, 1), "y")
    mixed = (problem(Severity.ERROR, edit), problem(Severity.ERROR), problem(Severity.WARNING), problem(Severity.INFO))
    assert summary(Report(mixed, files)) == "2 errors, 1 warning, 1 note in 3 files; 1 can be repaired with --fix"
    rest = Report((), files[:1], ("x", "y"), (PaictlError("m"),), 4)
    assert summary(rest) == (
        "1 file checked, all clean; 4 silenced by comments; 1 could not be read; "
        "2 files are not OpenPAI or HiveD configuration; --strict names them"
    )
