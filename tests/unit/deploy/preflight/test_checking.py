"""From what hosts answered to a verdict on all of them, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paictl.config.making.generate import read_inputs
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Deployment, Machine, Role, deployment_of
from paictl.deploy.preflight.checking import MENDED, ONCE, SLOW, PreflightReport, asked, judged, judged_quickly
from paictl.deploy.preflight.node_checks import PromisedDevices, promises_in
from paictl.deploy.preflight.verdict import Level
from paictl.deploy.settings import DeploySettings, LoginSettings
from paictl.errors import ExitCode, PaictlError
from paictl.remote.ssh.results import CommandStatus, HostResult
from tests.conftest import ROOT
from tests.unit.deploy.preflight.test_checks import facts


def deployment(tmp_path: Path, masters: int = 1, workers: int = 2, more: str = "") -> Deployment:
    settings = f"user: a\npassword: b\ndocker_image_tag: v1\ndeploy: {{api_address: 10.0.0.99{more}}}\n"
    texts = {
        "m.csv": "".join(f"m{n},10.0.0.{n}\n" for n in range(1, masters + 1)),
        "w.csv": "".join(f"w{n},10.0.1.{n}\n" for n in range(1, workers + 1)),
        "c.yaml": settings,
    }
    for name, content in texts.items():
        (tmp_path / name).write_text(content)
    return deployment_of(read_inputs(*(str(tmp_path / name) for name in texts)))


def answer(host: str, change: Mapping[str, Any] | None = None) -> HostResult:
    number = sum(map(ord, host))
    own = {"machine_id": f"{number:032x}", "product_uuid": f"{number}", "network": {"hostname": host, "resolves": None}}
    found = facts("debian", {**own, **(change or {})})
    return HostResult(host, CommandStatus.DONE, 0, json.dumps(found), sent=999.0, ended=1002.0)


def seen(
    tmp_path: Path, *results: HostResult, more: str = "", promises: dict[str, PromisedDevices] | None = None
) -> PreflightReport:
    by_name = {name: answer(name) for name in ("m1", "w1", "w2")} | {one.host: one for one in results}
    return judged(deployment(tmp_path, more=more), by_name, promises or {})


def failed(found: PreflightReport) -> list[tuple[str, str]]:
    return [(host, check) for host, check, verdict in found.failures if verdict.level is Level.FAIL]


def test_all_is_well(tmp_path: Path) -> None:
    found = seen(tmp_path)
    assert (found.exit_code, failed(found)) == (ExitCode.OK, [])


def test_a_failure_on_one_host(tmp_path: Path) -> None:
    found = seen(tmp_path, answer("w2", {"cpus": 0}))
    assert (found.exit_code, failed(found)) == (ExitCode.NEGATIVE, [("w2", "cpu")])


LOST = HostResult("w1", CommandStatus.UNREACHABLE, message="10.0.1.1:22 does not answer", hint="see whether it runs")


def test_a_host_that_does_not_answer(tmp_path: Path) -> None:
    found = seen(tmp_path, LOST, answer("w2", {"cpus": 0}))
    assert found.exit_code is ExitCode.PARTIAL
    assert failed(found) == [("w1", "ssh"), ("w2", "cpu")]
    assert found.hosts[1].verdicts["ssh"].fix == "see whether it runs"


def test_no_host_answers(tmp_path: Path) -> None:
    none = [HostResult(name, CommandStatus.REFUSED, message="no") for name in ("m1", "w1", "w2")]
    assert seen(tmp_path, *none).exit_code is ExitCode.UNREACHABLE


@pytest.mark.parametrize(
    ("result", "check"),
    [
        (HostResult("w1", CommandStatus.NO_SUDO, message="sudo rejected the password", hint="visudo"), "sudo"),
        (HostResult("w1", CommandStatus.DONE, 127, "", "python3 not found"), "python"),
        (HostResult("w1", CommandStatus.DONE, 1, "", "Traceback\nImportError: no module json"), "python"),
        (HostResult("w1", CommandStatus.DONE, 0, "Welcome!", ""), "python"),
        (HostResult("w1", CommandStatus.CHANGED_KEY, message="changed", hint="ssh-keygen -R"), "ssh"),
        (HostResult("w1", CommandStatus.LOST, message="cut", hint="see"), "ssh"),
    ],
)
def test_how_far_a_host_could_be_asked(tmp_path: Path, result: HostResult, check: str) -> None:
    found = seen(tmp_path, result)
    assert failed(found) == [("w1", check)]
    assert found.hosts[1].verdicts[check].fix
    assert found.hosts[1].answered is (check != "ssh")


def test_errors_of_kubeadm_that_are_ignored_are_warnings(tmp_path: Path) -> None:
    bad = answer("m1", {"cpus": 1, "system": {"kernel": "4.1"}, "listeners": {"6443": "x"}})
    assert failed(seen(tmp_path, bad)) == [("m1", "kernel"), ("m1", "cpu"), ("m1", "ports")]
    one = seen(tmp_path, bad, more=", ignore_preflight_errors: [NumCPU]")
    assert failed(one) == [("m1", "kernel"), ("m1", "ports")]
    mild = seen(tmp_path, bad, more=", ignore_preflight_errors: [NumCPU, SystemVerification, Port-6443]")
    assert failed(mild) == []
    assert {check for _, check, verdict in mild.failures if verdict.level is Level.WARN} >= {"cpu", "kernel", "ports"}


def test_clones_have_the_same_identity(tmp_path: Path) -> None:
    found = seen(tmp_path, answer("w2", {"machine_id": answer_id("w1")}))
    assert failed(found) == [("w1", "identity"), ("w2", "identity")]
    assert found.hosts[1].verdicts["identity"].found == "machine id is the same as on w2"


def answer_id(host: str) -> str:
    return str(json.loads(answer(host).stdout)["machine_id"])


def test_a_host_with_another_mtu_than_most(tmp_path: Path) -> None:
    found = seen(tmp_path, answer("w2", {"network": {"mtu": 9000}}))
    verdict = found.hosts[2].verdicts["mtu"]
    assert (verdict.level, verdict.found, verdict.fix) == (Level.WARN, "9000", "ip link set eth0 mtu 1500")
    assert found.hosts[1].verdicts["mtu"].level is Level.OK


@pytest.mark.parametrize(("masters", "level"), [(1, Level.OK), (2, Level.FAIL), (3, Level.OK)])
def test_an_odd_number_of_masters(tmp_path: Path, masters: int, level: Level) -> None:
    wished = deployment(tmp_path, masters)
    found = judged(wished, {one.name: answer(one.name) for one in wished.machines}, {})
    assert found.cluster.verdicts["masters"].level is level


@pytest.mark.parametrize(
    ("mode", "login", "warned"),
    [
        (0o644, "password: b", True),
        (0o640, "password: b", True),
        (0o600, "password: b", False),
        (0o644, "ssh_key_file_path: KEY", False),
    ],
)
def test_a_password_that_other_users_can_read(tmp_path: Path, mode: int, login: str, *, warned: bool) -> None:
    deployment(tmp_path)
    files = [tmp_path / name for name in ("m.csv", "w.csv", "c.yaml")]
    files[2].write_text(files[2].read_text().replace("password: b", login.replace("KEY", str(files[0]))))
    files[2].chmod(mode)
    wished = deployment_of(read_inputs(*map(str, files)))
    found = judged(wished, {one.name: answer(one.name) for one in wished.machines}, {})
    assert found.exit_code is ExitCode.OK
    verdict = found.cluster.verdicts.get("password")
    assert (verdict is not None) is warned
    if verdict is not None:
        assert (verdict.level, verdict.fix) == (Level.WARN, f"chmod 600 {files[2]}")


def test_devices_are_those_that_the_files_promise(tmp_path: Path) -> None:
    found = seen(tmp_path, promises={"w1": PromisedDevices(devices=2, leaves=2)})
    assert failed(found) == [("w1", "devices"), ("w1", "cells")]


def test_promises_of_layout_and_cells() -> None:
    found = promises_in(str(ROOT / "examples" / "cluster"))
    assert found["v100-1"].devices == found["v100-1"].leaves
    assert found["v100-1"].devices
    assert found["dev-master-1"].leaves is None


def test_promises_of_mig_instances(tmp_path: Path) -> None:
    sku = "{gpu: 1, cpu: 2, memory: 8192Mi, migInstances: 7, migProfile: 1g.10gb}"
    (tmp_path / "hivedscheduler.yaml").write_text(f"""\
