"""`paictl node`, on an embedded cluster with the workers worker1 and worker2."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.cluster.presets import preset_files
from tests.unit.cli.conftest import Paictl

JOB = """
protocolVersion: 2
name: job
type: job
prerequisites: [{name: image, type: dockerimage, uri: pai/standard}]
taskRoles:
  train:
    instances: 1
    dockerImage: image
    resourcePerInstance: {gpu: 8, cpu: 8, memoryMB: 8192}
    commands: [sleep 5m]
"""


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paictl: Paictl) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    assert paictl("cluster", "up", "--speed", "0").code == 0


def conditions(paictl: Paictl) -> dict[str, str]:
    return {node["name"]: node["condition"] for node in paictl("node", "list", "-o", "json").data}


def test_a_change_says_what_it_left_as_it_was(paictl: Paictl) -> None:
    said = [
        paictl("node", change, "worker1").err
        for change in ("cordon", "cordon", "fail", "uncordon", "cordon", "heal", "uncordon", "uncordon")
    ]
    assert said == [
        "node worker1 cordoned\n",
        "node worker1 cordoned (it already was)\n",
        "node worker1 marked as failed\n",
        "node worker1 uncordoned; it is still Failed: paictl node heal worker1\n",
        "node worker1 cordoned\n",
        "node worker1 healed; it is still Cordoned: paictl node uncordon worker1\n",
        "node worker1 uncordoned\n",
        "node worker1 uncordoned (it already was)\n",
    ]


def test_a_broken_device_gets_no_pod_and_names_those_that_run_on_it(paictl: Paictl, tmp_path: Path) -> None:
    assert paictl("cluster", "down", "-y").code == 0
    assert paictl("cluster", "up", "--preset", "three-tenants", "--speed", "0").code == 0
    job = tmp_path / "job.yaml"
    job.write_text(JOB, encoding="utf-8")
    assert paictl("job", "submit", str(job), "--vc", "tenanta", "--name", "first", "--user", "ann").code == 0
    failed = paictl("node", "fail", "worker1", "--device", "3", "--device", "0")
    assert failed.err.splitlines() == [
        "devices 0, 3 of node worker1 marked as failed",
        "ann~first/train[0] runs there and keeps running",
    ]
    shown = paictl("node", "show", "worker1", "-o", "json").data
    assert (shown["condition"], shown["bad_devices"]) == ("Ready", [0, 3])
    assert shown["pods_at_risk"] == ["ann~first/train[0]"]
    assert paictl("job", "stop", "ann~first").code == 0
    assert paictl("job", "submit", str(job), "--vc", "tenanta", "--name", "second", "--user", "ann").code == 0
    assert paictl("node", "show", "worker1", "-o", "json").data["pods"] == []
    assert [paictl("node", "heal", "worker1", "--device", "3").err for _ in range(2)] == [
        "device 3 of node worker1 healed\n",
        "device 3 of node worker1 already healed\n",
    ]
    assert paictl("node", "show", "worker1", "-o", "json").data["bad_devices"] == [0]
    whole = paictl("node", "heal", "worker1").err
    assert whole == "node worker1 healed; its bad devices stay bad: paictl node heal worker1 --device 0\n"


def test_mig_instances_are_given_and_shown_by_the_names_that_containers_get(paictl: Paictl, tmp_path: Path) -> None:
    folder = tmp_path / "config"
    files = preset_files("lab")
    (settings,) = (name for name, content in files.items() if "memory: 32768Mi}" in content)
    cells = files[settings].replace("cpu: 8, memory: 32768Mi}", "cpu: 2, memory: 8192Mi, migInstances: 3}")
    cells = cells.replace("childCellNumber: 1,", "childCellNumber: 3,")
    files[settings] = cells + "device-plugin: {nvidia: {mig-strategy: single}}\n"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    assert paictl("cluster", "down", "-y").code == 0
    done = paictl("cluster", "up", str(folder), "--speed", "0")
    assert done.code == 0, done.err
    failed = paictl("node", "fail", "worker1", "--device", "0:2", "--device", "1")
    assert failed.err == "devices 0:1, 0:2 of node worker1 marked as failed\n"
    assert "broken:   device 0:1, device 0:2" in paictl("node", "show", "worker1").out
    shown = paictl("node", "show", "worker1", "-o", "json").data
    assert (shown["bad_devices"], shown["bad_device_names"]) == ([1, 2], ["0:1", "0:2"])
    assert paictl("node", "heal", "worker1", "--device", "0:1").err == "device 0:1 of node worker1 healed\n"


def test_a_device_that_is_not_there_breaks_on_no_node(paictl: Paictl) -> None:
    done = paictl("node", "fail", "worker1", "worker2", "--device", "0", "--device", "1")
    assert (done.code, done.err.count("node worker1 has no device 1"), "0 to 0" in done.err) == (2, 1, True)
    assert {tuple(node["bad_devices"]) for node in paictl("node", "list", "-o", "json").data} == {()}


def test_nothing_is_changed_where_one_of_the_names_is_wrong(paictl: Paictl) -> None:
    done = paictl("node", "cordon", "worker1", "woker2")
    assert (done.code, "no node 'woker2'" in done.err, "worker2" in done.err) == (2, True, True)
    assert set(conditions(paictl).values()) == {"Ready"}


def test_a_node_is_added_like_another_and_removed(paictl: Paictl) -> None:
    assert paictl("node", "add", "worker3", "--address", "10.0.1.3", "--like", "worker1").code == 0
    assert conditions(paictl)["worker3"] == "Ready"
    taken = paictl("node", "add", "worker4", "--address", "10.0.1.3", "--like", "worker1")
    assert (taken.code != 0, "node 'worker3' already has the address 10.0.1.3" in taken.err) == (True, True)
    assert paictl("node", "remove", "worker3", "-y").code == 0
    assert "worker3" not in conditions(paictl)


def test_a_node_of_the_layout_is_added_as_the_layout_has_it(paictl: Paictl) -> None:
    """Where it is and what it has stand in the configuration, once that was pushed; what is typed comes first."""
    assert paictl("config", "push", "-p", str(Path(__file__).parents[3] / "examples" / "cluster"), "-y").code == 0
    for words in (("v100-1",), ("t4-1", "--address", "10.20.2.99"), ("t4-2", "--like", "worker1")):
        assert paictl("node", "add", *words).code == 0
    rows = {row["name"]: row for row in paictl("node", "list", "-o", "json").data}
    assert [(rows[name]["address"], rows[name]["devices"]) for name in ("v100-1", "t4-1", "t4-2")] == [
        ("10.20.1.1", 8),
        ("10.20.2.99", 4),
        ("10.20.2.2", 1),
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("worker3",), "the configuration does not say where worker3 is"),
        (("worker3", "--like", "worker1", "--sku", "V100=gpu:8"), "--like and --sku both say what the machine has"),
        (("Worker_3", "--address", "10.0.1.3", "--like", "worker1"), "is not a valid host name"),
        (("worker3", "--address", "10.0.1.300", "--like", "worker1"), "is not a valid IP address"),
        (("worker3", "--address", "10.0.1.3"), "specify what the machine has"),
        (("worker3", "--address", "10.0.1.3", "--sku", "V100=gpu:many"), "gpu"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(paictl: Paictl, words: tuple[str, ...], says: str) -> None:
    done = paictl("node", "add", *words)
    assert (done.code, says in done.err) == (2, True), done.err
    assert "worker3" not in conditions(paictl)
