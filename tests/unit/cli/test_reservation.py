"""`paictl reservation` on a cluster of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl
from tests.unit.cli.test_job import JOB


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster with two nodes of one device, one for each virtual cluster; no job has a limit."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    file = tmp_path / "a.yaml"
    file.write_text(JOB.format(name="a", vc="vc1").replace("sleep 5m", "sleep 9h"), encoding="utf-8")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    return file


def submitted(paictl: Paictl, file: Path, name: str, extras: str = "") -> str:
    """The state of a job that was submitted."""
    other = file.with_name(f"{name}.yaml")
    text = file.read_text(encoding="utf-8")
    other.write_text(text + extras, encoding="utf-8")
    done = paictl("job", "submit", str(other), "--user", "me", "--name", name)
    assert done.code == 0, done.err
    return str(paictl("job", "show", f"me~{name}", "-o", "json").data["state"])


ADD = ("reservation", "add", "--vc", "vc1", "--cells", "1xGPU-NODE")


def test_a_reservation_keeps_cells_for_jobs_that_name_it(paictl: Paictl, job: Path) -> None:
    words = (*ADD, "--from", "+2h", "--for", "4h", "--name", "demo", "--reason", "talk")
    assert "it can be kept: demo: 1xGPU-NODE of vc1 from " in paictl(*words, "--dry-run").out
    assert paictl("reservation", "list", "-o", "json").data == []
    assert "reservation added: demo: 1xGPU-NODE of vc1 from " in paictl(*words).out
    assert submitted(paictl, job, "late") == "Waiting"
    said = paictl("job", "explain", "me~late").out
    assert "when reservation demo needs its cells" in said
    assert "maxRunTime of at most 2h" in said
    assert submitted(paictl, job, "short", "extras: {maxRunTime: 90m}\n") == "Running"
    assert submitted(paictl, job, "mine", "extras: {reservation: demo}\n") == "Waiting"
    assert "reservation demo begins at " in paictl("job", "explain", "me~mine").out
    paictl("cluster", "tick", "2h")
    assert paictl("job", "show", "me~mine", "-o", "json").data["state"] == "Running"
    (row,) = paictl("reservation", "list").out.splitlines()[1:]
    assert row.split()[:2] == ["demo", "active"]
    assert row.split()[-1] == "1"
    shown = paictl("reservation", "show", "demo").out
    assert "1 of 1 cells in use" in shown
    assert paictl("reservation", "show", "demo", "-o", "json").data["used"] == 1
    paictl("cluster", "tick", "8h")
    assert paictl("reservation", "list", "-o", "json").data == []
    assert paictl("job", "show", "me~late", "-o", "json").data["state"] == "Waiting", "what ran in it keeps running"
    kinds = [row["kind"] for row in paictl("cluster", "events", "-o", "json").data]
    assert [kind for kind in kinds if kind.startswith("Reservation")] == [
        "ReservationAdded",
        "ReservationStarted",
        "ReservationEnded",
    ]


def without_a_promise(paictl: Paictl, folder: Path) -> None:
    """Take the promise of virtual cluster default away: its node is in the free pool then."""
    assert paictl("config", "pull", "-o", str(folder)).code == 0
    file = folder / "services-configuration.yaml"
    promise = "        virtualCells:\n        - {cellType: GPU-POOL.GPU-NODE, cellNumber: 1}\n"
    file.write_text(
        file.read_text(encoding="utf-8").replace(promise, "        virtualCells: []\n", 1), encoding="utf-8"
    )
    assert paictl("config", "push", "-p", str(folder), "-m", "service", "-y").code == 0
    assert paictl("service", "restart", "-n", "hivedscheduler").code == 0


def test_a_job_of_reserved_nodes_runs_on_these_nodes_only(paictl: Paictl, job: Path) -> None:
    without_a_promise(paictl, job.parent / "pulled")
    for name, node in (("first", "worker1"), ("second", "worker2")):
        words = ("reservation", "add", "--nodes", node, "--from", "now", "--for", "1h", "--name", name)
        assert paictl(*words).code == 0, node
        assert submitted(paictl, job, name, f"extras: {{reservation: {name}}}\n") == "Running"
        (task,) = paictl("job", "show", f"me~{name}", "-o", "json").data["tasks"]
        assert task["node"] == node
        assert paictl("job", "stop", f"me~{name}").code == 0
        assert paictl("reservation", "remove", name).code == 0


def test_a_bad_node_counts_before_free_nodes_are_reserved(paictl: Paictl, job: Path) -> None:
    without_a_promise(paictl, job.parent / "pulled")
    assert paictl("node", "fail", "worker1").code == 0
    done = paictl("reservation", "add", "--nodes", "worker2", "--from", "now", "--for", "1h")
    assert done.code != 0
    assert "promises need these nodes: worker2 " in done.err


def test_it_comes_again_until_it_is_removed(paictl: Paictl, job: Path) -> None:
    assert paictl(*ADD, "--from", "+1h", "--for", "2h", "--repeat", "daily").code == 0
    first = paictl("reservation", "list", "-o", "json").data[0]["start"]
    paictl("cluster", "tick", "4h")
    (known,) = paictl("reservation", "list", "-o", "json").data
    assert (known["repeat"], known["active"]) == ("daily", False)
    assert known["start"] > first
    assert submitted(paictl, job, "late") == "Waiting"
    assert paictl("reservation", "remove", "reservation-1").code == 0
    assert paictl("job", "show", "me~late", "-o", "json").data["state"] == "Running"


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*ADD, "--from", "2020-01-01T00:00Z", "--for", "4h"), "ends in the past"),
        (
            ("reservation", "add", "--vc", "vc1", "--cells", "3xGPU-NODE", "--for", "1h"),
            "vc1 is promised 1xGPU-NODE, not 3xGPU-NODE",
        ),
        (("reservation", "add", "--vc", "vc2", "--cells", "1xGPU-NODE", "--for", "1h"), "no virtual cluster 'vc2'"),
        (("reservation", "add", "--vc", "vc1", "--cells", "1xGPU-NOD", "--for", "1h"), "no cell type 'GPU-NOD'"),
        (("reservation", "add", "--vc", "vc1", "--cells", "1xGPU-POOL", "--for", "1h"), "has more than one node"),
        (("reservation", "add", "--vc", "vc1", "--cells", "two", "--for", "1h"), "'two' is not a number of cells"),
        (("reservation", "add", "--vc", "vc1", "--for", "1h"), "name the cells"),
        ((*ADD, "--for", "30h", "--repeat", "daily"), "lasts longer than the time until it begins again"),
        (("reservation", "add", "--nodes", "worker1", "--for", "1h"), "promises need these nodes: worker1 "),
        (("reservation", "add", "--nodes", "worker9", "--for", "1h"), "no node 'worker9'"),
        ((*ADD, "--for", "1h", "--name", "A b"), "not a valid reservation name"),
        (("reservation", "show", "demo"), "no reservation 'demo'"),
        (("reservation", "remove", "demo"), "no reservation 'demo'"),
    ],
)
def test_what_cannot_be_kept_is_refused(paictl: Paictl, words: tuple[str, ...], said: str) -> None:
    refused = paictl(*words)
    assert refused.code in (1, 2)
    assert said in refused.err
    assert paictl("reservation", "list", "-o", "json").data == []


def test_overlaps_and_jobs_in_the_way_are_named(paictl: Paictl, job: Path) -> None:
    assert paictl(*ADD, "--from", "+1h", "--for", "2h", "--name", "first").code == 0
    refused = paictl(*ADD, "--from", "+2h", "--for", "2h")
    assert "it overlaps reservation first: 0 of 1 cells of the promise of vc1 are left" in refused.err
    assert paictl(*ADD, "--from", "+3h", "--for", "2h").code == 0
    paictl("reservation", "remove", "first")
    paictl("reservation", "remove", "reservation-1")
    assert submitted(paictl, job, "busy") == "Running"
    refused = paictl(*ADD, "--from", "+1h", "--for", "2h")
    assert "0 of 1 cells of reservation reservation-1 would be free at " in refused.err
    assert "me~busy (without a limit)" in refused.err


def test_a_job_that_can_never_use_its_reservation_is_refused(paictl: Paictl, job: Path) -> None:
    def refused(extras: str, *words: str) -> str:
        other = job.with_name("b.yaml")
        other.write_text(job.read_text(encoding="utf-8") + extras, encoding="utf-8")
        done = paictl("job", "submit", str(other), "--user", "me", "--name", "b", *words)
        assert done.code == 1
        return done.err

    assert "no reservation 'demo'" in refused("extras: {reservation: demo}\n")
    assert paictl(*ADD, "--for", "2h", "--name", "demo").code == 0
    assert "no reservation 'demo' for virtual cluster default" in refused(
        "extras: {reservation: demo}\n", "--vc", "default"
    )
    assert "did you mean 'demo'" in refused("extras: {reservation: demoo}\n")
    assert "'demo'" not in refused("extras: {reservation: demoo}\n", "--vc", "default"), "it is another tenant's"
    assert "which an opportunistic job cannot use" in refused("extras: {reservation: demo}\n", "--priority", "oppo")
