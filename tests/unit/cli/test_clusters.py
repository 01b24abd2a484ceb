"""Commands on a cluster by name: which one they reach, and what each kind answers."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from paictl.cli.cluster import status
from paictl.cli.lab.inprocess import type_silently
from paictl.cluster import registry
from paictl.cluster.interface import Cluster, PromisedStart
from paictl.cluster.kubernetes import connection
from paictl.cluster.presets import preset_files
from paictl.cluster.registry import Pinned
from paictl.lab.fitting import session_of
from paictl.operate.status import Summary, summary
from tests.unit.cli.conftest import Paictl
from tests.unit.cluster.fakekube import FakeKube


@pytest.fixture
def kube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """A Kubernetes that was added as `prod`, beside a cluster on this machine that is not up."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("PAICTL_CLUSTER", "PAICTL_STATE"):
        monkeypatch.delenv(name, raising=False)
    fake = FakeKube()
    monkeypatch.setattr(connection, "connect", lambda *_: fake)
    registry.add(Pinned("prod", "/k/config", fake.context, fake.server, fake.authority))
    return fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "cluster"
    made.mkdir()
    for name, text in preset_files("lab").items():
        (made / name).write_text(text)
    return made


@pytest.mark.usefixtures("kube")
def test_a_cluster_is_added_listed_used_and_forgotten(paictl: Paictl) -> None:
    assert "cluster test is https://fake:6443 (context fake)" in paictl("cluster", "add", "test").err
    rows = {row["name"]: row for row in paictl("cluster", "list", "-o", "json").data}
    assert [(name, row["kind"], row["inUse"]) for name, row in rows.items()] == [
        ("local", "embedded", True),
        ("prod", "kubernetes", False),
        ("test", "kubernetes", False),
    ]
    assert paictl("cluster", "use", "test").code == 0
    assert paictl("config", "get-id").out == "test\n"
    assert paictl("config", "get-id", "--cluster", "prod").out == "prod\n"
    assert paictl("cluster", "remove", "test").code == 0
    assert "*" in next(line for line in paictl("cluster", "list").out.splitlines() if "local" in line)
    done = paictl("cluster", "use", "test")
    assert (done.code, "no cluster 'test'" in done.err) == (2, True)
    assert paictl("cluster", "remove", "local").code == 2
    assert paictl("node", "list").code == 4, "back on this machine, where none is up"


def test_every_command_with_a_state_takes_a_cluster_and_the_nearest_word_counts(
    paictl: Paictl, kube: FakeKube, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for words in (
        ["node", "list"],
        ["config", "history"],
        ["cluster", "status"],
        ["job", "list"],
        ["service", "list"],
        ["cluster", "view"],
        ["cluster", "events"],
        ["config", "diff"],
        ["sim", "what-if"],
    ):
        assert "--cluster NAME" in paictl(*words, "--help").out
    monkeypatch.setenv("PAICTL_CLUSTER", "prod")
    assert paictl("node", "list").code == 0
    assert paictl("node", "list", "--cluster", "local").code == 4
    assert paictl("node", "list", "--state", str(tmp_path / "other")).code == 4
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "lab"))
    asked = len(kube.requests)
    done = paictl("node", "list")
    assert (done.code, "PAICTL_CLUSTER names prod" in done.err, len(kube.requests)) == (2, True, asked)
    monkeypatch.delenv("PAICTL_CLUSTER")
    registry.use("prod")
    assert paictl("node", "list").code == 4, "in the shell of a lab commands stay there"
    assert len(kube.requests) == asked


@pytest.mark.usefixtures("kube")
def test_status_says_which_ports_work_and_what_a_real_cluster_refuses(paictl: Paictl) -> None:
    registry.use("prod")
    said = paictl("cluster", "status").out
    assert "Kubernetes v1.37.1 at https://fake:6443" in said
    assert "not yet" not in said
    found = paictl("cluster", "status", "-o", "json").data
    assert found["ports"] == dict.fromkeys(("nodes", "jobs", "scheduling", "configuration", "services"), True)
    assert (found["kind"], found["version"], found["nodes"]) == ("kubernetes", "v1.37.1", {})
    done = paictl("node", "fail", "w1")
    assert (done.code, done.out, "hint: " in done.err) == (2, "", True)


