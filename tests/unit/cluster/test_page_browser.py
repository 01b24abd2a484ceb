"""The page in a real browser: it draws without a complaint, and what one can do with it works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from paictl.cluster.interface import NodeChange
from paictl.cluster.page import page
from paictl.cluster.picture import JobLine, Picture
from paictl.cluster.values import AttemptOutcome
from tests.browser import CHROMIUM, Page, browser
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench
from tests.unit.cluster.test_page import HOSTILE, hostile

pytestmark = [pytest.mark.skipif(not CHROMIUM, reason="no chromium here (Debian: apt-get install chromium)")]

MAX_BYTES = 5_000_000
"""What opens within two seconds on a small machine."""


@pytest.fixture(scope="module")
def shared_browser() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture
def tab(shared_browser: Page) -> Iterator[Page]:
    """A page of a shared browser; whatever it complains about fails the test."""
    shared_browser.size(1280, 900)
    shared_browser.complaints.clear()
    shared_browser.requests.clear()
    yield shared_browser
    assert shared_browser.complaints == []
    assert all(url.startswith(("file:", "data:", "about:")) for url in shared_browser.requests)


def busy(lab: Bench) -> Picture:
    """Two jobs, one of which was preempted, and a failed node."""
    lab.submit("low", "vc1", "test", gpu=8, instances=2)
    lab.pass_time(2 * MINUTE)
    lab.submit("high", "vc1", "prod", gpu=8)
    lab.cluster.set_node("worker1", NodeChange.FAIL)
    lab.pass_time(MINUTE)
    return lab.cluster.picture(history=True)


def show(tab: Page, picture: Picture, folder: Path) -> None:
    path = folder / "view.html"
    path.write_text(page(picture), encoding="utf-8")
    tab.open(path)


def many(picture: Picture, number: int) -> Picture:
    """The picture with a history of `number` jobs, those that it has over and over."""
    assert picture.timeline is not None
    jobs, lines = list(picture.jobs), list(picture.timeline.jobs)
    stories = {line.key: line for line in lines}
    for place in range(number - len(jobs)):
        copied = picture.jobs[place % len(picture.jobs)]
        key = f"{copied.key}-{place}"
        jobs.append(replace(copied, key=key, number=len(jobs) + 1))
        lines.append(JobLine(key, stories[copied.key].tasks))
    return replace(picture, jobs=tuple(jobs), timeline=replace(picture.timeline, jobs=tuple(lines)))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_draws_every_device_and_job_in_any_window(
    tab: Page, bench: MakeBench, tmp_path: Path, width: int, dark: bool
) -> None:
    tab.size(width, 800, dark=dark)
    show(tab, busy(bench("dgx2")), tmp_path)
    assert tab.run("document.querySelectorAll('#chains .device').length") == 32
    assert tab.run("document.querySelectorAll('#chains .device.used').length") == 8
    assert tab.run("document.querySelectorAll('#chains .device.bad').length") == 16
    assert tab.run("document.querySelectorAll('#job-table tbody tr').length") == 2
    assert tab.run("document.documentElement.scrollWidth") <= width, "nothing makes the page itself scroll sideways"
    paper = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark


def test_hovering_and_the_keyboard_tell_the_story_of_a_bar(tab: Page, bench: MakeBench, tmp_path: Path) -> None:
    show(tab, busy(bench("dgx2")), tmp_path)
    tab.move(*tab.middle("document.querySelector('#bars .lane.preempted')"))
    told = tab.run("document.getElementById('tip').textContent")
    assert "ann~low" in told
    assert "preempted by ann~high" in told
    tab.run("document.getElementById('gantt').focus()")
    tab.press("ArrowRight")
    assert "ann~" in tab.run("document.getElementById('told').textContent")
    tab.move(*tab.middle("document.querySelector('#chains .device.used')"))
    assert "VC vc1" in tab.run("document.getElementById('tip').textContent")


def test_zoom_widens_the_chart_and_fit_undoes_it(tab: Page, bench: MakeBench, tmp_path: Path) -> None:
    show(tab, busy(bench("dgx2")), tmp_path)
    width = "document.getElementById('bars').getBoundingClientRect().width"
    before, ticks = tab.run(width), tab.run("document.getElementById('axis').textContent")
    tab.click(*tab.middle("document.getElementById('zoom-in')"))
    assert tab.run(width) == pytest.approx(2 * before, rel=0.01)
    tab.run("document.getElementById('gantt').focus()")
    for _ in range(4):
        tab.press("+")
    assert tab.run("document.getElementById('zoom-level').textContent") == "32×"
    assert tab.run("document.getElementById('axis').textContent") != ticks, "ticks follow the zoom"
    tab.press("0")
    assert tab.run(width) == pytest.approx(before, rel=0.01)


def test_a_click_follows_a_job_through_the_page(tab: Page, bench: MakeBench, tmp_path: Path) -> None:
    show(tab, busy(bench("dgx2")), tmp_path)
    tab.click(*tab.middle("document.querySelector('#chains .device.used')"))
    assert tab.run("document.querySelectorAll('#chains .chosen').length") == 8
    assert tab.run("document.querySelectorAll('#bars .picked').length") == 1
    assert tab.run("document.querySelector('#job-table .chosen-row td').textContent") == "ann~high"
    tab.press("Escape")
    assert tab.run("document.querySelectorAll('.chosen').length") == 0


def test_nodes_colours_filter_and_order_can_be_chosen(tab: Page, bench: MakeBench, tmp_path: Path) -> None:
    show(tab, busy(bench("dgx2")), tmp_path)
    tab.run("document.querySelector('input[value=nodes]').click()")
    labels = tab.run("[...document.querySelectorAll('#labels span')].map((e) => e.textContent)")
    assert labels == ["worker1", "worker2"]
    assert tab.run("document.querySelectorAll('#bars .down').length") == 1
    assert tab.run("document.querySelector('#names').textContent").startswith("B ann~high")
    tab.run("document.getElementById('by-vc').click()")
    assert tab.run("document.querySelector('#names').textContent") == "A defaultB vc1"
    rows = "[...document.querySelectorAll('#job-table tbody tr')].map((e) => e.firstChild.textContent)"
    tab.run("document.querySelector('#job-table th button').click()")
    assert tab.run(rows) == ["ann~high", "ann~low"]
    tab.run("document.getElementById('job-filter').value = 'LOW'")
    tab.run("document.getElementById('job-filter').dispatchEvent(new Event('input'))")
    tab.run("new Promise((done) => setTimeout(done, 300))")
    assert tab.run(rows) == ["ann~low"]


def test_hostile_names_are_only_text(tab: Page, bench: MakeBench, tmp_path: Path) -> None:
    show(tab, hostile(busy(bench("dgx2"))), tmp_path)
    assert tab.run("document.getElementById('name').textContent") == HOSTILE
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.run("document.querySelector('#job-table td').textContent") == HOSTILE


def test_a_cluster_without_anything_is_no_error(tab: Page, bench: MakeBench, tmp_path: Path) -> None:
    picture = bench().cluster.picture(history=True)
    show(tab, replace(picture, chains=(), vcs=(), note="no configuration has been pushed yet"), tmp_path)
    assert "no configuration" in tab.run("document.getElementById('note').textContent")
    show(tab, replace(picture, timeline=None), tmp_path)
    assert "without history" in tab.run("document.getElementById('labels').textContent")


@pytest.mark.slow
def test_2232_devices_and_1500_jobs_open_and_print(tab: Page, bench: MakeBench, tmp_path: Path) -> None:
    lab = bench("production")
    for vc in range(1, 12):
        lab.submit(f"low{vc}", f"vc{vc}", "test", gpu=8, instances=4, gang=False)
        lab.submit(f"small{vc}", f"vc{vc}", "oppo", gpu=1, instances=8, gang=False)
    lab.pass_time(2 * MINUTE)
    for vc in range(1, 12):
        lab.submit(f"high{vc}", f"vc{vc}", "prod", gpu=8, instances=2)
    picture = many(lab.cluster.picture(history=True), 1500)
    assert picture.timeline is not None
    attempts = [a for job in picture.timeline.jobs for task in job.tasks for a in task.attempts]
    assert len(attempts) > 5000
    assert {a.outcome for a in attempts} >= {AttemptOutcome.RUNNING, AttemptOutcome.PREEMPTED}
    assert len(page(picture)) < MAX_BYTES
    show(tab, picture, tmp_path)
    assert tab.run("document.querySelectorAll('#chains .device').length") == 2232
    assert tab.run("document.querySelectorAll('#job-table tbody tr').length") == 1500
    assert tab.pdf().startswith(b"%PDF")
