"""The table engine: what rich writes where nothing is folded; elsewhere everything is there, in step, and fits."""

from __future__ import annotations

import io
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paictl.cli import console
from paictl.cli.segments import painted
from paictl.cli.settings import settings
from paictl.cli.tables import fitting, table_lines

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


def words(texts: list[str]) -> Counter[str]:
    """How often each word is there that may not be broken; an address may behind its slashes: its `a` stays alone."""
    return Counter(
        word
        for text in texts
        for word in text.split()
        if all(cell_len(character) == 1 for character in word) and not set(word) & set("./") and word != "a"
    )


@given(TABLES, st.integers(28, 90))
def test_every_line_fits_and_no_word_is_broken(table: tuple[list[str], list[list[str]]], width: int) -> None:
    columns, rows = table
    kept = fitting(columns, rows, width)
    assert kept[0] == 0
    heads, cells = [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]
    lines = plain(heads, cells, width)
    assert max(map(cell_len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)
    written = [*heads, *(cell for row in cells for cell in row)]
    assert words(lines) == words(written)
    assert sorted("".join("".join(lines).split())) == sorted("".join("".join(written).split()))
    assert fitting(heads, cells, width) == list(range(len(kept)))


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


DIFFERENCE = [["services-configuration.yaml", "removed", "hivedscheduler.config.virtualClusters.vc1", "x" * 30]]


def test_the_widest_columns_lose_first_and_keys_are_divided_behind_their_dots() -> None:
    assert plain(["FILE", "CHANGE", "KEY", "NEW"], DIFFERENCE, 90) == [
        "FILE                         CHANGE   KEY                   NEW",
        f"services-configuration.yaml  removed  hivedscheduler.       {'x' * 30}",
        "                                      config.",
        "                                      virtualClusters.vc1",
    ]


@pytest.mark.parametrize(
    ("width", "kept"), [(120, [0, 1, 2, 3]), (86, [0, 1, 2, 3]), (85, [0, 1, 2]), (53, [0, 1]), (35, [0]), (5, [0])]
)
def test_columns_give_way_from_the_right_and_the_first_never_does(width: int, kept: list[int]) -> None:
    assert fitting(["FILE", "CHANGE", "KEY", "NEW"], DIFFERENCE, width) == kept


def test_a_column_of_sentences_gives_way_last() -> None:
    rows = [["hivedscheduler", "2026-11-23T10:00:00Z", "it waits for its node"]]
    assert fitting(["NAME", "SINCE", "REASON"], rows, 44) == [0, 1, 2]
    assert fitting(["NAME", "SINCE", "REASON"], rows, 43) == [0, 2]


def test_date_and_time_are_one_word() -> None:
    rows = [["a", "2026-11-23 10:00:07", "it ran"]]
    assert fitting(["N", "SINCE", "WHY"], rows, 25) == [0, 1]
    assert plain(["N", "SINCE", "WHY"], rows, 27) == [
        "N  SINCE                WHY",
        "a  2026-11-23 10:00:07  it",
        "                        ran",
    ]


def test_words_stay_whole_and_lines_of_a_cell_stay_lines() -> None:
    rows = [["a", "one two three\nfour"], ["b", "五 六七"]]
    assert plain(["N", "TEXT"], rows, 12) == ["N  TEXT", "a  one two", "   three", "   four", "b  五 六七"]
    assert plain(["N", "TEXT"], rows, 7) == ["N  TEXT", "a  one", "   two", "   three", "   four", "b  五", "   六七"]
    assert plain(["N", "TEXT"], [["b", "五六七八九十"]], 9) == ["N  TEXT", "b  五六七", "   八九十"]
    assert plain(["N", "TEXT"], [["b", "五六七八"]], 7) == ["N  TEXT", "b  五六七八"], "as short as a heading: whole"


def test_a_word_that_is_wider_than_the_terminal_makes_the_line_longer() -> None:
    assert plain(["NAME"], [["n" * 40]], 30) == ["NAME", "n" * 40]


def test_what_moves_the_cursor_of_a_terminal_does_not_get_there() -> None:
    assert plain(["A", "B"], [["a\rb\b\t|", "c"]], 40)[1] == r"a\rb\x08        |  c"
    assert plain(["A", "B"], [["a\rb", "c"]])[1] == r"a\rb  c"  # on a pipe, too: less and head pass it on


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


def test_what_gives_way_is_named_and_wide_shows_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    settings.reset()
    row = ("worker1", "10.0.0.1", "2026-11-23")
    shown = []
    for form in (console.Output.TABLE, console.Output.WIDE):
        assert console.take_form(form) is console.Output.TABLE
        screen = Terminal()
        monkeypatch.setattr("sys.stdout", screen)
        console.write_table(("NAME", "ADDRESS", "SINCE"), [row])
        shown.append(screen.getvalue().splitlines()[-1])
    assert shown == ["worker1  10.0.0.1", "worker1  10.0.0.1  2026-11-23"]
    assert capsys.readouterr().err == "the terminal is too narrow for SINCE; all columns: -o wide\n"
    settings.reset()


CHINESE = "停止时其他服务无法启动，删除则失去推送的内容（包括用户）。请先备份：见“文档”！"


@given(st.integers(24, 80), st.text(st.sampled_from(CHINESE), min_size=1, max_size=60))
def test_chinese_heads_stay_whole_and_no_line_begins_or_ends_with_the_wrong_mark(width: int, words: str) -> None:
    heads = ["虚拟集群", "优先级", "说明"]
    lines = plain(heads, [["vision", "test", words.strip("（“") or "x"]], width)
    assert lines[0].split() == heads, "a heading is never divided"
    told = [line[len("vision") :].replace("test", "").strip() for line in lines[1:]]
    assert not [line for line in told[1:] if line.startswith(tuple("，。；：！？、）》”’…"))]
    assert not [line for line in told[:-1] if line.endswith(tuple("（《“‘"))]


def test_a_short_chinese_word_is_not_divided_for_want_of_room() -> None:
    assert plain(["N", "虚拟集群"], [["a" * 10, "x"]], 14) == ["N           虚拟集群", "aaaaaaaaaa  x"]


def test_a_chinese_sentence_has_the_first_claim_as_an_english_one() -> None:
    sentence = "保存推送的配置；停止时其他服务无法启动"
    heads, row = ["名称", "开始", "结束", "单元"], ["lecture", "2026-01-05 10:00", "2026-01-05 11:00"]
    assert fitting(heads, [[*row, sentence]], 28) == [0, 3]
    assert fitting(heads, [[*row, "一二三四五六七八"]], 28) == [0, 1]