def test_status_counts_promised_starts_and_names_those_that_are_late(
    paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert paictl("cluster", "up", "--speed", "0").code == 0
    assert "starts:" not in paictl("cluster", "status").out, "nothing is promised without backfill"

    def promised(cluster: Cluster, *hours: int) -> Summary:
        starts = (PromisedStart(f"ann~{hour}", cluster.now + timedelta(hours=hour)) for hour in hours)
        return replace(summary(cluster), starts=tuple(starts))

    monkeypatch.setattr(status, "summary", lambda cluster: promised(cluster, 1, 2))
    assert "starts:   2 promised, the next at " in paictl("cluster", "status").out
    assert paictl("cluster", "status", "-o", "json").data["starts"]["late"] == []
    monkeypatch.setattr(status, "summary", lambda cluster: promised(cluster, -2, -1, 1))
    line = next(line for line in paictl("cluster", "status").out.splitlines() if line.startswith("starts:"))
    assert "3 promised, 2 late, the first since " in line
    assert line.endswith(": ann~-2, ann~-1")
    found = paictl("cluster", "status", "-o", "json").data["starts"]
    assert [row["job"] for row in found["late"]] == ["ann~-2", "ann~-1"]
    assert found["late"][0]["since"] == found["promised"][0]["at"]


@pytest.mark.parametrize("verb", [["up"], ["down", "-y"], ["tick", "1m"], ["speed", "2"]])
def test_what_is_for_this_machine_only_touches_no_other_and_not_this_one_instead(
    paictl: Paictl, kube: FakeKube, verb: list[str]
) -> None:
    assert paictl("cluster", "up", "--speed", "0").code == 0
    asked = len(kube.requests)
    done = paictl("cluster", *verb, "--cluster", "prod")
    assert (done.code, f"paictl cluster {verb[0]} works only on the local cluster" in done.err) == (2, True)
    assert len(kube.requests) == asked
    assert paictl("cluster", "status").code == 0, "what is on this machine is still there"


def test_push_pull_history_rollback_and_plan_as_on_this_machine(
    paictl: Paictl, kube: FakeKube, folder: Path, tmp_path: Path
) -> None:
    registry.use("prod")
    assert "nothing was pushed yet" in paictl("config", "history").err
    done = paictl("config", "push", "-p", str(folder), "--cluster-id", "other")
    assert (done.code, "this is cluster prod, not other" in done.err) == (2, True)
    done = paictl("config", "push", "-p", str(folder), "--cluster-id", "prod")
    assert (done.code, "version 1 stored" in done.err) == (0, True)
    assert "cluster prod is prod, at https://fake:6443" in done.err
    assert paictl("config", "diff", str(folder)).code == 0
    services = folder / "services-configuration.yaml"
    services.write_text(services.read_text().replace("too", "else"))
    done = paictl("config", "diff", str(folder))
    assert (done.code, "this-machine" in done.out + done.err) == (1, False)
    assert paictl("config", "plan", "-p", str(folder), "-o", str(tmp_path / "plan")).code == 0
    done = paictl("config", "apply", str(tmp_path / "plan"), "-y")
    assert (done.code, "config apply FILE -p DIR" in done.err) == (2, True)
    assert paictl("config", "apply", str(tmp_path / "plan"), "-p", str(folder), "-y").code == 0
    assert paictl("config", "rollback", "1", "-y").code == 0
    rows = paictl("config", "history", "-o", "json").data
    assert [(row["number"], row["author"]) for row in rows] == [(1, "ann"), (2, "ann"), (3, "ann")]
    assert "PUSHED BY" in paictl("config", "history").out
    assert paictl("config", "pull", "-o", str(tmp_path / "pulled")).code == 0
    assert paictl("config", "push", "-p", str(tmp_path / "pulled"), "-y").err.count("already") == 1
    assert "only-on-this-machine" not in json.dumps(kube.of("configmaps"))


def test_who_pushes_at_the_same_time_is_shown_what_the_other_did(
    paictl: Paictl, kube: FakeKube, folder: Path, tmp_path: Path
) -> None:
    registry.use("prod")
    assert paictl("config", "push", "-p", str(folder), "-y").code == 0
    services = folder / "services-configuration.yaml"
    text = services.read_text()
    services.write_text(text.replace("rest-server:\n", "rest-server:\n  server-port: 1111\n"))
    other = tmp_path / "other"
    other.mkdir()
    (other / services.name).write_text(text.replace("rest-server:\n", "rest-server:\n  server-port: 2222\n"))

    def come_between(number: int) -> None:
        if kube.requests[number] == ("PUT", "/api/v1/namespaces/paictl-system/configmaps/paictl-configuration"):
            kube.before = lambda _: None
            assert paictl("config", "push", "-p", str(other), "-y").code == 0

    kube.before = come_between
    done = paictl("config", "push", "-p", str(folder), "-y")
    assert (done.code, "others changed 1 key" in done.err) == (2, True)
    row = next(line for line in done.out.splitlines() if "rest-server.server-port" in line)
    assert row.split()[-3:] == ["-", "2222", "1111"]


def test_what_openpai_left_needs_a_kubernetes(paictl: Paictl, kube: FakeKube, tmp_path: Path) -> None:
    assert paictl("cluster", "up", "--speed", "0").code == 0
    assert paictl("config", "pull", "--from-openpai", "-o", str(tmp_path / "x")).code == 2
    registry.use("prod")
    kube.objects["/api/v1/namespaces/default/configmaps/pai-configuration"] = {
        "metadata": {},
        "data": {"services-configuration.yaml": "rest-server:\n  jwt-secret: in-clear\n"},
    }
    done = paictl("config", "pull", "--from-openpai", "-o", str(tmp_path / "left"))
    assert (done.code, "in clear" in done.err, "in-clear" in done.out + done.err) == (0, True, False)
    assert (tmp_path / "left" / "services-configuration.yaml").stat().st_mode & 0o777 == 0o600
    assert paictl("config", "pull", "--from-openpai", "--version", "1", "-o", str(tmp_path / "y")).code == 2


def test_completion_offers_clusters(paictl: Paictl, kube: FakeKube) -> None:
    from paictl.cli.names import clusters

    assert clusters() == ["local", "prod"]
    registry.registry_file().write_text("rotten")
    assert clusters() == []
    assert paictl("cluster", "list").code == 2
    assert kube.requests == []


def test_what_is_typed_in_a_lab_never_reaches_another_cluster(
    paictl: Paictl, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_CLUSTER", "prod")
    registry.use("prod")
    assert paictl("lab", "start", "02").code == 0
    for words in (["node", "list"], ["node", "cordon", "worker1"]):
        assert type_silently(session_of("02"), words).exit == 0
    assert kube.requests == []


def test_an_import_of_a_cluster_that_is_named_twice_or_is_none_of_kubernetes_is_refused(
    home: Path, paictl: Paictl
) -> None:
    said = paictl("cluster", "import", "local")
    assert (said.code, "local is not a Kubernetes cluster" in said.err) == (2, True)
    twice = paictl("cluster", "import", "local", "--context", "x")
    assert (twice.code, "both name a cluster" in twice.err) == (2, True)
    assert not list(home.glob("*.yaml"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--namespace", "vision"), "this cluster has no API server"),
        (("--group", "system:masters"), "group 'system:masters' belongs to Kubernetes itself"),
        (("--namespace", "vision", "--valid", "soon"), "'soon' is not a duration"),
        (("--namespace", "vision", "--valid", "infinity"), "a certificate cannot be valid for"),
        (("--role", "tenant"), "the role tenant is for one namespace"),
    ],
)
def test_a_kubeconfig_that_cannot_be_made(home: Path, paictl: Paictl, words: tuple[str, ...], message: str) -> None:
    done = paictl("cluster", "kubeconfig", "add", "ann", *words, "--file", str(home / "ann.conf"))
    assert (done.code, message in done.err) == (2, True), done.err
    assert "hint:" in done.err
    assert not (home / "ann.conf").exists()


def test_no_private_key_reaches_a_terminal_or_replaces_a_file(
    home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "ann.conf").write_text("mine")
    words = ("cluster", "kubeconfig", "add", "ann", "--namespace", "vision", "--file")
    assert "already exists" in paictl(*words, str(home / "ann.conf")).err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "contains a private key, and this is a terminal" in paictl(*words, "-").err
