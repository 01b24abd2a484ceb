"""The log file: every failure once, no secrets, bounded, readable by its owner only, and never in a command's way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from paictl.cli import logfile
from paictl.errors import PaictlError
from paictl.places import log_file
from tests.unit.cli.conftest import Paictl


@pytest.fixture(autouse=True)
def _own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_failure_is_kept_and_what_works_leaves_no_trace(paictl: Paictl) -> None:
    assert paictl("version").code == 0
    assert not log_file().exists()
    done = paictl("job", "show", "nope", "-v")
    assert done.code == 4
    assert str(log_file()) in done.err.replace("\n", "")
    first, *rest = log_file().read_text().splitlines()
    assert first.endswith("paictl job show nope -v")
    assert "exit 4" in first
    assert any("no cluster is up" in line for line in rest)
    assert all(line.startswith("    ") for line in rest)
    assert log_file().stat().st_mode & 0o777 == 0o600
    assert log_file().parent.stat().st_mode & 0o777 == 0o700
    assert str(log_file()) not in paictl("job", "show", "nope").err.replace("\n", "")
    shown = paictl("support", "log", "-n", "1")
    assert shown.code == 0
    assert shown.out.splitlines() == log_file().read_text().splitlines()[-1:]
    assert paictl("support", "log", "-o", "json").data["file"] == str(log_file())


def test_an_empty_log_is_no_error(paictl: Paictl) -> None:
    done = paictl("support", "log")
    assert (done.code, done.out) == (0, "")
    assert "no command has failed yet" in done.err


def test_no_secret_gets_into_it() -> None:
    cause = ValueError("token: hunter2 at https://ann:hunter2@registry.example/v2")
    error = PaictlError("password: hunter2", hint="secret: 'hunter2'")
    error.__cause__ = cause
    words = ["job", "exec", "x", "--", "curl", "-u", "ann:hunter2"]
    path = logfile.note_failure(["config", "set", "password: hunter2"], 2, error, 0.1)
    assert path == logfile.note_failure(words, 2, error, 0.1)
    assert path is not None
    text = path.read_text()
    assert "hunter2" not in text
    assert "job exec x -- ..." in text
    assert "because of ValueError" in text


def test_it_stays_small_and_the_newest_records_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "SIZE", 2000)
    for number in range(200):
        assert logfile.note_failure([f"n{number}"], 2, PaictlError("x" * 50), 0.0) is not None
    files = sorted(log_file().parent.iterdir())
    assert [file.name for file in files] == ["paictl.log", *(f"paictl.log.{n + 1}" for n in range(logfile.LOGS_KEPT))]
    assert all(file.stat().st_size <= 2000 for file in files)
    kept = "".join(file.read_text() for file in [*reversed(files[1:]), files[0]])
    numbers = [int(line.rpartition(" n")[2]) for line in kept.splitlines() if ": paictl n" in line]
    assert numbers == list(range(200 - len(numbers), 200))


def test_failures_at_the_same_time_do_not_mix() -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: logfile.note_failure([f"n{n}"], 2, PaictlError(f"m{n}"), 0.0), range(100)))
    lines = log_file().read_text().splitlines()
    records = {line.rpartition(" n")[2]: said for line, said in pairwise(lines) if " paictl n" in line}
    assert records == {str(n): f"    error: m{n}" for n in range(100)}


def test_where_nothing_can_be_written_the_command_says_what_it_says(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
    done = paictl("job", "show", "nope", "-v")
    assert done.code == 4
    assert "log file" not in done.err
