"""What both doors print for claims: the rights that they check for, the profile, the policies; nothing by default."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paictl.cluster.devices.support import RIGHTS
from paictl.doors import manifests as extender
from paictl.doors.manifests import Choices
from paictl.errors import PaictlError

Json = dict[str, Any]
CLAIMS = Choices(devices="auto", device_classes=("gpu.example.com",), device_drivers=("gpu.example.com",))


def printed(door: str, choices: Choices) -> list[Json]:
    return extender.objects(replace(choices, door="gates" if door == "placer" else door), "1")


def granted(objects: list[Json], name: str) -> set[tuple[str, str, str]]:
    (role,) = (one for one in objects if one["kind"] == "ClusterRole" and one["metadata"]["name"] == name)
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("door", ["extender", "placer"])
def test_the_rights_are_those_that_the_door_asks_for(door: str) -> None:
    needed = {(group, resource, verb) for group, resource, verbs in RIGHTS for verb in verbs}
    assert needed <= granted(printed(door, CLAIMS), f"hivedscheduler-{door}")
    default = granted(printed(door, Choices()), f"hivedscheduler-{door}")
    assert not {one for one in default if one[0] == "resource.k8s.io"}


@pytest.mark.parametrize("door", ["extender", "placer"])
def test_the_process_and_the_policies_know_class_and_driver(door: str) -> None:
    objects = printed(door, CLAIMS)
    (deployment,) = (
        one for one in objects if one["kind"] == "Deployment" and one["metadata"]["name"] == f"hivedscheduler-{door}"
    )
    command = deployment["spec"]["template"]["spec"]["containers"][0]["command"]
    words = {"--devices=auto", "--device-class=gpu.example.com", "--device-driver=gpu.example.com"}
    assert words <= set(command)
    policies = {one["metadata"]["name"]: one for one in objects if one["kind"] == "ValidatingAdmissionPolicy"}
    for name in ("hivedscheduler-claims", "hivedscheduler-claim-templates"):
        assert '["gpu.example.com"]' in str(policies[name]["spec"]["variables"])
    assert "hivedscheduler-claiming-pods" in policies
    assert not any("claim" in one["metadata"]["name"] for one in printed(door, Choices()))


def test_kube_scheduler_allocates_nothing_where_the_extender_does() -> None:
    (profile,) = extender.scheduler_configuration(CLAIMS)["profiles"]
    assert profile["plugins"] == {"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}
    (profile,) = extender.scheduler_configuration(Choices())["profiles"]
    assert profile == {"schedulerName": "hivedscheduler"}


def test_an_invalid_way_to_get_devices_is_refused() -> None:
    with pytest.raises(PaictlError, match="'gpus' is not a way to get devices"):
        extender.objects(Choices(devices="gpus"), "1")
