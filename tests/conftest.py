"""Fixtures and paths that all tests share."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

# In CI the same examples every time: a submission must not fail for what it did not change. Elsewhere new ones every
# time, which is how the next mistake is found. No deadlines: the machines are shared.
settings.register_profile("anew", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same" if os.environ.get("CI") else "anew")

EXAMPLES = int(os.environ.get("PAICTL_EXAMPLES", "0"))
"""Most examples of a property test, 0: as many as it says. `make test-lowest` asks only whether libraries fit."""

# Whoever runs the tests may have set paictl up to their taste; the tests expect what everybody gets.
os.environ["XDG_CONFIG_HOME"] = os.devnull
if "PYTEST_XDIST_WORKER" not in os.environ:  # its workers inherit it; and nothing is left in the user's own folder
    _state = tempfile.TemporaryDirectory(prefix="paictl-state-")
    os.environ["XDG_STATE_HOME"] = _state.name
for _name in ("PAICTL_CLUSTER", "PAICTL_LANG", "PAICTL_OUTPUT", "FORCE_COLOR", "NO_COLOR", "COLUMNS"):
    os.environ.pop(_name, None)

# A shell that begins the tests in the background has them ignore Ctrl-C, and all that they start with them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Take fewer examples where that is asked for."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    if not EXAMPLES or not getattr(test, "is_hypothesis_test", False):
        return
    own = getattr(test, "_hypothesis_internal_use_settings", None) or settings()
    test._hypothesis_internal_use_settings = settings(own, max_examples=min(own.max_examples, EXAMPLES))  # type: ignore[union-attr]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say each reason for skipping once, with the number of tests; the reason says how to run them."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        detail = report.longrepr
        reason = detail[2] if isinstance(detail, tuple) else str(detail)
        reasons[str(reason).removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped")
        for reason, number in reasons.most_common():
            terminalreporter.write_line(f"{number:5} skipped: {reason}")


ROOT = Path(__file__).resolve().parent.parent
_OTHER_ENVIRONMENTS = {ROOT / name for name in (".venv", ".venv-lowest")} - {Path(sys.prefix)}
OTHER_PYTHON = next((python for each in _OTHER_ENVIRONMENTS if (python := each / "bin" / "python").is_file()), None)
"""The Python of `make test-lowest` for `make test`, and the other way round."""
SHARED = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared"))

EXAMPLE_LABS = ("04", "09")
"""Labs of which tests make reports; the self-test and one play prove the others."""


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test material beside the repository; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no test material at {SHARED} (set PAICTL_SHARED)")
    return SHARED


@pytest.fixture(scope="session")
def example_reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as of `make example-reports`, of `EXAMPLE_LABS` in both languages, made once for all workers."""
    shared = (
        tmp_path_factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else tmp_path_factory.mktemp("r")
    )
    folder = shared / "example-reports"
    with (shared / "example-reports.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            making = folder.with_name("example-reports.part")
            tool = ROOT / "tools" / "example_report.py"
            subprocess.run([sys.executable, tool, making, *EXAMPLE_LABS], check=True, timeout=300)
            making.rename(folder)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    pytest.importorskip("hatchling", reason="builds a wheel: make test")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    subprocess.run([*command, str(ROOT)], check=True, timeout=300)
    (found,) = folder.glob("*.whl")
    return found
