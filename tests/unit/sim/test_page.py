"""The page of charts: one self-contained file, in which nothing from a trace becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from paictl.resources import resource_folder
from paictl.sim.cluster import homogeneous
from paictl.sim.page import page, page_data
from paictl.sim.report import Comparison, compared
from paictl.sim.simulate import simulate
from paictl.sim.traces.load import load
from tests.browser import CHROMIUM, browser

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>/*SCRIPT*/<!--&amp;'\""

OVERLAPS = """[...document.querySelectorAll('.chart svg')].flatMap((chart) => {
  const boxes = [...chart.querySelectorAll('text')].map((one) => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
    p.left < q.right && q.left < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom).map(([b]) => `${a} on ${b}`));
})"""
"""Labels of a chart that overlap; the box of a label is a little higher than its letters."""


@pytest.fixture(scope="module")
def given() -> Comparison:
    trace = load("tiny")
    spec = homogeneous(4, 8)
    return compared(trace, [simulate(trace.jobs, spec, policy) for policy in ("fifo:placement=consolidate", "srtf")])


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)
            self._inside = False


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


def test_the_page_holds_the_data_and_only_its_own_script(given: Comparison) -> None:
    text = page(given, "title")
    reader = read(text)
    assert json.loads(reader.scripts[0]) == page_data(given, "title")
    policy = next(a["content"] for t, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    digest = base64.b64encode(hashlib.sha256(reader.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    for tag, attributes in reader.tags:
        assert "src" not in attributes, tag
        assert not (attributes.get("href") or "#").startswith(("http", "/")), tag
    assert re.findall(r"url\(|@import", text) == []


def test_nothing_from_a_trace_becomes_markup(given: Comparison) -> None:
    runs = tuple(
        replace(run, cluster=HOSTILE, outcomes=tuple(replace(outcome, vc=HOSTILE) for outcome in run.outcomes))
        for run in given.runs
    )
    evil = replace(given, runs=runs, trace=replace(given.trace, path=HOSTILE), warnings=(HOSTILE,))
    assert [tag for tag, _ in read(page(evil, HOSTILE)).tags] == [tag for tag, _ in read(page(given, "x")).tags]
    assert json.loads(read(page(evil, HOSTILE)).scripts[0])["title"] == HOSTILE


def test_the_script_never_writes_markup() -> None:
    script = (resource_folder("templates") / "pages" / "sim.js").read_text(encoding="utf-8")
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttp"):
        assert word not in script


def test_the_curves_are_those_of_the_run(given: Comparison) -> None:
    data = page_data(given, "x")
    for run, shown, expected in zip(given.runs, data["runs"], given.figures, strict=True):
        jcts = sorted(outcome.jct / 1000 for outcome in run.outcomes if outcome.jct is not None)
        assert shown["jct"][0] == [jcts[0], round(1 / 40, 6)]
        assert shown["jct"][-1] == [jcts[-1], 1.0]
        spans = [(b[0] - a[0], a[1]) for a, b in zip(shown["used"], shown["used"][1:], strict=False)]
        whole = sum(width for width, _ in spans)
        assert sum(width * part for width, part in spans) / whole == pytest.approx(expected.utilization, abs=0.01)
        assert max(point[0] for point in shown["used"]) == pytest.approx(expected.makespan, rel=0.01)
        assert sum(row[1] for row in shown["tenants"]) == 40
    (pair,) = data["pairs"]
    assert pair["better"] + pair["worse"] + pair["same"] == 40
    assert [point[1] for point in pair["curve"]] == sorted(point[1] for point in pair["curve"])


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")
def test_a_browser_draws_it_without_complaint_and_without_the_network(given: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(given, "x"), encoding="utf-8")
    with browser() as tab:
        for width, dark in ((1200, False), (1200, True), (390, False)):
            tab.size(width, 800, dark=dark)
            tab.open(path)
            assert tab.complaints == []
            assert {request.partition(":")[0] for request in tab.requests} <= {"file", "data"}
            assert tab.run("document.documentElement.scrollWidth") <= width
            assert tab.run("document.querySelectorAll('path.curve').length") >= 8
            assert tab.run("getComputedStyle(document.querySelector('.chart text')).fontSize") == "11px"
            assert tab.run(OVERLAPS) == []
        assert tab.run("document.querySelector('#parameters').textContent") == "fifo with placement=consolidate"
        tab.run("document.querySelector('#chart-queue svg').focus()")
        tab.press("ArrowRight")
        assert "after" in tab.run("document.querySelector('#chart-queue .told').textContent")
        before = tab.run("document.querySelectorAll('#chart-jct path.curve').length")
        tab.run("document.querySelector('#shown input').click()")
        assert tab.run("document.querySelectorAll('#chart-jct path.curve').length") == before - 1
        path.write_text(page(compared(given.trace, given.runs[1:]), "x"), encoding="utf-8")
        tab.open(path)
        for part in ("#shown", "#to-pairs", "#pairs", "#parameters"):  # sections without content
            assert tab.run(f"getComputedStyle(document.querySelector('{part}')).display") == "none", part
        assert tab.complaints == []
