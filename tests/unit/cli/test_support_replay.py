"""`paictl support replay`: the decisions of a bundle computed again, and no secret needed for it."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.operate.replay import FILE, scheduling_part
from paictl.workload.duration import sleep_seconds
from paictl.workload.job import Job
from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_support import JOB, PLANTED, cluster, unpacked

__all__ = ["cluster"]
EXTRA = {name: f"planted-{name}-77c1" for name in ("command", "parameter", "plugin", "uri", "deployment")}


def job(name: str, commands: list[str], **more: Any) -> dict[str, Any]:
    role = {**JOB["taskRoles"]["worker"], "commands": commands, "instances": 1}  # type: ignore[index]
    return {**JOB, "name": name, "taskRoles": {"worker": role}, **more}


@pytest.fixture
def bundle(cluster: Path, paictl: Paictl) -> Path:
    """A bundle of a cluster in which jobs ran, waited, were preempted and stopped, and a node failed."""
    secret = job(
        "secret",
        [f"login {EXTRA['command']}", "sleep 90", "sleep 1h"],
        parameters={"p": EXTRA["parameter"]},
        prerequisites=[{"name": "i", "type": "dockerimage", "uri": EXTRA["uri"]}],
        deployments=[{"name": "d", "taskRoles": {"worker": {"preCommands": [EXTRA["deployment"]]}}}],
        extras={
            "hivedScheduler": {"jobPriorityClass": "prod"},
            "com.microsoft.pai.runtimeplugin": [
                {
                    "plugin": "cmd",
                    "parameters": {"callbacks": [{"event": "taskStarts", "commands": [f"echo {EXTRA['plugin']}"]}]},
                }
            ],
        },
    )
    folder = cluster / "config"
    for one in (secret, job("long", ["sleep infinity"]), job("short", ["echo hello"])):
        (folder / "job.yaml").write_text(yaml.safe_dump(one))
        done = paictl("job", "submit", str(folder / "job.yaml"))
        assert done.code == 0, done.err
    for words in (
        ["cluster", "tick", "10m"],
        ["job", "stop", "ann~later"],
        ["cluster", "tick", "2h"],
    ):
        done = paictl(*words)
        assert done.code == 0, (words, done.err)
    file = cluster / "b.tar.gz"
    done = paictl("support", "bundle", "--file", str(file))
    assert done.code == 0, done.err
    return file


def altered(file: Path, change: Any) -> Path:
    """A bundle whose recording was changed."""
    files = unpacked(file)
    data = json.loads(files[FILE])
    change(data)
    other = file.with_name("other.tar.gz")
    with tarfile.open(other, "w:gz") as tar:
        body = json.dumps(data).encode()
        about = tarfile.TarInfo(f"folder/{FILE}")
        about.size = len(body)
        tar.addfile(about, io.BytesIO(body))
    return other


def test_every_decision_is_computed_again(bundle: Path, paictl: Paictl) -> None:
    done = paictl("support", "replay", str(bundle), "-o", "json")
    assert done.code == 0, done.err
    assert (done.data["same"], done.data["difference"]) == (True, None)
    events = unpacked(bundle)["events.jsonl"].splitlines()
    assert done.data["compared"] == len(events) > 20
    kinds = {(one["kind"], one["subject"]) for one in done.data["decisions"]}
    assert {("Submitted", "job/ann~secret"), ("Stopped", "job/ann~later")} <= kinds
    assert any(kind in ("Started", "Preempted") for kind, _ in kinds)
    table = paictl("support", "replay", str(bundle))
    assert f"{len(events)} events replayed, all as recorded" in table.out


def test_a_bundle_that_can_be_replayed_has_no_secret(bundle: Path) -> None:
    content = "\n".join(unpacked(bundle).values())
    recording = unpacked(bundle)[FILE]
    assert [name for name, secret in {**PLANTED, **EXTRA}.items() if secret in recording] == []
    assert [name for name, secret in PLANTED.items() if secret in content] == []
    assert "sleep 3690" in recording  # what decisions depend on is there


def test_the_decisions_about_one_job(bundle: Path, paictl: Paictl) -> None:
    done = paictl("support", "replay", str(bundle), "--job", "ann~secret", "-o", "json")
    assert {one["subject"] for one in done.data["decisions"]} == {"job/ann~secret"}
    wrong = paictl("support", "replay", str(bundle), "--job", "ann~none")
    assert wrong.code == 2
    assert "ann~none" in wrong.err


def test_another_decision_is_found(bundle: Path, paictl: Paictl) -> None:
    def later(data: Any) -> None:
        row = next(row for row in data["events"] if row[2] == "Started" and row[3].startswith("job/"))
        row[1] += 1

    done = paictl("support", "replay", str(altered(bundle, later)))
    assert done.code == 1
    assert "was recorded as" in done.err

    def without_a_command(data: Any) -> None:
        data["log"] = [row for row in data["log"] if row[1]["do"] != "stop-job"]

    done = paictl("support", "replay", str(altered(bundle, without_a_command)))
    assert done.code == 1

    def without_an_event(data: Any) -> None:
        del data["events"][5]

    done = paictl("support", "replay", str(altered(bundle, without_an_event)))
    assert done.code == 1
    assert "which was not recorded" in " ".join(done.err.split())


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00broken"])
def test_a_file_that_is_no_bundle(home: Path, paictl: Paictl, content: bytes) -> None:
    (home / "x.tar.gz").write_bytes(content)
    done = paictl("support", "replay", str(home / "x.tar.gz"))
    assert done.code == 2
    assert "not a support bundle" in done.err
    assert paictl("support", "replay", str(home / "none.tar.gz")).code == 2


SPOILED: tuple[Any, ...] = (
    lambda data: data.update(log=[]),
    lambda data: data.update(log=5),
    lambda data: data["log"].pop(0),
    lambda data: data["log"][3][1].update(do="nonsense"),
    lambda data: data.pop("epoch"),
    lambda data: data.update(events=[5]),
)


def test_a_recording_that_cannot_be_played(bundle: Path, paictl: Paictl) -> None:
    for number, change in enumerate(SPOILED):
        done = paictl("support", "replay", str(altered(bundle, change)))
        assert done.code == 2, number
        assert "cannot be replayed" in done.err
        assert "Traceback" not in done.err
    done = paictl("support", "replay", str(altered(bundle, lambda data: data.update(format=9))))
    assert (done.code, "another version of paictl" in done.err) == (2, True)
    with tarfile.open(bundle.with_name("empty.tar.gz"), "w:gz"):
        pass
    done = paictl("support", "replay", str(bundle.with_name("empty.tar.gz")))
    assert (done.code, "no recording" in done.err) == (2, True)


LINES = st.lists(
    st.sampled_from(["sleep 5", "sleep 1.5m", "sleep infinity", "echo x", "while true; do x; done", "python t.py"]),
    min_size=1,
    max_size=4,
)


@given(LINES)
def test_tasks_run_for_as_long_as_their_commands_said(lines: list[str]) -> None:
    role = {
        "instances": 1,
        "dockerImage": "i",
        "commands": lines,
        "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 1},
    }
    made = scheduling_part({**JOB, "taskRoles": {"w": role}})
    assert sleep_seconds(made["taskRoles"]["w"]["commands"]) == sleep_seconds(lines)
    assert scheduling_part(made) == made
    Job.from_mapping(made)
