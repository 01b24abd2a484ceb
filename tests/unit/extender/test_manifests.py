"""What `paictl extender config` prints."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from paictl.errors import PaictlError
from paictl.extender.manifests import Choices, objects, scheduler_configuration, to_yaml


def made(**choices: Any) -> dict[tuple[str, str], Any]:
    found = objects(Choices(**choices), "1.2.3")
    assert list(yaml.safe_load_all(to_yaml(found))) == found
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_everything_is_there_and_labelled() -> None:
    found = made(hived_config="physicalCluster:\n  a: 1\n")
    kinds = [kind for kind, _ in found]
    assert kinds.index("Namespace") < kinds.index("Deployment")
    for kind in ("ClusterRole", "ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "ServiceAccount"):
        assert kind in kinds
    space = found.pop(("Namespace", "paictl-system"))
    assert "labels" not in space["metadata"], "`service start` owns those, and would find that somebody else does"
    assert all(one["metadata"]["labels"]["app.kubernetes.io/part-of"] == "paictl" for one in found.values())
    assert yaml.safe_load(found["ConfigMap", "hivedscheduler"]["data"]["hivedscheduler.yaml"]) == {
        "physicalCluster": {"a": 1}
    }


def test_permissions_are_no_more_than_what_is_done() -> None:
    """What `paictl.remote.kube` sends for the extender, verb by verb."""
    rules = made()["ClusterRole", "hivedscheduler-extender"]["rules"]
    granted = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted == {
        ("nodes", "list"), ("nodes", "watch"), ("pods", "get"), ("pods", "list"), ("pods", "watch"), ("pods", "patch"),
        ("pods/binding", "create"), ("pods/eviction", "create"), ("pods/status", "patch"),
        ("events", "create"), ("events", "get"), ("events", "patch"), ("poddisruptionbudgets", "list"),
    }  # fmt: skip
    more = made(delete_after=60)
    assert more["ClusterRole", "hivedscheduler-extender"]["rules"][-1]["verbs"] == ["delete"]
    command = more["Deployment", "hivedscheduler-extender"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[-2:] == ["--delete-after", "60"]


def test_the_choices_reach_where_they_belong() -> None:
    found = made(scheduler_name="gpu", namespace="elsewhere", image="r/p:1", kube_image="k:1", replicas=3)
    config = yaml.safe_load(found["ConfigMap", "hivedscheduler"]["data"]["scheduler.yaml"])
    assert config["profiles"] == [{"schedulerName": "gpu"}]
    assert "elsewhere.svc" in config["extenders"][0]["urlPrefix"]
    assert config["percentageOfNodesToScore"] == 100
    assert "kubeconfig" not in config["clientConnection"], "in a pod its own service account counts"
    extender = found["Deployment", "hivedscheduler-extender"]["spec"]
    assert extender["replicas"] == 3
    assert extender["template"]["spec"]["containers"][0]["image"] == "r/p:1"
    assert "elsewhere/hivedscheduler-extender" in extender["template"]["spec"]["containers"][0]["command"]
    assert scheduler_configuration(Choices(scheduler_name="gpu"))["profiles"] == [{"schedulerName": "gpu"}]


def test_a_name_that_is_none_is_refused() -> None:
    for choices in (Choices(scheduler_name="A B"), Choices(namespace="x\ny: z")):
        with pytest.raises(PaictlError, match="is none"):
            objects(choices, "1")
