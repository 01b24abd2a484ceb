"""PodGroups, whose feature gates are off by default: a control plane of its own has them on (1.36 and newer)."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from paictl.cluster.pods.podgroups import CONDITION
from tests.e2e_kube.accounts import EXTENDER, PODGROUPS, Right, calls, granted
from tests.e2e_kube.controlplane import VERSION, ControlPlane, control_plane
from tests.e2e_kube.gates import ACCOUNT, gates
from tests.e2e_kube.kubeapi import MARKER, Json, KubeApi, until
from tests.e2e_kube.rig import rig
from tests.e2e_kube.test_placer import CONFIG, NAMES, check_devices, create

MINOR = int(VERSION.split(".")[1])
GROUPS = f"/apis/scheduling.k8s.io/{'v1beta1' if MINOR > 36 else 'v1alpha2'}/namespaces/default/podgroups"
pytestmark = pytest.mark.skipif(MINOR < 36, reason="Kubernetes 1.35 has no PodGroups of this kind")
BLOCK = "example.com/block"
RANDOM = int(os.environ.get("PAICTL_PODGROUPS", "40"))
"""Random groups by each door; 200 take some minutes."""
PATIENCE = 90 + RANDOM
"""Seconds until one of them is whole: the more pods wait, the longer kube-scheduler's backoff."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    features = ["GenericWorkload", "TopologyAwareWorkloadScheduling"]
    features += ["GangScheduling"] if MINOR == 36 else []  # its own there
    with control_plane(tmp_path_factory.mktemp("groups"), features=features) as up:
        yield up


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> KubeApi:
    return KubeApi(plane)


@pytest.fixture(scope="module", params=["gates", "extender"])
def door(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Either door; pods are written for it by `pods`, and every right that it has to PodGroups must have been used."""
    folder = tmp_path_factory.mktemp("door")
    if request.param == "gates":
        with gates(plane, api, CONFIG, folder, "--pin-deadline", "5") as up:
            for number, name in enumerate(NAMES):
                api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {BLOCK: f"b{number // 2}"}}})
            yield "gates"
            assert unused(plane, up.objects, ACCOUNT) == set()
    else:
        with rig(plane, api, CONFIG, folder, "--bind-deadline", "5") as up:
            yield "extender"
            assert unused(plane, up.objects, EXTENDER) == set()


def unused(plane: ControlPlane, objects: list[Json], account: str) -> set[Right]:
    """Rights to PodGroups that an account has and never used."""
    rights = {right for right in granted(objects, account) if right.resource in PODGROUPS}
    assert rights, "the manifests give none"
    return rights - {call.right for call in calls(plane, account) if call.allowed}


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()
    api.call("DELETE", GROUPS)
    until(lambda: not api.get(GROUPS)["items"], 30, "all PodGroups are gone")


def group(api: KubeApi, name: str, size: int, topology: str = "") -> None:
    """A PodGroup of that many pods."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": size}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    api.call("POST", GROUPS, {"metadata": {"name": name}, "spec": spec})


def pods(door: str, name: str, count: int, leaves: int, vc: str = "A", first: int = 0) -> list[Json]:
    """Pods that name a PodGroup, with labels for virtual cluster and devices only."""
    gate = (
        {"schedulingGates": [{"name": "paictl.io/cells"}]} if door == "gates" else {"schedulerName": "hivedscheduler"}
    )
    limits = {} if door == "gates" else {MARKER: 1}
    return [
        {
            "metadata": {
                "name": f"{name}-{number}",
                "labels": {"paictl.io/virtual-cluster": vc, "paictl.io/leaf-cells": str(leaves)},
            },
            "spec": {
                "containers": [{"name": "c", "image": "none", "resources": {"limits": {**limits, "cpu": "1"}}}],
                "schedulingGroup": {"podGroupName": name},
                **gate,
            },
        }
        for number in range(first, first + count)
    ]


def said(api: KubeApi, name: str) -> str:
    """What our condition says of a PodGroup."""
    found = (api.get(f"{GROUPS}/{name}").get("status") or {}).get("conditions") or ()
    return next((f"{one['status']}: {one['message']}" for one in found if one["type"] == CONDITION), "")


