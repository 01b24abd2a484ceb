"""`paictl cluster view`: golden pictures without colours, and what holds for every picture."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.cells import cell_len

from paictl.cli.cluster import view
from paictl.cli.cluster.picture import By
from paictl.cli.cluster.picture.lines import picture_lines
from paictl.cli.cluster.picture.marks import cut, flow, marks
from paictl.cli.segments import Line
from paictl.cli.settings import settings
from paictl.cluster.interface import JobState, JobView, NodeChange
from paictl.cluster.picture import ChainPicture, Picture
from paictl.scheduler.groups import Hold
from paictl.scheduler.inspection import PhysicalCellStatus
from paictl.scheduler.occupancy import CellState
from paictl.units import Millis
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench, bench  # noqa: F401 - a fixture

CASES = sorted((ROOT / "tests" / "cases" / "view").glob("*.txt"))


@pytest.fixture(autouse=True)
def universal_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same clock on every machine."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def act(lab: Bench, steps: list[dict[str, Any]]) -> None:
    """Do what a case asks: submit, pass (minutes), node [name, change], service [name, running]."""
    for step in steps:
        ((verb, what),) = step.items()
        match verb:
            case "submit":
                options = dict(what)
                options["duration"] = Millis(options.pop("minutes", 30) * MINUTE)
                lab.submit(options.pop("name"), options.pop("vc"), options.pop("priority", "test"), **options)
            case "pass":
                lab.pass_time(what * MINUTE)
            case "node":
                lab.cluster.set_node(what[0], NodeChange(what[1]))
            case "service":
                lab.cluster.set_service(what[0], running=what[1])
            case _:
                raise ValueError(verb)


def plain(lines: list[Line]) -> list[str]:
    return ["".join(text for _, text in line).rstrip() for line in lines]


def drawn(picture: Picture, width: int, by: By = By.AUTO) -> list[str]:
    return plain(picture_lines(picture, marks(picture, by), width))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_picture_is_the_golden_one(bench: MakeBench, case: Path) -> None:  # noqa: F811
    """To accept new pictures: PAICTL_ACCEPT=1 pytest tests/unit/cli/test_view.py, then read the diff."""
    head, _, golden = case.read_text(encoding="utf-8").partition("---\n")
    story = yaml.safe_load(head)
    lab = bench(story["preset"])
    act(lab, story["steps"])
    found = "\n".join(drawn(lab.cluster.picture(), story["width"], By(story.get("by", "auto")))) + "\n"
    if os.environ.get("PAICTL_ACCEPT"):
        case.write_text(f"{head}---\n{found}", encoding="utf-8")
    assert found == golden or os.environ.get("PAICTL_ACCEPT")


@pytest.mark.parametrize("preset", ["lab", "dgx2", "three-tenants", "production"])
def test_every_device_is_one_character_and_no_line_is_too_wide(bench: MakeBench, preset: str) -> None:  # noqa: F811
    lab = bench(preset)
    vc = next(iter(lab.cluster.picture().vcs)).name
    lab.submit("a-job-with-a-name-that-is-as-long-as-it-gets" * 3, vc, "prod", gpu=1)
    lab.cluster.set_node("worker1" if preset != "production" else "worker001", NodeChange.FAIL)
    picture = lab.cluster.picture()
    devices = sum(1 for _ in picture.leaves())
    for width in (40, 60, 80, 133, 250):
        lines = picture_lines(picture, marks(picture), width)
        assert max(cell_len(text) for text in plain(lines)) <= width
        nodes = [line for line in lines if line and line[0][1].startswith("  ") and len(line) > 1]
        signs = [text for line in nodes for style, text in line[1:] if len(text) == 1 and text in "A.!"]
        assert len(signs) >= devices


NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def cell(name: str, state: CellState, **more: Any) -> PhysicalCellStatus:
    return PhysicalCellStatus(f"n/{name}", "G", 1, False, state, more.pop("healthy", True), **more)


def job(key: str, number: int, vc: str = "v") -> JobView:
    return JobView(key, vc, "prod", JobState.RUNNING, NOON, 1, NOON, number=number)


def made(cells: list[PhysicalCellStatus], jobs: list[JobView]) -> Picture:
    node = PhysicalCellStatus("n", "N", 2, True, CellState.USED, True, parts=tuple(cells))
    chains = (ChainPicture("N", ("G", "N"), (node,)),)
    return Picture("c", NOON, NOON, chains, (), (), tuple(jobs))


def test_each_state_of_a_device_has_a_sign_of_its_own() -> None:
    held = {"job": "u~one", "hold": Hold.GUARANTEED}
    cells = [
        cell("0", CellState.FREE),
        cell("1", CellState.FREE, healthy=False),
        cell("2", CellState.USED, **held),
        cell("3", CellState.USED, job="u~two", hold=Hold.OPPORTUNISTIC),
        cell("4", CellState.USED, job="u~two", hold=Hold.LAZY),
        cell("5", CellState.RESERVING, reserver="u~three", **held),
        cell("6", CellState.RESERVED, reserver="u~three"),
    ]
    picture = made(cells, [job("u~one", 1), job("u~two", 2), job("u~three", 3)])
    lines = drawn(picture, 80)
    assert any("n  .!Abb%+" in line for line in lines)
    assert "2 reserved" in " ".join(lines)


def test_a_letter_stays_with_its_job_when_others_come_and_go() -> None:
    jobs = [job(f"u~{number}", number) for number in range(1, 60)]

    def letters(some: list[JobView]) -> dict[str, str]:
        cells = [cell(str(n), CellState.USED, job=each.key, hold=Hold.GUARANTEED) for n, each in enumerate(some)]
        return dict(marks(made(cells, some), By.JOB).letters)

    few = letters(jobs[4:8])
    assert few == {"u~5": "E", "u~6": "F", "u~7": "G", "u~8": "H"}
    assert letters(jobs[6:12]).items() >= {"u~7": "G", "u~8": "H"}.items()
    both = letters([jobs[0], jobs[26]])
    assert both == {"u~1": "A", "u~27": "B"}, "of two with the same letter the later one takes the next"
    assert len(set(letters(jobs).values())) == len(letters(jobs)) == 26


def test_jobs_beyond_the_letters_are_stars() -> None:
    jobs = [job(f"u~{number}", number) for number in range(1, 30)]
    cells = [cell(str(n), CellState.USED, job=each.key, hold=Hold.GUARANTEED) for n, each in enumerate(jobs)]
    assert "ABCDEFGHIJKLMNOPQRSTUVWXYZ***" in "".join(drawn(made(cells, jobs), 80, By.JOB))
    assert marks(made(cells, jobs)).by is By.VC


def test_nothing_that_a_name_holds_reaches_the_terminal() -> None:
    evil = "\x1b[2J\u202eevil\n[bold]"
    held = cell("0", CellState.USED, job=evil, hold=Hold.GUARANTEED)
    picture = replace(made([held], [replace(job(evil, 1), vc=evil)]), cluster=evil, note=evil)
    for width in (40, 120):
        text = "\n".join(drawn(picture, width))
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "\\x1b[2J" in text


def test_text_is_cut_and_flows_by_its_width_on_the_screen() -> None:
    assert cut("节点节点节点", 7) == "节点.."
    assert plain(list(flow([[("", "aaa")], [("", "bbb")], [("", "c")]], 8))) == ["aaa  bbb", "c"]


def test_the_command_writes_pictures_data_and_pages(paictl: Paictl, bench: MakeBench, tmp_path: Path) -> None:  # noqa: F811
    lab = bench("dgx2")
    lab.submit("one", "default", "prod", gpu=4)
    state = ("--state", str(lab.folder))
    shown = paictl("cluster", "view", *state)
    assert (shown.code, shown.err) == (0, "")
    assert "\x1b" not in shown.out
    assert "AA AA" in shown.out
    data = paictl("cluster", "view", *state, "-o", "json").data
    assert data["chains"][0]["cells"][0]["parts"][0]["address"] == "0/worker1"
    assert yaml.safe_load(paictl("cluster", "view", *state, "-o", "yaml").out) == {"schemaVersion": 1, **data}
    target = tmp_path / "view.html"
    written = paictl("cluster", "view", *state, "--html", str(target))
    assert (written.code, written.out) == (0, "")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.glob("*.new")] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--watch",), "--watch needs a terminal"),
        (("--watch", "-o", "json"), "--watch draws in the terminal only"),
        (("--html", "x.html", "-o", "json"), "--html writes a page"),
        (("--html", "/nonexistent/x.html"), "/nonexistent/x.html: cannot be written"),
    ],
)
def test_what_cannot_be_is_refused(
    paictl: Paictl,
    bench: MakeBench,  # noqa: F811
    words: tuple[str, ...],
    message: str,
) -> None:
    done = paictl("cluster", "view", "--state", str(bench().folder), *words)
    assert done.code == 2
    assert "json" in words or done.out == ""
    assert message in done.err


def test_without_a_cluster_the_next_step_is_named(paictl: Paictl, tmp_path: Path) -> None:
    done = paictl("cluster", "view", "--state", str(tmp_path))
    assert done.code == 4
    assert "paictl cluster up" in done.err


def test_a_low_window_says_how_much_is_left_out() -> None:
    lines: list[Line] = [[("", str(number))] for number in range(30)]
    shown = view._fitted(lines, 10).plain.splitlines()
    assert len(shown) == 10
    assert shown[-1].startswith("... 21 more lines")
    assert len(view._fitted(lines, 30).plain.splitlines()) == 30


def test_watching_ends_by_itself_when_it_is_told_to(
    bench: MakeBench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = [0.0]
    monkeypatch.setattr("paictl.cli.cluster.view.time.monotonic", lambda: at[0])
    monkeypatch.setattr("paictl.cli.cluster.view.time.sleep", lambda seconds: at.append(at.pop() + seconds))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    view._watch(bench().cluster, By.AUTO, 3.5)
    assert at == [3.0]


def test_watching_redraws_until_it_is_interrupted(
    bench: MakeBench,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lab = bench()
    lab.submit("one", "vc1", "prod")
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        lab.pass_time(2 * MINUTE)
        if len(naps) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("paictl.cli.cluster.view.time.sleep", nap)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(settings, "color", False)
    monkeypatch.setenv("TERM", "xterm-256color")
    with pytest.raises(KeyboardInterrupt):
        view._watch(lab.cluster, By.AUTO)
    out = capsys.readouterr().out
    assert len(naps) == 4
    assert "1 running" in out
    assert "0 running" in out
    assert out.rstrip().endswith(("\x1b[?1049l\x1b[?25h", "\x1b[?25h\x1b[?1049l", "\x1b[?1049l"))
