"""What protects tenants from each other: in force only where the API server has all that puts it in force."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from paictl.cluster.kubernetes.rights import protections, uncounted
from paictl.doors.manifests import Choices, objects
from paictl.remote.kube.client import KubeError
from paictl.scheduler.wire import BIND_INFO
from tests.unit.cluster.fakekube import FakeKube, _selected

Json = dict[str, Any]
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
EXTENDER = "/apis/apps/v1/namespaces/paictl-system/deployments/hivedscheduler-extender"
JOBS = "/api/v1/namespaces/paictl-jobs"
NETWORK = "/apis/networking.k8s.io/v1/namespaces/paictl-system/networkpolicies/"
FOLDERS = {
    "ValidatingAdmissionPolicy": POLICIES,
    "ValidatingAdmissionPolicyBinding": BINDINGS,
    "NetworkPolicy": NETWORK,
    "Deployment": EXTENDER.rpartition("/")[0] + "/",
}


def cluster(*, tls: bool = True, door: str = "extender") -> dict[str, Json]:
    """What `extender config` prints, as it is on a server, and the namespace of the jobs."""
    printed = objects(Choices(door=door, tls=tls), "1.0")
    found = {
        FOLDERS[one["kind"]] + one["metadata"]["name"]: copy.deepcopy(one) for one in printed if one["kind"] in FOLDERS
    }
    labels = {"pod-security.kubernetes.io/enforce": "baseline", "paictl.io/cells": "enabled"}
    return {**found, JOBS: {"metadata": {"name": "paictl-jobs", "labels": labels}}}


def lacking(server: dict[str, Json]) -> dict[str, str]:
    return {one.name: one.message for one in protections(FakeKube(server)) if not one.in_force}


def test_what_is_printed_protects() -> None:
    assert lacking(cluster()) == {}
    assert len(protections(FakeKube(cluster()))) == 6


def test_the_placer_is_looked_at_where_it_serves() -> None:
    assert lacking(cluster(door="gates")) == {}
    server = cluster(door="gates", tls=False)
    del server[NETWORK + "hivedscheduler-placer"]
    assert set(lacking(server)) == {"mutual-tls", "network-policies"}
    assert "hivedscheduler-placer" in lacking(server)["network-policies"]


def test_devices_that_the_placer_would_not_count_are_named_by_namespace() -> None:
    def pod(space: str, name: str, **spec: str) -> Json:
        about = {"name": name, "namespace": space, "annotations": {BIND_INFO: "{}"}}
        return {"metadata": about, "spec": spec, "status": {"phase": "Running"}}

    placed = [pod("open", "a", nodeName="n"), pod("guarded", "b", nodeName="n"), pod("waiting", "c")]
    placed.append({"metadata": {"name": "d", "namespace": "plain"}, "spec": {"nodeName": "n"}})
    spaces: list[Json] = [
        {"metadata": {"name": "guarded", "labels": {"paictl.io/cells": "enabled"}}},
        {"metadata": {"name": "open", "labels": {"paictl.io/cells": "disabled"}}},
    ]
    answers = {"/api/v1/pods": placed, "/api/v1/namespaces": spaces}

    class Lists(FakeKube):
        def list(self, path: str, query: Mapping[str, object] | None = None) -> Iterator[tuple[str, list[Json]]]:
            wanted = str((query or {}).get("labelSelector", ""))
            yield "1", [one for one in answers[path] if _selected(one, wanted)]

    assert uncounted(Lists()) == ["open"]


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


@pytest.mark.parametrize(
    ("name", "words", "change"),
    [
        ("hivedscheduler-devices", "the policy does not exist", lambda it: it.pop(POLICIES + "hivedscheduler-devices")),
        ("hivedscheduler-devices", "only warns", weaken_binding),
        ("hivedscheduler-deletions", "does not exist", lambda it: it.pop(POLICIES + "hivedscheduler-deletions")),
        ("hivedscheduler-annotations", "no binding", lambda it: it.pop(BINDINGS + "hivedscheduler-annotations")),
        ("pod-security", "lacks the label", unlabel),
        ("pod-security", "enforces privileged", allow_all),
        ("pod-security", "enforces privileged", unenforced),
        ("pod-security", "does not exist", lambda it: it.pop(JOBS)),
        (
            "network-policies",
            "missing: hivedscheduler-extender",
            lambda it: it.pop(NETWORK + "hivedscheduler-extender"),
        ),
    ],
)
def test_what_was_taken_away_is_named(name: str, words: str, change: Callable[[dict[str, Json]], object]) -> None:
    server = cluster()
    change(server)
    found = lacking(server)
    assert list(found) == [name]
    assert words in found[name]


def test_an_extender_without_tls_is_named() -> None:
    found = lacking(cluster(tls=False))
    assert list(found) == ["mutual-tls"]
    assert "does not ask callers for a certificate" in found["mutual-tls"]


def test_what_may_not_be_read_is_not_said_to_hold() -> None:
    kube = FakeKube(cluster())

    def forbid(number: int) -> None:
        if kube.requests[number][1].startswith(POLICIES):
            raise KubeError("you are nobody", status=403)

    kube.before = forbid
    found = {one.name: one.message for one in protections(kube) if not one.in_force}
    assert set(found) == {"hivedscheduler-devices", "hivedscheduler-annotations", "hivedscheduler-deletions"}
    assert all("you may not read it" in why for why in found.values())
