"""The table engine: what rich writes where nothing is folded; elsewhere everything is there, in step, and fits."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paictl.cli import console
from paictl.cli.segments import painted, visible
from paictl.cli.settings import settings
from paictl.cli.tables import table_lines

WORDS = ("job", "services-configuration.yaml", "作业", "虚拟集群", "é", "the", "https://example.org/a", "12", "界")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
CELLS = st.one_of(TEXTS, st.integers(-9999, 9_999_999).map(str), st.lists(TEXTS, min_size=2, max_size=3).map("\n".join))
TABLES = st.integers(1, 5).flatmap(
    lambda count: st.tuples(
        st.lists(st.sampled_from(("NAME", "名称", "A LONG HEAD", "X")), min_size=count, max_size=count),
        st.lists(st.lists(CELLS, min_size=count, max_size=count), max_size=5),
    )
)


def plain(columns: list[str], rows: list[list[str]], width: int | None = None) -> list[str]:
    return ["".join(text for _, text in line) for line in table_lines(columns, rows, width=width)]


def by_rich(columns: list[str], rows: list[list[str]]) -> list[str]:
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(re.fullmatch(r"-?\d+", row[index]) for row in rows)
        table.add_column(column, justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    out = io.StringIO()
    Console(file=out, width=10_000).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@given(TABLES)
def test_unfolded_tables_are_those_of_rich(table: tuple[list[str], list[list[str]]]) -> None:
    expected = by_rich(*table)
    assert plain(*table) == expected
    assert plain(*table, width=2_000) == expected


@given(TABLES, st.integers(24, 90))
def test_every_line_fits_and_nothing_is_lost(table: tuple[list[str], list[list[str]]], width: int) -> None:
    columns, rows = table
    lines = plain(columns, rows, width)
    assert max(map(cell_len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)

    def signs(texts: list[str]) -> list[str]:
        return sorted("".join("".join(texts).split()))

    assert signs(lines) == signs([*columns, *(cell for row in rows for cell in row)])


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=4), st.integers(24, 90))
def test_columns_begin_in_the_same_cell_of_every_line(rows: list[tuple[str, str, str]], width: int) -> None:
    marked = [[" ".join("|" + word for word in cell.split()) for cell in row] for row in rows]
    lines = plain(["|A", "|B", "|C"], marked, width)
    places = [cell_len(lines[0][: match.start()]) for match in re.finditer(r"\|", lines[0])]
    for line in lines[1:]:
        begun = (cell_len(line[: match.end()]) for match in re.finditer(r"(?:^| {2,})(?=\S)", line))
        assert all(place in places or place > places[-1] for place in begun)


def test_a_pipe_gets_the_whole_content_however_wide() -> None:
    assert plain(["FILE", "COUNT"], [["x" * 300 + ".yaml", "12"], ["作业.yaml", "1,234"]]) == [
        "FILE" + " " * 301 + "  COUNT",
        "x" * 300 + ".yaml     12",
        "作业.yaml" + " " * 296 + "  1,234",
    ]


def test_the_widest_columns_lose_first_and_the_name_of_a_row_stays_whole() -> None:
    rows = [["services-configuration.yaml", "removed", "hivedscheduler.config.virtualClusters.vc1", "x" * 30]]
    assert plain(["FILE", "CHANGE", "KEY", "NEW"], rows, 60) == [
        "FILE                         CHANGE   KEY         NEW",
        "services-configuration.yaml  removed  hivedsched  xxxxxxxxxx",
        "                                      uler.confi  xxxxxxxxxx",
        "                                      g.virtualC  xxxxxxxxxx",
        "                                      lusters.vc",
        "                                      1",
    ]


def test_a_name_that_leaves_too_little_is_folded_as_well() -> None:
    lines = plain(["NAME", "WHY"], [["n" * 40, "because it is so"]], 40)
    assert lines[1].split() == ["n" * 22, "because", "it", "is", "so"]
    assert lines[2] == "n" * 18


def test_words_stay_whole_where_they_fit_and_lines_of_a_cell_stay_lines() -> None:
    rows = [["a", "one two three\nfour"], ["b", "五 六七"]]
    assert plain(["N", "TEXT"], rows, 12) == ["N  TEXT", "a  one two", "   three", "   four", "b  五 六七"]
    assert plain(["N", "TEXT"], rows, 7) == [
        "N  TEXT", "a  one", "   two", "   thre", "   e", "   four", "b  五", "   六七",
    ]  # fmt: skip


def test_a_terminal_that_is_too_narrow_loses_nothing() -> None:
    lines = plain(["A", "名"], [["ab", "界面"]], 2)
    assert "".join("".join(lines).split()) == "A名a界b面"


def test_what_moves_the_cursor_of_a_terminal_does_not_get_there() -> None:
    assert plain(["A", "B"], [["a\rb\b\t|", "c"]], 40)[1] == "ab      |  c"
    assert plain(["A", "B"], [["a\rb", "c"]])[1] == "a\rb  c"  # on a pipe as it is


def test_styled_cells_keep_their_styles_where_they_are_folded() -> None:
    cell = [("green", "all is"), ("", " well "), ("bold red", "today")]
    lines = list(table_lines(["N", "STATE"], [["a", cell]], width=10))
    assert lines[0] == [("bold", "N"), ("", "  "), ("bold", "STATE")]
    assert lines[1:] == [
        [("", "a"), ("", "  "), ("green", "all is")],
        [("", " "), ("", "  "), ("", "well")],
        [("", " "), ("", "  "), ("bold red", "today")],
    ]


@pytest.mark.parametrize("style", ["bold", "dim", "italic", "bold red", "cyan", ""])
def test_styles_are_painted_as_rich_paints_them(style: str) -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="standard").print(Text("text", style), end="")
    assert painted((style, "text")) == out.getvalue()


def test_colours_that_not_every_terminal_has_are_left_to_rich() -> None:
    assert painted(("color(16) on color(75)", "x")) is None
    assert visible("a\x07b") == "ab"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_heads_are_bold_unless_colours_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    settings.reset()
    written = []
    for name in ("XX", "NO_COLOR"):
        monkeypatch.setenv(name, "1")
        screen = Terminal()
        monkeypatch.setattr("sys.stdout", screen)
        console.write_table(("NAME", "WHY"), [("a", "because it is so")])
        written.append(screen.getvalue().splitlines())
    rest = ["a     because it is", "      so"]
    assert written == [["\x1b[1mNAME\x1b[0m  \x1b[1mWHY\x1b[0m", *rest], ["NAME  WHY", *rest]]