physicalCluster:
  skuTypes: {{A100-1G: {sku}}}
  cellTypes: {{NODE: {{childCellType: A100-1G, childCellNumber: 14, isNodeLevel: true}}}}
  physicalCells: [{{cellType: NODE, cellAddress: W1}}]
virtualClusters: {{default: {{virtualCells: [{{cellType: NODE, cellNumber: 1}}]}}}}
""")
    found = promises_in(str(tmp_path))
    assert found == {"w1": PromisedDevices(leaves=14, cpus=28, instances=7, profile="1g.10gb")}
    gpus = facts("dgx")["gpus"] | {"mig": ["Enabled"]}
    seven = [[i, "1g.10gb"] for i in range(7)]
    for divided, faulty in (([seven, seven], []), ([seven, seven[:6]], [("w1", "mig")])):
        known = seen(tmp_path, answer("w1", {"gpus": gpus | {"instances": divided}}), promises=found)
        assert [one for one in failed(known) if one[1] in ("mig", "cells", "devices")] == faulty


@pytest.mark.parametrize("order", [("NODE", "CORES"), ("CORES", "NODE")])
def test_promises_of_a_node_with_mig_instances_and_shares_of_cores(tmp_path: Path, order: tuple[str, str]) -> None:
    """The last cell of the node won: MIG was to be turned off, under the instances of running pods."""
    sku = "{gpu: 1, cpu: 2, memory: 8192Mi, migInstances: 7, migProfile: 1g.10gb}"
    listed = ", ".join(f"{{cellType: {kind}, cellAddress: w1}}" for kind in order)
    (tmp_path / "hivedscheduler.yaml").write_text(f"""\
