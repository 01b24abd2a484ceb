from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from paictl.cluster.interface import JobRequest, JobView
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.presets import preset_files
from tests.unit.controller.fakejobs import FakeJobs


@pytest.fixture
def kube() -> FakeJobs:
    """A cluster to which a configuration was pushed."""
    found = FakeJobs()
    KubernetesCluster(found, "fake").push(preset_files("three-tenants"), "first")
    return found


def request(
    roles: Mapping[str, Mapping[str, Any]], name: str = "job", *, gang: bool = True, **more: object
) -> JobRequest:
    basis = {"dockerImage": "i", "commands": ["run"], "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 64}}
    data = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "extras": {"gangAllocation": gang},
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "image"}],
        "taskRoles": {role: {**basis, **own} for role, own in roles.items()},
        "defaults": {"virtualCluster": "tenanta"},
        **more,
    }
    return JobRequest("ann", data)


def cluster(kube: FakeJobs) -> KubernetesCluster:
    return KubernetesCluster(kube, "fake")


def job(kube: FakeJobs, key: str = "ann~job") -> JobView:
    return cluster(kube).job(key)
