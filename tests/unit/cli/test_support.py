"""`paictl support bundle`: everything that helps, and none of the secrets that were planted."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from paictl.cluster.capabilities import ContainerLog, Diagnostics, LogLimits, Tell
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.interface import Event, EventKind
from paictl.cluster.presets import preset_files
from paictl.cluster.values import ClusterError, ServiceView, TaskPlace
from paictl.errors import PaictlError
from paictl.operate.support import _newest
from tests.unit.cli.conftest import Paictl

PLANTED = {name: f"planted-{name}-9f3a" for name in ("admin", "jwt", "registry", "job", "user")}
JOB = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "secrets": {"key": PLANTED["job"]},
    "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "image"}],
    "taskRoles": {
        "worker": {
            "instances": 4,
            "dockerImage": "i",
            "commands": ["login <% $secrets.key %>"],
            "resourcePerInstance": {"gpu": 8, "cpu": 1, "memoryMB": 64},
        },
    },
    "defaults": {"virtualCluster": "tenanta"},
    "extras": {"hivedScheduler": {"jobPriorityClass": "oppo"}},
}


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        files = {one.name.partition("/")[2]: tar.extractfile(one) for one in tar.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


@pytest.fixture
def cluster(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster with secrets in every place where there are some, and a job that waits."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    assert paictl("cluster", "up", "--preset", "three-tenants").code == 0
    folder = home / "config"
    folder.mkdir()
    services = yaml.safe_load(preset_files("three-tenants")["services-configuration.yaml"])
    services.setdefault("rest-server", {}).update(
        {"default-pai-admin-password": PLANTED["admin"], "jwt-secret": PLANTED["jwt"]}
    )
    registry = {"namespace": "n", "domain": "d.example", "username": "u", "password": PLANTED["registry"]}
    services.setdefault("cluster", {})["docker-registry"] = registry
    (folder / "services-configuration.yaml").write_text(yaml.safe_dump(services))
    done = paictl("config", "push", "-p", str(folder), "-m", "service", "--cluster-id", "pai")
    assert done.code == 0, done.err
    for name in ("train", "later"):
        (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, "name": name}))
        done = paictl("job", "submit", str(folder / "job.yaml"))
        assert done.code == 0, done.err
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PLANTED['user']}\n"))
    assert paictl("user", "add", "eve", "--vc", "tenanta", "--password-stdin").code == 0
    return home


def test_a_bundle_tells_how_the_cluster_is_and_none_of_its_secrets(cluster: Path, paictl: Paictl) -> None:
    crashes = cluster / "state" / "crashes"
    crashes.mkdir(parents=True)
    (crashes / "1.txt").write_text("a traceback")
    file = cluster / "b.tar.gz"
    done = paictl("support", "bundle", "--file", str(file), "-o", "json")
    assert done.code == 0, done.err
    assert file.stat().st_mode & 0o777 == 0o600
    files = unpacked(file)
    assert sorted(files) == done.data["files"]
    text = "\n".join(files.values())
    assert [name for name, secret in PLANTED.items() if secret in text] == []
    accounts = EmbeddedCluster.at(cluster / "state").users.accounts()
    assert not any(account.password in text for account in accounts), "nor what might be guessed from"
    assert 'default-pai-admin-password: "sealed"\n' in files["configuration/services-configuration.yaml"]
    assert "virtualClusters:" in files["configuration/services-configuration.yaml"]
    jobs = {job["key"]: job["state"] for job in json.loads(files["jobs.json"])}
    assert jobs == {"ann~train": "Running", "ann~later": "Waiting"}
    assert list(json.loads(files["waiting.json"])) == ["ann~later"]
    assert json.loads(files["about.json"])["cluster"]["name"] == "pai"
    assert [json.loads(line)["subject"] for line in files["events.jsonl"].splitlines()]
    assert files["this-machine/crashes/1.txt"] == "a traceback"


def test_logs_of_programs_are_cleaned_and_what_is_missing_is_named(
    cluster: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cluster of programs gives them; secrets that are known by value go wherever they are."""
    asked: list[LogLimits] = []
    key = "-----BEGIN PRIVATE KEY-----\nplanted-pem\n-----END PRIVATE KEY-----"

    def diagnostics(_: object, limits: LogLimits, tell: Tell) -> Diagnostics:
        asked.append(limits)
        tell("reading logs")
        lines = [
            "start",
            "token=planted-token",
            "Authorization: Bearer planted-header",
            "login planted-known",
            key,
            "https://u:planted-url@r.example/v2/",
            "end",
            "",
        ]
        logs = [
            ContainerLog("paictl-system", "rest-1", "main", False, "\n".join(lines), cut=False),
            ContainerLog("paictl-system", "rest-1", "main", True, "panic: planted-known\n", cut=True),
        ]
        pods = [{"name": "rest-1", "message": "exit: password=planted-state"}]
        events = [{"message": "pull planted-known"}]
        missing = {f"log n/{number}": "planted-known is forbidden" for number in range(12)}
        return Diagnostics(pods, events, logs, missing, frozenset({"planted-known"}))

    def services(_: object) -> list[ServiceView]:
        at = datetime(2026, 11, 22, tzinfo=UTC)
        return [ServiceView("helm-made", running=True, ready=False, since=at, reason="crashes: token=planted-reason")]

    monkeypatch.setattr(EmbeddedCluster, "diagnostics", diagnostics, raising=False)
    monkeypatch.setattr(EmbeddedCluster, "unrecorded_services", services, raising=False)
    (cluster / "state" / "crashes").mkdir(parents=True)
    (cluster / "state" / "crashes" / "1.txt").write_text("a traceback\nValueError: secret=planted-crash")
    file = cluster / "b.tar.gz"
    done = paictl("support", "bundle", "--file", str(file), "--lines", "7", "--timeout", "60")
    assert done.code == 3
    assert (asked[0].lines, 0 < asked[0].until - time.monotonic() <= 60) == (7, True)
    files = unpacked(file)
    assert [name for name, text in files.items() if "planted-" in text and "planted-user" not in text] == []
    log = files["logs/paictl-system/rest-1/main.log"].splitlines()
    assert (log[0], log[1], log[-1]) == ("start", "token=***", "end")
    assert files["logs/paictl-system/rest-1/main.previous.log"] == "panic: ***\n"
    rows = json.loads(files["logs.json"])
    assert [(row["file"].rpartition("/")[2], row["cut"]) for row in rows] == [
        ("main.log", False),
        ("main.previous.log", True),
    ]
    named = {row["name"]: row.get("started_by") for row in json.loads(files["services.json"])["services"]}
    assert named.pop("helm-made") == "others"
    assert set(named.values()) == {None}
    assert json.loads(files["missing.json"])["log n/11"] == "*** is forbidden"
    assert "log n/9: *** is forbidden" in done.err
    assert "log n/10" not in done.err
    assert "2 more parts are missing: see missing.json" in done.err


