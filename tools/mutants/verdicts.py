"""Which tests a mutant has to pass, and whether it does."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import coverage
import pytest
from hypothesis import Phase, settings

from tools.mutants.samples import ROOMS, ROOT, TREE, Mutant, mutated

LINES: Final = ROOT / "build" / "mutants" / "lines.sqlite"
"""Which test runs which line: coverage's data, a context a test."""
TIMES: Final = ROOT / "build" / "mutants" / "times.json"
"""Seconds of each test under coverage."""
TESTS: Final = ("scheduler", "extender", "placer", "controller", "remote", "deploy", "cluster", "cells", "operate")
LONG: Final = 3
"""Seconds of CPU after which a test under coverage is left out."""
BUDGET, LIMIT, PATIENCE = 30.0, 60, 600.0
"""Seconds for a mutant: the tests it is given, by `TIMES`; of the processor, so that a busy machine does not change
its verdict; by the clock, at most."""
EXAMPLES: Final = 15
"""Most examples of a property test. CI takes more: a score is a lower bound."""
OPTIONS: Final = (
    *("-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is imported before pytest begins
)
FILES: Final = 10
"""Test files of a mutant where they are chosen by name."""
MEMORY: Final = 6 << 30
HEAVY: Final = "kubernetes.client yaml jsonschema typer.testing rich.console sqlite3 asyncio starlette requests"
"""Imported once, before the forks."""


class Light:
    """A plugin of pytest: property tests take few examples, and do not look for the smallest one that fails."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give each its settings anew."""
        for item in items:
            test, name = getattr(item, "obj", None), "_hypothesis_internal_use_settings"
            if parent := getattr(test, name, None):
                few = min(parent.max_examples, EXAMPLES)
                setattr(test, name, settings(parent, max_examples=few, phases=[Phase.explicit, Phase.generate]))


class Recorder(Light):
    """The context of a line is the test that runs; what each test takes; which one is left out."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = defaultdict(float)
        self.left_out: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin a test."""
        self.measured.switch_context(nodeid)
        signal.signal(signal.SIGVTALRM, self.give_up)
        signal.setitimer(signal.ITIMER_VIRTUAL, LONG)

    def pytest_runtest_logfinish(self) -> None:
        """End it."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def give_up(self, *_: object) -> None:
        """Skip it: hypothesis lets this through at once."""
        pytest.skip(f"computes for {LONG} s under coverage")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up set-up, call and tear-down."""
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.left_out.add(report.nodeid)


def record(tests: list[str]) -> None:
    """Run `tests`, and add which lines each runs to what is known. One that does not pass by itself is left out."""
    tests = tests or [f"tests/unit/{name}" for name in TESTS]
    ours = [f"{TREE}/paictl/{package}/*" for packages, _ in ROOMS.values() for package in packages]
    measured = coverage.Coverage(str(LINES), include=ours)
    if LINES.exists():
        measured.load()
    recorder = Recorder(measured)
    measured.start()
    pytest.main(["-m", "not slow", *OPTIONS, *tests], plugins=[recorder])
    measured.stop()
    measured.save()
    known = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    known.update((name, took) for name, took in recorder.seconds.items() if name not in recorder.left_out)
    TIMES.write_text(json.dumps(known, indent=0))
    print(f"{len(recorder.seconds)} tests; left out: {sorted(recorder.left_out)}")


class Chooser:
    """The tests of a mutant."""

    def __init__(self) -> None:
        self.times: dict[str, float] = json.loads(TIMES.read_text())
        data = coverage.CoverageData(str(LINES))
        data.read()
        self.lines = {str(Path(n).relative_to(TREE)): data.contexts_by_lineno(n) for n in data.measured_files()}

    def tests(self, mutant: Mutant) -> dict[str, float]:
        """Those that run its line, in order, with their seconds; all of its module for what runs on import only."""
        lines = self.lines.get(mutant["module"], {})
        names = {name for name in lines.get(mutant["line"], []) if name in self.times}
        if not names and mutant["line"] in lines:
            names = {name for known in lines.values() for name in known if name in self.times}
        files: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names, key=lambda name: self.times[name]):
            files[name.partition("::")[0]].append(name)
        near = tuple(f"tests/unit/{folder}/" for folder in ROOMS[mutant["room"]][1])
        cost = {file: sum(self.times[name] for name in inside) for file, inside in files.items()}
        chosen: dict[str, float] = {}
        for file in sorted(files, key=lambda file: (not file.startswith(near), cost[file])):
            for name in files[file]:
                if not chosen or sum(chosen.values()) + self.times[name] <= BUDGET:
                    chosen[name] = self.times[name]
        return chosen