def test_a_group_is_placed_when_it_is_known_and_whole(door: str, api: KubeApi) -> None:
    create(api, pods(door, "late", 3, 4))
    reason = "PodGroup default/late does not exist"
    until(lambda: any(reason in one["message"] for one in api.events("late-0")), 20, lambda: api.plight(["late-0"]))
    group(api, "late", 3)
    api.await_bound([f"late-{i}" for i in range(3)], 60)
    until(lambda: said(api, "late") == "True: 3 pods have their devices", 20, lambda: said(api, "late"))
    group(api, "half", 2)
    create(api, pods(door, "half", 1, 1, "B"))
    until(lambda: said(api, "half").startswith("False: "), 20, lambda: said(api, "half"))
    assert not api.node_of("half-0")
    create(api, pods(door, "half", 1, 1, "B", first=1))
    api.await_bound(["half-0", "half-1"], 60)
    until(lambda: said(api, "half") == "True: 2 pods have their devices", 20, lambda: said(api, "half"))


def test_a_group_that_finds_no_room_says_why_and_holds_nothing(door: str, api: KubeApi) -> None:
    group(api, "most", 2)
    group(api, "large", 2)
    api.await_bound(create(api, pods(door, "most", 2, 4)), 60)
    create(api, pods(door, "large", 2, 4))
    until(lambda: said(api, "large").startswith("False: pod waits"), 30, lambda: said(api, "large"))
    assert not any(api.node_of(f"large-{i}") for i in range(2))
    api.await_bound(create(api, _single(door)), 60)


def _single(door: str) -> list[Json]:
    """A pod without any group, for what the groups have left free."""
    (pod,) = pods(door, "free", 1, 4)
    del pod["spec"]["schedulingGroup"]
    return [pod]


def test_random_groups_run_whole_or_not_at_all(door: str, api: KubeApi) -> None:
    """More than there is room for, in a random order of pods; those that end make room."""
    dice = random.Random(11)  # noqa: S311
    sizes = {f"g{number}": (dice.randint(1, 4), dice.choice([1, 2])) for number in range(RANDOM)}
    for name, (size, _) in sizes.items():
        group(api, name, size)
    made = [one for name, (size, leaves) in sizes.items() for one in pods(door, name, size, leaves)]
    dice.shuffle(made)
    create(api, made)
    left = set(sizes)
    while left:
        whole = _whole(api, {name: sizes[name][0] for name in left})
        if door == "gates":
            check_devices(api)
        for name in whole:
            for number in range(sizes[name][0]):
                api.delete(f"{name}-{number}")
        left -= whole


def _whole(api: KubeApi, sizes: Mapping[str, int]) -> set[str]:
    """The groups all of whose pods are bound, as soon as there is one."""
    whole: set[str] = set()

    def some() -> bool:
        bound = Counter(one["metadata"]["name"].rpartition("-")[0] for one in api.pods() if one["spec"].get("nodeName"))
        whole.update(name for name, size in sizes.items() if bound[name] == size)
        return bool(whole)

    until(some, PATIENCE, lambda: str({name: said(api, name) for name in sorted(sizes)[:5]}))
    return whole


def test_behind_the_gates_a_group_stays_within_one_block(door: str, api: KubeApi) -> None:
    if door != "gates":
        pytest.skip("kube-scheduler itself keeps topology constraints of pods that it schedules")
    group(api, "pair", 2, BLOCK)
    pair = api.await_bound(create(api, pods(door, "pair", 2, 4)), 60)
    blocks = {NAMES.index(one["spec"]["nodeName"]) // 2 for one in pair.values()}
    assert len(blocks) == 1
    group(api, "wide", 3, BLOCK)
    create(api, pods(door, "wide", 3, 2))
    until(lambda: said(api, "wide").startswith("False: pod waits"), 30, lambda: said(api, "wide"))
    assert not any(api.node_of(f"wide-{i}") for i in range(3))
    for name in pair:
        api.delete(name)
    wide = api.await_bound([f"wide-{i}" for i in range(3)], 60)
    assert len({NAMES.index(one["spec"]["nodeName"]) // 2 for one in wide.values()}) == 1
