"""Ctrl-C at any moment: one line, exit code 130, no traceback, no half-loaded module, in a lab and outside.

The moments are counted in calls of Python functions, so that they are the same however slow the machine is: a run that
is told to stop at the N-th call gets the signal there.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import typer

from paictl.cli import interrupts
from paictl.cli.app import app
from paictl.cli.lab.hook import after_command
from tests.conftest import ROOT
from tools import interrupt_commands

MOMENTS = int(os.environ.get("PAICTL_MOMENTS", "100"))
"""In each of two places."""

STOPPED_AT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits that it is ignored
from paictl.cli import interrupts; interrupts.install()  # what comes before is the start of Python itself
calls, at = 0, int(sys.argv.pop(1))
def count(frame, event, _):
    global calls
    if event == "call":
        calls += 1
        if calls == at:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)
if at:
    sys.setprofile(count)
else:
    import atexit
    sys.setprofile(count)
    atexit.register(lambda: print("calls", calls, file=sys.stderr))
from paictl.cli.main import main
main(sys.argv[1:])
"""


def stopped(at: int, words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line that gets Ctrl-C at its N-th call; 0 for one that says how many calls it makes."""
    return subprocess.run(
        [sys.executable, "-c", STOPPED_AT, str(at), *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PAICTL_STATE": str(folder)},
        timeout=300,
    )


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "cluster"
    up = [sys.executable, "-m", "paictl", "cluster", "up", "--state", str(folder), "-q"]
    subprocess.run(up, check=True, cwd=ROOT)
    return folder


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    begin = [sys.executable, "-m", "paictl", "lab", "start", "2"]
    environment = {**os.environ, "PAICTL_STATE": str(tmp_path / "state")}
    subprocess.run(begin, check=True, cwd=ROOT, env=environment, capture_output=True)
    return tmp_path / "state" / "labs" / "02_vc_safety"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["outside", "lab"])
def test_ctrl_c_at_any_moment_is_one_line(place: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(place)
    words = ["job", "list"]
    whole = stopped(0, words, folder)
    assert whole.returncode == 0, whole.stderr
    calls = int(whole.stderr.rpartition("calls ")[2])
    moments = [1 + calls * number // MOMENTS for number in range(MOMENTS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = list(pool.map(lambda at: stopped(at, words, folder), moments))
    wrong = [(at, done) for at, done in zip(moments, ended, strict=True) if not _ended_well(done)]
    assert not wrong, f"at call {wrong[0][0]} of {calls}: {wrong[0][1]}"
    assert sum(done.returncode == 130 for done in ended) >= MOMENTS * 0.8, "others came in the last imports"
    assert stopped(0, words, folder).returncode == 0, "what was interrupted left nothing behind"


def _ended_well(done: subprocess.CompletedProcess[str]) -> bool:
    lines = [line for line in done.stderr.splitlines() if not line.startswith("lab: ")]
    if done.returncode == 130:
        return lines == ["interrupted"]
    return done.returncode == 0 and not lines  # it came when all was said


@pytest.mark.slow
def test_ctrl_c_at_random_moments_of_other_commands_is_one_line(tmp_path: Path) -> None:
    prepared = interrupt_commands.prepare(tmp_path / "prepared")
    pick = random.Random(7)  # noqa: S311 - moments, no secrets
    lines = ("cluster view", "job submit train.yaml --vc vision", "job explain late-3", "config validate cluster")
    with ThreadPoolExecutor(2) as pool:
        wrong = [said for line in lines for said in interrupt_commands.attempts(line, 3, prepared, pick, pool)]
    assert wrong == []


def leaves(command: Any, path: list[str], parent: Any = None) -> Iterator[str]:
    """The commands below a group, as one types them."""
    context = typer.Context(command, info_name=path[-1] if path else "paictl", parent=parent)
    if not hasattr(command, "list_commands"):
        yield " ".join(path)
        return
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), [*path, name], context)


def test_every_command_is_interrupted_by_the_tool() -> None:
    there = set(leaves(typer.main.get_command(app), []))
    assert len(there) > 100
    tried = set()
    for line in interrupt_commands.COMMANDS.strip().splitlines():
        words = shlex.split(line)
        names = [" ".join(words[:number]) for number in (3, 2, 1)]
        tried.add(next((name for name in names if name in there), line))
    assert there - tried == set(), "add a line to COMMANDS"
    assert tried - there == {"help"}, "these are no commands (any more)"


@pytest.fixture
def own_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.install()
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


LATE = """
import os, signal, time
from paictl.cli import interrupts
interrupts.install()
signal.signal(signal.SIGALRM, interrupts._interrupt)
with interrupts.working():
    signal.setitimer(signal.ITIMER_REAL, 0.2)  # as Ctrl-C in the last import leaves it
interrupts.leave()
class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.5)
os.late = Late()  # goes when Python has taken its handlers away
"""


@pytest.mark.usefixtures("own_handler")
def test_what_comes_while_an_object_is_finalized_is_not_swallowed() -> None:
    class Gone:
        pass

    gone = [Gone()]
    weakref.finalize(gone[0], os.kill, os.getpid(), signal.SIGINT)

    def let_go() -> None:
        gone.clear()
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt), interrupts.working():
        let_go()


def test_an_alarm_after_the_end_kills_nobody() -> None:
    assert subprocess.run([sys.executable, "-c", LATE], check=False, cwd=ROOT).returncode == 0


@pytest.mark.usefixtures("own_handler")
def test_a_command_at_work_may_clean_up() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.working():
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("own_handler")
def test_an_import_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_to_load.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.05)\nWHOLE = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(KeyboardInterrupt), interrupts.working():
        _load_and_wait("slow_to_load")
    assert sys.modules["slow_to_load"].WHOLE


def _load_and_wait(name: str) -> None:
    importlib.import_module(name)
    while True:
        time.sleep(0.01)


@pytest.mark.usefixtures("own_handler")
def test_what_is_held_is_finished_and_then_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(interrupts, "_pending", False)
    monkeypatch.setattr(interrupts, "_end", lambda: ended.append(130))
    with interrupts.held():
        os.kill(os.getpid(), signal.SIGINT)
        assert not ended
    assert ended == [130]


def test_a_lab_notes_a_command_that_was_interrupted(in_shell: Path) -> None:
    after_command(["job", "list"], 130, None)
    noted = [json.loads(line) for line in next(in_shell.glob("*.jsonl")).read_text().splitlines()]
    assert noted[-1]["exit"] == 130