def by_name(mutant: Mutant) -> dict[str, float]:
    """Without a map: files of the room's tests that name the module, its package, or neither; small ones first."""
    path = Path(mutant["module"]).with_suffix("")
    module, package = ".".join(path.parts), ".".join(path.parts[:-1])
    ranked = []
    for folder in ROOMS[mutant["room"]][1]:
        for file in Path("tests/unit", folder).rglob("test_*.py"):
            code = file.read_text()
            words = [
                rf"{re.escape(package)} import .*\b{path.name}\b|{re.escape(module)}\b",
                rf"\b{path.name}\b",
                re.escape(package),
            ]
            rank = next((rank for rank, word in enumerate(words) if re.search(word, code)), len(words))
            ranked.append((rank, len(code), str(file)))
    return {file: 0.0 for *_, file in sorted(ranked)[:FILES]}


class Selected(Light):
    """These tests in this order; one that takes twenty times as long as it should, hangs."""

    def __init__(self, tests: dict[str, float], log: Path) -> None:
        self.tests, self.log = tests, log

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose and sort."""
        order = {name: number for number, name in enumerate(self.tests)}
        if any("::" in name for name in order):
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda item: order[item.nodeid])
        super().pytest_collection_modifyitems(items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Say which test runs, and set its alarm."""
        self.log.write_text(nodeid)
        signal.alarm(20 + int(20 * self.tests.get(nodeid, 2.0)))


def child(tests: dict[str, float], log: Path) -> int:
    """In the fork: pytest's exit code."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    quiet = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(quiet, number)
    files = dict.fromkeys(name.partition("::")[0] for name in tests)
    return int(pytest.main(["-x", "--tb=no", "-m", "not slow", *OPTIONS, *files], plugins=[Selected(tests, log)]))


def verdict(tests: dict[str, float]) -> tuple[str, str]:
    """Run the tests in a fork, and end all that it started; what came of it, and the test that was last."""
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        log = Path(folder, "test")
        if (pid := os.fork()) == 0:
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            code = 70
            try:
                code = child(tests, log)
            finally:
                os._exit(code)
        end = time.monotonic() + PATIENCE
        while (done := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < end:
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        status = done[1] if done[0] else os.waitpid(pid, 0)[1]
        last = log.read_text() if log.exists() else "on import"
    if not done[0] or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return "out of time", last
    if os.WIFSIGNALED(status):
        return "hangs" if os.WTERMSIG(status) == signal.SIGALRM else "killed", last
    return ("survived", "") if os.WEXITSTATUS(status) == 0 else ("killed", last)


def attempt(mutants: list[Mutant], *, mapped: bool) -> Iterator[Mutant]:
    """Each mutant with its verdict; its tests by what `record` knows, or by name."""
    os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
    for name in (*HEAVY.split(), "hypothesis.strategies", "_hypothesis_pytestplugin"):
        importlib.import_module(name)
    choose, moments = (Chooser().tests if mapped else by_name), count(1_000_000_000)
    for mutant in mutants:
        path, start = TREE / mutant["module"], time.monotonic()
        tests, code, stat = choose(mutant), path.read_text(), path.stat()
        came, by = "reached by no test", ""
        if tests:
            path.write_text(mutated(mutant) or "")
            os.utime(path, (moment := next(moments), moment))  # no time twice: Python compiles what is new by its time
            try:
                came, by = verdict(tests)
            finally:
                path.write_text(code)
                os.utime(path, (stat.st_atime, stat.st_mtime))
        yield {**mutant, "verdict": came, "by": by, "tests": len(tests), "seconds": round(time.monotonic() - start, 1)}
