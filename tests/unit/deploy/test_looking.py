"""What a deployment refuses after its look at the machines: programs of another version are an upgrade's business."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paictl.deploy.facts import HostFacts
from paictl.deploy.inspection import refuse_ended, refuse_other_version
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode


def look(**versions: str) -> None:
    """Judge machines with these versions, `-` for one that has not joined, where v1.37.1 is wished."""
    facts = {}
    for name, version in versions.items():
        joined = version != "-"
        values = {"done": "lab" if joined else "", "kubernetes": ["/etc/kubernetes/kubelet.conf"], "kubelet": version}
        facts[name] = HostFacts(Machine(name, "10.0.0.1", Role.WORKER), values)
    site: Any = SimpleNamespace(cluster="lab", desired=SimpleNamespace(version="v1.37.1"), facts=facts)
    refuse_other_version(site)


@pytest.mark.parametrize("versions", [{}, {"m1": "v1.37.1", "w1": "-"}, {"m1": "-"}, {"m1": ""}])
def test_the_same_version_and_machines_that_are_new_are_fine(versions: dict[str, str]) -> None:
    look(**versions)


@pytest.mark.parametrize("versions", [{"m1": "v1.37.0", "w1": "v1.37.0"}, {"m1": "v1.37.1", "w1": "v1.36.4"}])
def test_newer_artifacts_are_refused_and_the_upgrade_is_named(versions: dict[str, str]) -> None:
    with pytest.raises(DeployError, match=r"the artifacts are for v1\.37\.1") as caught:
        look(**versions)
    assert "paictl deploy upgrade --to v1.37.1" in str(caught.value.hint)
    assert caught.value.exit_code is ExitCode.NEGATIVE


def test_older_artifacts_are_refused_and_the_right_ones_are_named() -> None:
    with pytest.raises(DeployError, match=r"m1: the cluster runs Kubernetes v1\.38\.0") as caught:
        look(m1="v1.38.0", w1="v1.37.0")
    assert "use artifacts for v1.38.0" in str(caught.value.hint)


def ended(**files: list[str]) -> None:
    """Judge machines of the cluster on which the certificates of these files have ended."""
    values = {"done": "lab", "kubernetes": ["/etc/kubernetes/kubelet.conf"]}
    facts = {
        name: HostFacts(Machine(name, "10.0.0.1", Role.WORKER), {**values, "ended": paths})
        for name, paths in files.items()
    }
    refuse_ended(SimpleNamespace(cluster="lab", facts=facts))  # type: ignore[arg-type]


def test_certificates_that_have_ended_are_named_with_what_renews_them() -> None:
    ended(m1=[], w1=[])
    with pytest.raises(DeployError, match=r"expired on w1: kubelet-client-current\.pem") as caught:
        ended(m1=[], w1=["/var/lib/kubelet/pki/kubelet-client-current.pem"])
    assert "paictl deploy certs renew" in str(caught.value.hint)
    assert caught.value.exit_code is ExitCode.NEGATIVE
