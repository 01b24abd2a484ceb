"""The sixteen habits of a command line, each tried as somebody types it: `tests/cases/habits.yaml` has the cases."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from paictl.cli.app import app
from paictl.operate.users import passwords
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl

CASES: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "cases" / "habits.yaml").read_text(encoding="utf-8"))
HABITS: list[dict[str, Any]] = CASES["habits"]
FAR = """
apiVersion: v1
kind: Config
current-context: far
clusters: [{name: far, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: far, user: {}}]
contexts: [{name: far, context: {cluster: far, user: far}}]
"""


@pytest.fixture
def folder(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example cluster is up, one of its jobs runs, and configuration files are here."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    monkeypatch.setattr(passwords, "COST", (4, 1, 1))
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.chdir(home)
    for name, source in (("cluster", "cluster"), ("changed", "cluster"), ("broken", "broken-cluster")):
        shutil.copytree(ROOT / "examples" / source, home / name)
    services = home / "changed" / "services-configuration.yaml"
    services.write_text(services.read_text(encoding="utf-8") + "\ngrafana: {port: 3001}\n", encoding="utf-8")
    shutil.copyfile(ROOT / "examples" / "jobs" / "train.yaml", home / "train.yaml")
    (home / "far.conf").write_text(FAR, encoding="utf-8")
    assert paictl("cluster", "up", "cluster").code == 0
    assert paictl("job", "submit", "train.yaml", "--vc", "vision", "--name", "hold", "--duration", "9h").code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("a long password\n"))
    assert paictl("user", "add", "eve", "--vc", "vision", "--password-stdin").code == 0
    return home


def digest(folder: Path) -> dict[str, str]:
    """Every file below a folder, but the log of commands that failed and what SQLite keeps beside a database."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "log" not in path.name and not path.name.endswith(("-wal", "-shm"))
    }


@pytest.mark.parametrize("habit", HABITS, ids=[f"{one['number']:02}" for one in HABITS])
def test_a_habit(habit: dict[str, Any], folder: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    for attempt in habit["tries"]:
        with monkeypatch.context() as patch:
            for name, value in attempt.get("env", {}).items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(attempt.get("stdin", "").encode())))
            project = folder / ".paictl.toml"
            project.write_text(attempt.get("project", ""), encoding="utf-8")
            before = digest(folder) if attempt.get("keeps") else {}
            done = paictl(*shlex.split(attempt["run"]))
            what = f"{attempt['run']}: {done}"
            assert done.code == attempt["code"], what
            assert attempt.get("out", "") in done.out, what
            assert attempt.get("err", "") in done.err, what
            assert attempt.get("not-out", "\0") not in done.out, what
            assert attempt.get("not-err", "\0") not in done.err, what
            if attempt.get("err") == "":
                assert done.err == "", what
            if attempt.get("json"):
                assert json.loads(done.out)["schemaVersion"] == 1, what
            after = digest(folder) if before else {}
            assert {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)} == set(), what


def test_there_are_sixteen_and_what_proves_more_exists() -> None:
    assert [one["number"] for one in HABITS] == list(range(1, 17))
    for habit in HABITS:
        assert habit["tries"] or habit["proved"]
        for place in habit.get("proved", ()):
            path, _, name = place.partition("::")
            assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8") if name else (ROOT / path).is_file(), (
                place
            )


def options(command: Any, path: list[str], parent: Any = None) -> Iterator[tuple[str, set[str]]]:
    """Every command below a group with its options."""
    context = typer.Context(command, info_name=path[-1] if path else "paictl", parent=parent)
    if not hasattr(command, "list_commands"):
        yield " ".join(path), {word for param in command.params for word in param.opts}
        return
    for name in command.list_commands(context):
        yield from options(command.get_command(context, name), [*path, name], context)


def test_whatever_waits_has_a_timeout() -> None:
    known = dict(options(typer.main.get_command(app), []))
    timed = {name for name, words in known.items() if "--timeout" in words}
    assert set(CASES["waits"]["with"]) == timed
    watching = {name for name, words in known.items() if words & set(CASES["waits"]["watching"])}
    assert watching <= timed
