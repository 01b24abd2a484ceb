"""The rows of published figures and their table: no row is lost, and every reason is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import sim_table


def row(bound: str, published: float, reason: str = "") -> sim_table.Row:
    play = sim_table.Play(("t",), "native", "1x1", "fifo", (0,), None)
    return sim_table.Row("System", "row", play, "mean_jct", published, bound, reason)


@pytest.mark.parametrize(
    ("bound", "published", "ours", "within", "difference"),
    [
        ("exact", 10.0, 10.004, True, "0"),
        ("exact", 10.0, 10.1, False, "+1.0 %"),
        ("5 %", 200.0, 190.0, True, "-5.0 %"),
        ("5 %", 200.0, 189.0, False, "-5.5 %"),
        ("3 points", 12.0, 14.9, True, "+2.90 points"),
        ("3 points", 12.0, 8.9, False, "-3.10 points"),
    ],
)
def test_bounds(bound: str, published: float, ours: float, within: bool, difference: str) -> None:
    assert row(bound, published).within(ours) == within
    assert row(bound, published).difference(ours) == difference


def test_a_row_outside_needs_a_reason_and_one_within_needs_none() -> None:
    assert sim_table.faults([(row("5 %", 100), 99.0), (row("5 %", 100, "why"), 80.0)]) == []
    assert len(sim_table.faults([(row("5 %", 100), 80.0)])) == 1
    assert "of no use" in sim_table.faults([(row("5 %", 100, "why"), 99.0)])[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {name: a, policy: fifo}", "lacks bound, cluster"),
        ("- {name: a, policy: fifo, trace: t, format: native, cluster: 1x1, bound: 5 %}", "no published figure"),
        ("- {name: a, policy: fifo, trace: t, format: native, cluster: 1x1, bound: 5, mean_jct: 3}", "a bound is"),
    ],
)
def test_a_row_that_cannot_be_played_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"title: T\nsource: s\nrows:\n{text}\n", encoding="utf-8")
    with pytest.raises(sim_table.RowError, match=rf"bad.yaml, row 1: .*{said}"):
        sim_table.rows(path)


def test_the_page_has_every_row_with_its_published_figure_and_reason() -> None:
    """Run `python -m tools.sim_table --write` after a change of rows."""
    blocks = sim_table.kept(sim_table.PAGE.read_text(encoding="utf-8"))
    for path in sim_table.files():
        rows = sim_table.rows(path)
        lines = [line for line in blocks[rows[0].title].splitlines() if line.startswith("| ")][2:]
        assert len(lines) == len(rows), path.name
        for line, row in zip(lines, rows, strict=True):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert cells[:2] == [row.name, f"`{row.play.policy}`"]
            published, ours = (float(cell.replace(",", "")) for cell in cells[3:5])
            assert published == pytest.approx(row.published, abs=1)
            if re.fullmatch(r"[\d.]+ %|[\d.]+ points", row.bound):
                assert bool(cells[7]) == (not row.within(ours)), line
            assert cells[7] in ("", row.reason)


def test_rows_that_were_not_played_keep_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(
        "title: T\nsource: s\ntrace: t\nformat: native\ncluster: 1x1\nbound: 5 %\npolicy: fifo\nrows:\n"
        "- {name: a, mean_jct: 100, makespan: 200}\n- {name: b, mean_jct: 300}\n"
        "- {name: new, trace: [t, u], mean_jct: 7}\n",
        encoding="utf-8",
    )
    first, second, third, fourth = sim_table.rows(path)
    assert (first.play.traces, fourth.play.traces) == (("t",), ("t", "u"))
    old = sim_table.block(path, {row: sim_table.line(row, row.published) for row in (first, second, third)}, "")
    assert len(old.splitlines()) == 7, "a row that was never played has no line"
    new = sim_table.block(path, {second: sim_table.line(second, 190.0)}, old)
    assert new.splitlines()[:5] == old.splitlines()[:5]
    assert new.splitlines()[5] == "| a | `fifo` | makespan | 200 | 190 | -5.0 % | 5 % | |"
    assert new.splitlines()[6] == old.splitlines()[6]


def test_what_is_written_replaces_only_what_is_between_the_marks() -> None:
    page = f"before\n{sim_table.BEGIN}\nold\n{sim_table.END}\nafter\n"
    assert sim_table.replaced(page, "new") == f"before\n{sim_table.BEGIN}\n\nnew\n\n{sim_table.END}\nafter\n"
