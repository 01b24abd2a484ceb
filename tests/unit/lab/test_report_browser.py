"""Reports in a real browser: nothing from outside, nothing wider than the window, dark where wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import CHROMIUM, browser
from tests.conftest import EXAMPLE_LABS

pytestmark = [pytest.mark.skipif(not CHROMIUM, reason="no chromium here (Debian: apt-get install chromium)")]

LIGHTNESS = "getComputedStyle(document.body).color.match(/\\d+/g).map(Number).reduce((a, b) => a + b) / 3"


def test_reports_fit_a_phone_and_follow_the_reader(example_reports: Path) -> None:
    with browser() as tab:
        for name in ("report.html", "report.zh.html"):
            path = example_reports / name
            tab.size(360, 800)
            tab.open(path)
            assert tab.run("document.documentElement.scrollWidth") == 360
            dark_on_light = tab.run(LIGHTNESS)
            tab.size(1280, 900, dark=True)
            tab.open(path)
            assert tab.run(LIGHTNESS) > dark_on_light
            assert tab.run("document.querySelectorAll('h2.experiment').length") == len(EXAMPLE_LABS)
            assert tab.run("document.querySelectorAll('svg').length") == len(EXAMPLE_LABS)
            assert tab.pdf().startswith(b"%PDF")
        assert tab.complaints == []
        assert all(url.startswith(("file:", "data:", "about:")) for url in tab.requests)