physicalCluster:
  skuTypes: {{A100-1G: {sku}, CORE: {{gpu: 0, cpu: 4, memory: 8192Mi}}}}
  cellTypes:
    NODE: {{childCellType: A100-1G, childCellNumber: 14, isNodeLevel: true}}
    CORES: {{childCellType: CORE, childCellNumber: 3, isNodeLevel: true}}
  physicalCells: [{listed}]
virtualClusters: {{default: {{virtualCells: [{{cellType: NODE, cellNumber: 1}}]}}}}
""")
    found = promises_in(str(tmp_path))
    assert found == {"w1": PromisedDevices(leaves=14, cpus=40, instances=7, profile="1g.10gb")}
    gpus = facts("dgx")["gpus"] | {"mig": ["Enabled"]}
    for instances, level in (([[i, "1g.10gb"] for i in range(7)], Level.OK), ([[0, "7g.80gb"]], Level.FAIL)):
        known = seen(tmp_path, answer("w1", {"gpus": gpus | {"instances": [instances, instances]}}), promises=found)
        assert known.hosts[1].verdicts["mig"].level is level


def test_a_folder_that_promises_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(PaictlError):
        promises_in(str(tmp_path))


def quickly(tmp_path: Path, change: Mapping[str, Any] | None = None, *, fresh: bool = True) -> PreflightReport:
    """What `apply` finds on three machines, the first worker being another one."""
    made = deployment(tmp_path)
    lacking = {"programs": ["kubelet"] if fresh else []}
    told = {
        one.name: {
            "host": json.loads(answer(one.name, change if one.name == "w1" else None).stdout),
            "differences": lacking,
        }
        for one in made.machines
    }
    return judged_quickly(made, {one.name: HostFacts(one, told[one.name]) for one in made.machines}, (999.0, 1002.0))


def test_apply_refuses_for_the_same_reasons_as_check(tmp_path: Path) -> None:
    assert failed(quickly(tmp_path)) == []
    for change in (
        {"system": {"arch": "riscv64"}},
        {"system": {"kernel": "4.19.0"}},
        {"system": {"systemd": False}},
        {"system": {"id": "alpine", "like": []}},
        {"memory": {"total": 1 << 29}},
        {"cpus": 0},
        {"others": {"kubernetes": ["/etc/kubernetes/admin.conf"]}},
        {"others": {"begun": "other"}},
        {"listeners": {"10250": "nginx"}},
        {"machine_id": answer_id("w2")},
        {"clock": [9000.0, 9001.0]},
        {"disks": {"/var/lib/containerd": {"free": 1 << 30, "on": "/", "total": 1 << 40}}},
    ):
        full = [one for one in failed(seen(tmp_path, answer("w1", change))) if one[0] == "w1"]
        assert full
        assert [one for one in failed(quickly(tmp_path, change)) if one[0] == "w1"] == full


def test_apply_leaves_out_what_is_slow_what_it_mends_and_what_a_cluster_that_works_has_filled(tmp_path: Path) -> None:
    full, quick = seen(tmp_path).hosts[0].verdicts, quickly(tmp_path).hosts[0].verdicts
    assert set(full) - set(quick) == {"ssh", "sudo", "python"} | SLOW | MENDED
    assert set(quick) - set(quickly(tmp_path, fresh=False).hosts[0].verdicts) == ONCE
    narrow = {"disks": {"/var/lib/containerd": {"free": 0, "on": "/", "total": 1 << 40}}}
    assert failed(quickly(tmp_path, narrow, fresh=False)) == []


def test_a_machine_is_asked_about_what_its_role_needs() -> None:
    roles = {"m1": Role.MASTER, "m2": Role.MASTER, "w1": Role.WORKER}
    machines = [Machine(name, f"10.0.0.{number}", role) for number, (name, role) in enumerate(roles.items())]
    cluster = Deployment(tuple(machines), DeploySettings(LoginSettings("ops", "")))
    master, worker = asked(cluster, machines[0]), asked(cluster, machines[2])
    assert {6443, 2379, 2380} < set(master["ports"]), "of the API server and of etcd"
    assert worker["ports"] == [10250], "a worker may have anything else on them"
    assert (master["fsync"], worker["fsync"]) == ("/var/lib/etcd", None), "etcd is on masters only"
    assert (master["reach"], worker["reach"]) == ([["10.0.0.1", 6443]], [["10.0.0.0", 6443], ["10.0.0.1", 6443]])
    quick = asked(cluster, machines[0], quick=True)
    assert (quick["fsync"], quick["reach"], quick["names"]) == (None, [], False), (
        "the slow ones wait for `deploy check`"
    )