def test_what_a_cluster_says_of_jobs_and_nodes_is_cleaned(
    cluster: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the record of decisions, which must be played again as it is."""
    said = '{"said": "--token=planted-scheduler"}'

    def explain(*_: object) -> dict[str, str]:
        return {"why": "pull https://u:planted-why@r.example failed"}

    def files(_: object) -> dict[str, bytes]:
        return {"a/explain.json": said.encode(), "a/decisions.json": said.encode()}

    monkeypatch.setattr(EmbeddedCluster, "explain", explain)
    monkeypatch.setattr(EmbeddedCluster, "scheduler_files", files, raising=False)
    said_too = {"said": "password=planted-event"}
    events = [Event(1, datetime(2026, 11, 22, tzinfo=UTC), EventKind.LOST, "node/n1", "token=planted-lost", said_too)]
    monkeypatch.setattr(EmbeddedCluster, "events", lambda *_, **__: events)
    assert paictl("support", "bundle", "--file", str(cluster / "a.tar.gz")).code == 0
    texts = unpacked(cluster / "a.tar.gz")
    assert texts.pop("scheduler/a/decisions.json") == said
    assert texts.pop("replay.json"), "the other record"
    assert [name for name, text in texts.items() if "planted-" in text and "planted-user" not in text] == []


def test_the_newest_whole_lines_of_an_output_are_kept(
    cluster: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def output(*_: object, **__: object) -> Iterator[bytes]:
        nonlocal asked
        for number in range(3000):
            asked += 1
            yield b"%06d " % number + b"x" * 992 + b"\n"

    monkeypatch.setattr(EmbeddedCluster, "output", output)
    words = ["support", "bundle", "--job", "train"]
    assert paictl(*words, "--file", str(cluster / "a.tar.gz")).code == 0
    lines = unpacked(cluster / "a.tar.gz")["jobs/ann~train/worker-0.log"].splitlines()
    assert (len(lines), lines[-1][:6], {len(line) for line in lines}) == (1048, "002999", {999})
    asked = 0
    clock = iter([0.0, *[1.0] * 5])
    monkeypatch.setattr("paictl.operate.support.time.monotonic", lambda: next(clock, 999.0))
    with pytest.raises(PaictlError, match="timed out"):
        _newest(output(), 5.0)
    assert asked == 7, "it stops while a task writes on"


def test_output_of_a_job_comes_only_when_it_is_asked_for(
    cluster: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def output(_: object, key: str, task: TaskPlace, *, follow: bool = False, lines: int | None = None) -> list[bytes]:
        assert not follow
        return [f"{key} {task} of {lines} lines, token=planted-output\n".encode()]

    monkeypatch.setattr(EmbeddedCluster, "output", output)
    assert paictl("support", "bundle", "--file", str(cluster / "a.tar.gz")).code == 0
    assert not [name for name in unpacked(cluster / "a.tar.gz") if name.startswith("jobs/")]
    done = paictl("support", "bundle", "--file", str(cluster / "b.tar.gz"), "--job", "train", "--lines", "9")
    assert done.code == 0, done.err
    files = unpacked(cluster / "b.tar.gz")
    assert sorted(name for name in files if name.startswith("jobs/")) == [
        f"jobs/ann~train/worker-{index}.log" for index in range(4)
    ]
    assert files["jobs/ann~train/worker-3.log"] == "ann~train worker:3 of 9 lines, token=***\n"
    done = paictl("support", "bundle", "--file", str(cluster / "c.tar.gz"), "--job", "nosuch")
    assert done.code == 2
    assert not (cluster / "c.tar.gz").exists()


def test_what_is_not_collected_in_time_is_named(cluster: Path, paictl: Paictl) -> None:
    done = paictl("support", "bundle", "--file", str(cluster / "b.tar.gz"), "--timeout", "0")
    assert done.code == 3
    files = unpacked(cluster / "b.tar.gz")
    assert json.loads(files["missing.json"])["nodes"] == "timed out; raise --timeout"
    assert "nodes.json" not in files


def test_what_cannot_be_had_is_named_and_keeps_nothing_else_away(
    cluster: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ClusterError("the scheduler does not answer")

    monkeypatch.setattr(EmbeddedCluster, "picture", broken)
    file = cluster / "b.tar.gz"
    done = paictl("support", "bundle", "--file", str(file))
    assert done.code == 3
    assert "picture: the scheduler does not answer" in done.err
    files = unpacked(file)
    assert json.loads(files["missing.json"]) == {"picture": "the scheduler does not answer"}
    assert "jobs.json" in files


def test_a_file_that_is_there_stays(cluster: Path, paictl: Paictl) -> None:
    file = cluster / "b.tar.gz"
    file.write_text("mine")
    done = paictl("support", "bundle", "--file", str(file))
    assert (done.code, file.read_text()) == (2, "mine")
    assert "already exists" in done.err
