"""`paictl maintenance` on a cluster of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster, and a job that runs on it."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    file = tmp_path / "a.yaml"
    file.write_text(JOB.format(name="a", vc="vc1").replace("sleep 5m", "sleep 9h"), encoding="utf-8")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    assert paictl("job", "submit", str(file), "--user", "me").code == 0
    return file


def node_of(paictl: Paictl) -> str:
    return str(paictl("job", "show", "me~a", "-o", "json").data["tasks"][0]["node"])


@pytest.mark.usefixtures("job")
def test_who_must_leave_is_said_before_and_asked_about(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(paictl)
    words = ("maintenance", "add", "--nodes", node, "--from", "+2h", "--for", "4h", "--reason", "disks")
    dry = paictl(*words, "--dry-run")
    assert dry.code == 0
    assert "1 job runs there and may not end in time:\n  me~a  vc1  " in dry.out
    assert "guarantees at risk during the window: default (1 cell), vc1 (1 cell)" in dry.out
    assert paictl("maintenance", "list", "-o", "json").data == []
    with monkeypatch.context() as chinese:
        chinese.setenv("PAICTL_LANG", "zh")
        assert "可能无法兑现的保证：default（1 个单元），vc1（1 个单元）" in paictl(*words, "--dry-run").out
    refused = paictl(*words)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    done = paictl(*words, "--yes")
    assert done.code == 0
    assert f"window maintenance-1 added: {node} from " in done.out
    (row,) = paictl("maintenance", "list").out.splitlines()[1:]
    assert row.split()[:2] == ["maintenance-1", "planned"]
    assert f"maintenance: maintenance-1: {node} from " in paictl("node", "show", node).out
    assert "maintenance maintenance-1: " in paictl("cluster", "view").out
    assert paictl("maintenance", "show", "maintenance-1", "-o", "json").data["leaving"][0]["key"] == "me~a"


def test_a_job_waits_for_the_window_and_explain_says_so(paictl: Paictl, job: Path) -> None:
    assert paictl("maintenance", "add", "--nodes", "worker1,worker2", "--from", "+2h", "--for", "4h", "-y").code == 0
    assert paictl("job", "submit", str(job), "--user", "me", "--name", "b", "--vc", "default").code == 0
    said = paictl("job", "explain", "me~b").out
    assert "job me~b waits for maintenance" in said
    assert "window maintenance-1 closes worker1, worker2 from " in said
    assert "maxRunTime of at most 2h" in said
    paictl("maintenance", "remove", "maintenance-1")
    assert paictl("job", "show", "me~b", "-o", "json").data["state"] == "Running"


@pytest.mark.usefixtures("job")
def test_the_drain_happens_by_time(paictl: Paictl) -> None:
    node = node_of(paictl)
    assert paictl("maintenance", "add", "--nodes", node, "--from", "+2h", "--for", "4h", "-y").code == 0
    paictl("cluster", "tick", "2h")
    assert node_of(paictl) != node
    (row,) = paictl("maintenance", "list").out.splitlines()[1:]
    assert row.split()[1] == "active"
    paictl("cluster", "tick", "4h")
    assert paictl("maintenance", "list", "-o", "json").data == []


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--nodes", "worker9", "--for", "4h"), 1, "no node 'worker9'"),
        (("--nodes", "worker9", "--for", "4h", "--dry-run"), 1, "no node 'worker9'"),
        (("--nodes", "worker1", "--for", "4h", "--from", "2001-01-01T00:00"), 1, "in the past"),
        (("--nodes", "worker1", "--for", "4h", "--from", "soon"), 2, "is not a time"),
        (("--nodes", "worker1", "--for", "4h", "--from", "0001-01-01T00:00"), 2, "is not a time"),
        (("--nodes", "worker1", "--for", "4h", "--from", "2999-12-31T23:59:59"), 2, "more than 10 years from now"),
        (("--nodes", "worker1", "--for", "4h", "--from", "9999-12-31T23:59:59Z"), 2, "more than 10 years from now"),
        (("--nodes", "worker1", "--for", "4h", "--from", "+99999999d"), 2, "longer than 10 years"),
        (("--nodes", "worker1", "--for", "99999999d"), 2, "longer than 10 years"),
        (("--nodes", "worker1", "--for", "4h", "--notice", f"{'9' * 40}d"), 2, "longer than 10 years"),
        (("--nodes", "worker1", "--for", "infinity"), 2, "not a finite span of time"),
        (("--for", "4h"), 2, "no node given"),
        (("--cells", "nowhere", "--for", "4h"), 2, "no physical cell 'nowhere'"),
        (("--nodes", "worker1", "--for", "4h", "--name", "A b"), 1, "not a valid window name"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(
    paictl: Paictl, words: tuple[str, ...], code: int, said: str
) -> None:
    done = paictl("maintenance", "add", *words, "-y")
    assert (done.code, said in done.err) == (code, True), done.err
    assert "hint: " in done.err
    assert "no job has to move" not in done.out
    assert paictl("maintenance", "list", "-o", "json").data == []


@pytest.mark.usefixtures("job")
def test_cells_stand_for_their_nodes_and_a_part_of_a_node_is_refused(paictl: Paictl) -> None:
    picture = paictl("cluster", "view", "-o", "json").data
    top = picture["chains"][0]["cells"][0]
    assert paictl("maintenance", "add", "--cells", top["address"], "--from", "+1h", "--for", "1h", "-y").code == 0
    assert paictl("maintenance", "list", "-o", "json").data[0]["nodes"] == ["worker1", "worker2"]
    paictl("maintenance", "remove", "maintenance-1")
    node = top["parts"][0]
    leaf = node["parts"][0]["address"] if node["parts"] else ""
    if leaf:
        assert "part of a node" in paictl("maintenance", "add", "--cells", leaf, "--for", "1h", "-y").err
