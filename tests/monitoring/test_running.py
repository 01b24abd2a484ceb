"""Prometheus, Alertmanager and node-exporter at work on a real control plane, with extender, controller and a job."""

from __future__ import annotations

import contextlib
import urllib.error
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e_kube.accounts import calls
from tests.e2e_kube.controlplane import HOST, ControlPlane
from tests.e2e_kube.jobrig import JobRig, opened, rack_of_jobs, request, role
from tests.e2e_kube.kubeapi import KubeApi, until
from tests.monitoring.container import why_not
from tests.monitoring.hook import Hook, hook
from tests.monitoring.stack import Stack, stack
from tests.unit.cluster.catalogue import by_name
from tests.unit.cluster.test_catalogue_metrics import OTHERS, expressions, own_metrics

PATIENCE = 60.0
OF_KUBELETS = {name for name in OTHERS if name.startswith("container_")}
"""No kubelet runs here: their names are of cAdvisor's documentation."""


@pytest.fixture(scope="module")
def heard() -> Iterator[Hook]:
    with hook() as made:
        yield made


@pytest.fixture(scope="module")
def rig(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    with rack_of_jobs(plane, KubeApi(plane), tmp_path_factory.mktemp("jobs")) as made:
        opened(plane).submit([request("train", {"worker": role(4)})])
        with contextlib.suppress(urllib.error.HTTPError):  # an error to be counted
            made.rig.post("/v1/extender/filter", [])
        yield made


@pytest.fixture(scope="module")
def up(rig: JobRig, heard: Hook, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if reason := why_not():
        pytest.skip(reason)
    with stack(rig, heard, tmp_path_factory.mktemp("stack")) as made:
        yield made


def test_prometheus_finds_our_programs_and_exporters_and_they_answer(up: Stack) -> None:
    wanted = {"prometheus", "hivedscheduler-extender", "frameworkcontroller", "alert-manager", "node-exporter"}
    until(
        lambda: {job for job, one in up.targets().items() if one["health"] == "up"} >= wanted,
        PATIENCE,
        lambda: str({job: (one["health"], one["lastError"]) for job, one in up.targets().items()}),
    )
    for job in wanted - {"prometheus"}:
        labels = up.targets()[job]["labels"]
        assert labels == {"job": job, "node": "n0", "instance": job}
    assert "containers" in up.targets()  # the kubelets, which are imagined here
    assert {urlsplit(one["scrapeUrl"]).hostname for one in up.targets().values()} == {HOST}


def test_its_account_may_do_what_it_does(up: Stack) -> None:
    made = list(calls(up.plane, "prometheus"))
    assert {(one.right.resource, one.right.verb) for one in made} >= {("pods", "watch"), ("nodes", "watch")}
    assert [one for one in made if not one.allowed] == []


def test_rules_and_dashboards_name_only_what_somebody_really_says(up: Stack) -> None:
    devices = by_name(up.rendered["job-exporter"], "ConfigMap", "job-exporter")["data"]["counters.csv"]
    documented = OF_KUBELETS | {line.partition(",")[0] for line in devices.splitlines()}
    found = dict(expressions({"preset lab": up.rendered}))
    named = {where: set(_selected(_parsed(up, expression))) for where, expression in found.items()}
    assert all(named.values())
    wanted = {name for names in named.values() for name, _ in names} - documented

    def lacking() -> set[str]:
        return wanted - set(up.ask("prometheus", "/api/v1/label/__name__/values")["data"])

    until(lambda: not lacking(), PATIENCE, lambda: f"nobody says {sorted(lacking())}")
    own = own_metrics()
    for where, names in named.items():
        for name, labels in names:
            if name in own:
                assert labels <= own[name] | {"job", "node", "instance"}, where


def test_every_metric_of_ours_is_said(up: Stack) -> None:
    def lacking() -> set[str]:
        return own_metrics().keys() - set(up.ask("prometheus", "/api/v1/label/__name__/values")["data"])

    until(lambda: not lacking(), PATIENCE, lambda: f"nobody says {sorted(lacking())}")


def test_a_bad_node_under_a_guarantee_is_told_and_when_it_is_mended_too(up: Stack, heard: Hook) -> None:
    assert "GuaranteesAtRisk" not in _alerts(up)
    cluster = opened(up.plane)
    until(lambda: cluster.job("ann~train").used, PATIENCE, lambda: str(cluster.job("ann~train")))
    idle = [one.machine.name for one in cluster.nodes() if not one.pods]
    bad = [f"/api/v1/nodes/{name}" for name in idle[:4]]  # B was promised four, and three are left
    for node in bad:
        up.api.patch(node, {"spec": {"unschedulable": True}})
    until(lambda: heard.has("GuaranteesAtRisk", "firing"), PATIENCE, lambda: f"{heard.alerts}\n{_rules(up)}")
    alert = next(one for one in heard.alerts if one["labels"]["alertname"] == "GuaranteesAtRisk")
    labels = {name: alert["labels"][name] for name in ("severity", "cluster", "vc")}
    assert labels == {"severity": "critical", "cluster": "pai", "vc": "B"}
    assert alert["annotations"]["summary"] == "VC B: 1 cells can be served only by bad hardware"
    until(lambda: {"GuaranteesAtRisk", "NodesBad"} <= _alerts(up), PATIENCE, lambda: str(_rules(up)))
    for node in bad:
        up.api.patch(node, {"spec": {"unschedulable": None}})
    until(lambda: heard.has("GuaranteesAtRisk", "resolved", vc="B"), PATIENCE, lambda: str(heard.alerts))


def test_a_machine_that_does_not_answer_is_told_by_its_name(up: Stack, heard: Hook) -> None:
    up.plane.programs["node-exporter"].kill()
    until(lambda: heard.has("NodeDown", "firing", node="n0"), PATIENCE, lambda: f"{heard.alerts}\n{_rules(up)}")


def _parsed(up: Stack, expression: str) -> Mapping[str, Any]:
    """An expression as Prometheus understands it; variables of dashboards stand in strings only."""
    tree: Mapping[str, Any] = up.ask("prometheus", "/api/v1/parse_query", query=expression)["data"]
    return tree


def _selected(tree: object) -> Iterator[tuple[str, frozenset[str]]]:
    """(metric, labels asked for) of each selector in it."""
    if isinstance(tree, list):
        for one in tree:
            yield from _selected(one)
    elif isinstance(tree, dict):
        if tree.get("type") in ("vectorSelector", "matrixSelector"):
            labels = frozenset(one["name"] for one in tree["matchers"])
            yield tree["name"], labels - {"__name__"}
        for one in tree.values():
            yield from _selected(one)


def _alerts(up: Stack) -> set[str]:
    """What Alertmanager knows of now."""
    return {one["labels"]["alertname"] for one in up.ask("alertmanager", "/api/v2/alerts")}


def _rules(up: Stack) -> list[tuple[str, str, str]]:
    """(alert, state, error) of every rule, for messages."""
    groups = up.ask("prometheus", "/api/v1/rules")["data"]["groups"]
    return [(rule["name"], rule["state"], rule.get("lastError", "")) for group in groups for rule in group["rules"]]
