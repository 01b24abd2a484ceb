"""`paictl support bundle`: everything that helps, and none of the secrets that were planted."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.presets import preset_files
from paictl.cluster.values import ClusterError
from tests.unit.cli.conftest import Paictl

PLANTED = {name: f"planted-{name}-9f3a" for name in ("admin", "jwt", "registry", "job", "user")}
JOB = {
    "protocolVersion": 2, "name": "train", "type": "job", "secrets": {"key": PLANTED["job"]},
    "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "image"}],
    "taskRoles": {
        "worker": {
            "instances": 4, "dockerImage": "i", "commands": ["login <% $secrets.key %>"],
            "resourcePerInstance": {"gpu": 8, "cpu": 1, "memoryMB": 64},
        },
    },
    "defaults": {"virtualCluster": "tenanta"}, "extras": {"hivedScheduler": {"jobPriorityClass": "oppo"}},
}  # fmt: skip


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
