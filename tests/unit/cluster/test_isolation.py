"""What protects tenants from each other: in force only where the API server has all that puts it in force."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from paictl.cluster.kubernetes.isolation import protections
from paictl.extender.manifests import Choices, objects
from paictl.remote.kube.client import KubeError
from tests.unit.cluster.fakekube import FakeKube

Json = dict[str, Any]
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
EXTENDER = "/apis/apps/v1/namespaces/paictl-system/deployments/hivedscheduler-extender"
JOBS = "/api/v1/namespaces/paictl-jobs"
NETWORK = "/apis/networking.k8s.io/v1/namespaces/paictl-system/networkpolicies/"
FOLDERS = {
    "ValidatingAdmissionPolicy": POLICIES, "ValidatingAdmissionPolicyBinding": BINDINGS, "NetworkPolicy": NETWORK,
    "Deployment": EXTENDER.rpartition("/")[0] + "/",
}  # fmt: skip


def cluster(*, tls: bool = True) -> dict[str, Json]:
    """What `extender config` prints, as it is on a server, and the namespace of the jobs."""
    printed = objects(Choices(tls=tls), "1.0")
    found = {
        FOLDERS[one["kind"]] + one["metadata"]["name"]: copy.deepcopy(one) for one in printed if one["kind"] in FOLDERS
    }
    labels = {"pod-security.kubernetes.io/enforce": "baseline", "paictl.io/cells": "enabled"}
    return {**found, JOBS: {"metadata": {"name": "paictl-jobs", "labels": labels}}}


def lacking(server: dict[str, Json]) -> dict[str, str]:
    return {one.name: one.message for one in protections(FakeKube(server)) if not one.in_force}


def test_what_is_printed_protects() -> None:
    assert lacking(cluster()) == {}
    assert len(protections(FakeKube(cluster()))) == 5


def test_without_an_extender_there_is_nothing_to_say() -> None:
    assert protections(FakeKube()) == ()


def weaken_binding(server: dict[str, Json]) -> None:
    server[BINDINGS + "hivedscheduler-devices"]["spec"]["validationActions"] = ["Warn", "Audit"]


def unlabel(server: dict[str, Json]) -> None:
    del server[JOBS]["metadata"]["labels"]["paictl.io/cells"]


def allow_all(server: dict[str, Json]) -> None:
    server[JOBS]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged"


def unenforced(server: dict[str, Json]) -> None:
    del server[JOBS]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]


@pytest.mark.parametrize(("name", "words", "change"), [
    ("hivedscheduler-devices", "there is no such policy", lambda it: it.pop(POLICIES + "hivedscheduler-devices")),
    ("hivedscheduler-devices", "it only warns", weaken_binding),
    ("hivedscheduler-annotations", "no binding", lambda it: it.pop(BINDINGS + "hivedscheduler-annotations")),
    ("pod-security", "lacks the label", unlabel),
    ("pod-security", "enforces privileged", allow_all),
    ("pod-security", "enforces privileged", unenforced),
    ("pod-security", "there is no namespace", lambda it: it.pop(JOBS)),
    ("network-policies", "missing: hivedscheduler-extender", lambda it: it.pop(NETWORK + "hivedscheduler-extender")),
])  # fmt: skip
def test_what_was_taken_away_is_named(name: str, words: str, change: Callable[[dict[str, Json]], object]) -> None:
    server = cluster()
    change(server)
    found = lacking(server)
    assert list(found) == [name]
    assert words in found[name]


def test_an_extender_without_tls_is_named() -> None:
    found = lacking(cluster(tls=False))
    assert list(found) == ["mutual-tls"]
    assert "asks callers for no certificate" in found["mutual-tls"]


def test_what_may_not_be_read_is_not_said_to_hold() -> None:
    kube = FakeKube(cluster())

    def forbid(number: int) -> None:
        if kube.requests[number][1].startswith(POLICIES):
            raise KubeError("you are nobody", status=403)

    kube.before = forbid
    found = {one.name: one.message for one in protections(kube) if not one.in_force}
    assert set(found) == {"hivedscheduler-devices", "hivedscheduler-annotations"}
    assert all("you may not read it" in why for why in found.values())
