"""Machines of the lists against the nodes of a running cluster."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from paictl.deploy.apply import unlisted_nodes, wish_of
from paictl.deploy.facts import HostFacts
from paictl.deploy.inspection import refuse_other_nodes
from paictl.deploy.preflight.verdict import Level
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from tests.unit.deploy.loading import load
from tests.unit.deploy.preflight.test_checking import answer, deployment, failed, seen
from tests.unit.deploy.preflight.test_checks import facts

NODES = {"m1": ["10.0.0.1"], "w1": ["10.0.1.1"], "w2": ["10.0.1.2"]}


def site(tmp_path: Path, **changes: dict[str, Any]) -> Any:
    """A running cluster m1, w1, w2 as its hosts are seen; `changes` to the facts of a host."""
    made = deployment(tmp_path)
    found = {}
    for one in made.machines:
        own = {"node": one.name, "nodes": NODES if one.name == "m1" else None, "network": {"hostname": one.name}}
        found[one.name] = HostFacts(one, {"host": facts("debian", {**own, **changes.get(one.name, {})})})
    return SimpleNamespace(facts=found, machines=made.machines, desired=SimpleNamespace(deployment=made))


def test_the_nodes_of_the_lists_are_let_through(tmp_path: Path) -> None:
    refuse_other_nodes(site(tmp_path))


def test_two_workers_whose_names_are_swapped_are_refused(tmp_path: Path) -> None:
    """Their unit files and networks were once exchanged, and both lost the network of their pods."""
    swapped = site(tmp_path, w1={"node": "w2"}, w2={"node": "w1"})
    with pytest.raises(DeployError) as caught:
        refuse_other_nodes(swapped)
    said, hint = str(caught.value), str(caught.value.hint)
    for part in ("w1: 10.0.1.1 is the node w2", f"w1 ({tmp_path}/w.csv:1:1)", "w2: 10.0.1.2 is the node w1"):
        assert part in said
    assert f"correct {tmp_path}/w.csv:1:1" in hint
    assert "paictl node remove w2" in hint
    assert caught.value.exit_code is ExitCode.NEGATIVE


def test_a_new_machine_at_the_address_of_another_node_is_refused(tmp_path: Path) -> None:
    nodes = {"m1": ["10.0.0.1"], "w2": ["10.0.1.2"], "old": ["10.0.1.1"]}
    with pytest.raises(DeployError, match=r"w1: 10\.0\.1\.1 is the address of the node old"):
        refuse_other_nodes(site(tmp_path, m1={"nodes": nodes}, w1={"node": None}))


def test_a_machine_that_is_new_under_the_address_that_its_node_had_is_let_through(tmp_path: Path) -> None:
    refuse_other_nodes(site(tmp_path, w1={"node": None}))


def test_check_names_the_node_and_ignores_no_error_of_it(tmp_path: Path) -> None:
    found = seen(tmp_path, answer("w1", {"node": "w2"}), more=", ignore_preflight_errors: [all]")
    assert failed(found) == [("w1", "node")]


def test_a_hostname_that_is_not_the_list_s_warns(tmp_path: Path) -> None:
    found = seen(tmp_path, answer("w1", {"network": {"hostname": "renamed", "resolves": None}}))
    warned = [(host, check, verdict.found) for host, check, verdict in found.failures if verdict.level is Level.WARN]
    assert ("w1", "node", "the host's own name is renamed") in warned
    same = seen(tmp_path, answer("w1", {"network": {"hostname": "W1.example.org", "resolves": None}}))
    assert not [check for _, check, _ in same.failures if check == "node"]


def test_nodes_that_no_list_names_are_told_with_their_row(tmp_path: Path) -> None:
    more = site(tmp_path, m1={"nodes": {**NODES, "w9": ["10.0.1.9"]}})
    assert unlisted_nodes(more.facts.values()) == ("w9,10.0.1.9",)
    assert unlisted_nodes(site(tmp_path, m1={"nodes": None}).facts.values()) == ()


def test_the_row_of_a_machine_makes_no_other_deployment(tmp_path: Path) -> None:
    """A comment above it would else be another wish, and what was interrupted would begin anew."""
    (tmp_path / "other").mkdir()
    wishes = []
    for folder in (tmp_path, tmp_path / "other"):
        desired: Any = SimpleNamespace(
            deployment=deployment(folder), version="v1.37.1", artifacts=SimpleNamespace(all=())
        )
        wishes.append(wish_of(desired))
    assert wishes[0] == wishes[1]


@pytest.mark.parametrize("name", ["h3", "gpu-17.rack-2.example.org"])
def test_the_name_of_a_node_is_read_from_kubelet_s_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    gather = load("module_utils/paictl_gather.py")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{name}"),
        ]
    )
    begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 7, begin, begin + datetime.timedelta(days=9))
    ).sign(key, hashes.SHA256())
    pem = tmp_path / "kubelet-client-current.pem"
    pem.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    monkeypatch.setattr(gather, "KUBELET_CERTIFICATE", str(pem))
    assert gather.node_name() == name
    monkeypatch.setattr(gather, "KUBELET_CERTIFICATE", str(tmp_path / "none"))
    assert gather.node_name() is None


def test_nvidia_smi_is_the_host_s_or_that_of_the_driver_s_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gather = load("module_utils/paictl_gather.py")
    programs, root = tmp_path / "programs", tmp_path / "driver"
    programs.mkdir()
    monkeypatch.setattr(gather, "PATH", str(programs))
    monkeypatch.setattr(gather, "SERVICE_ROOT", str(root))
    assert gather.nvidia_smi() == ["nvidia-smi"], "there is none at all"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/nvidia-smi").touch(mode=0o755)
    assert gather.nvidia_smi() == ["chroot", str(root), "nvidia-smi"]
    own = programs / "nvidia-smi"
    own.touch(mode=0o755)
    assert gather.nvidia_smi() == ["nvidia-smi"]
    own.unlink()
    (root / "usr/bin/nvidia-smi").unlink()
    (root / "usr/bin").rmdir()
    (root / "usr").rmdir()
    root.rmdir()
    root.symlink_to("/")
    assert gather.nvidia_smi() == ["nvidia-smi"], "the link leads to the host itself"


def test_mig_instances_are_read_by_gpu() -> None:
    gather = load("module_utils/paictl_gather.py")
    listed = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.40gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.40gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a78)
GPU 2: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a79)
  MIG 1g.10gb+me  Device  0: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9bec)
"""
    assert gather.instances(listed) == [[[0, "3g.40gb"], [1, "3g.40gb"]], [], [[0, "1g.10gb+me"]]]
    assert gather.instances("No devices were found\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\n") == []
