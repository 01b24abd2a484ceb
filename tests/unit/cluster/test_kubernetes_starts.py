"""Promised starts as the scheduler notes them in waiting pods, counted by the status of a cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from paictl.cluster.interface import PromisedStart
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.kubernetes.names import JOB_KEY
from paictl.cluster.pods.times import START_PROMISED
from paictl.cluster.presets import preset_files
from paictl.operate.status import summary
from tests.unit.cluster.fakekube import FakeKube


def pod(space: str, name: str, at: str, *, job: str = "", node: str = "", status: str = "True") -> dict[str, Any]:
    """A pod with the condition of a promise."""
    about: dict[str, Any] = {"namespace": space, "name": name, "uid": name}
    if job:
        about["annotations"] = {JOB_KEY: job}
    condition = {"type": START_PROMISED, "status": status, "message": at}
    return {
        "metadata": about,
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Pending", "conditions": [condition]},
    }


@pytest.mark.parametrize("late", [False, True])
def test_a_waiting_pod_with_a_promise_counts_and_is_late_after_a_minute(late: bool) -> None:
    cluster = KubernetesCluster(FakeKube({}), "fake")
    at = cluster.now.replace(microsecond=0) + timedelta(hours=-1 if late else 1)
    rows = [
        pod("team", "other", (at + timedelta(days=1)).isoformat()),
        pod("paictl-jobs", "first", at.isoformat(), job="ann~big"),
        pod("team", "runs", at.isoformat(), node="w1"),
        pod("team", "lost", at.isoformat(), status="False"),
        pod("team", "broken", "soon"),
    ]
    kube = FakeKube({f"/api/v1/pods/{row['metadata']['name']}": row for row in rows})
    cluster = KubernetesCluster(kube, "fake")
    cluster.push(preset_files("lab"), "first")
    found = summary(cluster)
    first = PromisedStart("ann~big", at)
    assert found.starts == (first, PromisedStart("team/other", at + timedelta(days=1)))
    assert found.late == ((first,) if late else ())
