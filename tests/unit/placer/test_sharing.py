"""Budgets and limits for users behind the placer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from paictl.cluster.kubernetes.names import JOB_KEY
from paictl.cluster.usagebooks import UsageStore
from paictl.doors.accounts import Accountant
from paictl.placer.core import PlacerCore
from paictl.scheduler.wire import GATE
from paictl.units import Millis
from paictl.workload.sharing import read_sharing
from tests.unit.cluster.fakekube import FakeKube
from tests.unit.extender.harness import gang
from tests.unit.placer.test_placing import Placer

HOUR = Millis(3_600_000)


class Sharer(Placer):
    """A placer with a budget and a limit."""

    sharing = read_sharing(
        {"budgets": [{"vc": "B", "device-hours": 2}], "user-limits": [{"vc": "A", "devices": 4}]},
    )

    def prepare(self) -> None:
        self.core.namespace_changed({"metadata": {"name": "paictl-jobs", "labels": {GATE: "enabled"}}})


def test_gangs_are_held_back_whole_and_told_why_once() -> None:
    placer = Sharer()
    placer.core.month_used({})
    placer.create(gang("small", 2, 2))
    placer.round()
    placer.create(gang("second", 2, 1))
    for _ in range(3):
        placer.round()
    assert all(placer.node(f"small-{i}") for i in range(2))
    assert [placer.node(f"second-{i}") for i in range(2)] == ["", ""]
    assert placer.reasons("second-0") == ["Waiting"]
    said = next(one.message for one in placer.recorded if one.pod.name == "second-0")
    assert "user default may hold 4 guaranteed devices in virtual cluster A, holds 4, and this needs 2" in said
    placer.delete("small-0")
    placer.delete("small-1")
    placer.round()
    assert all(placer.node(f"second-{i}") for i in range(2))


def test_a_budget_holds_a_tenant_back_until_more_is_allowed() -> None:
    placer = Sharer()
    placer.core.month_used({("B", "default"): 2 * HOUR})
    placer.create(gang("late", 1, 1, vc="B"))
    placer.round()
    assert placer.node("late-0") == ""
    assert "the budget of virtual cluster B is used up" in placer.recorded[-1].message
    placer.core.month_used({("B", "default"): 0})
    placer.round()
    assert placer.node("late-0")


def test_a_pod_is_charged_for_its_devices_from_its_pin_on() -> None:
    """Its owner may have named a scheduler that never binds it."""
    placer, kube = Sharer(), FakeKube()
    placer.now = datetime(2026, 11, 25, tzinfo=UTC).timestamp()
    accounts = Accountant(kube, placer.core, UsageStore(kube, "paictl-system"), remaining=lambda: 60.0)
    assert accounts.attempt()
    placer.core.month_used({})
    (made,) = gang("held", 1, 2, vc="B")
    made["status"]["conditions"] = [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "lastTransitionTime": "2026-11-24T00:00:00Z",
        }
    ]
    placer.create([made], schedulerName="nobody")
    accounts.pod_changed(made)
    placer.round()
    accounts.pod_changed(made)
    placer.now += 3600
    assert accounts.used_in_month() == {("B", "default"): 2 * HOUR}
    made["spec"]["nodeName"] = placer.node("held-0")
    made["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-25T01:00:00Z"}
    ]
    placer.tell()
    accounts.pod_changed(made)
    placer.now += 3600
    assert accounts.used_in_month() == {("B", "default"): 4 * HOUR}


@pytest.mark.parametrize("first", ["pods", "namespaces"])
def test_a_pinned_pod_is_charged_after_a_restart_whatever_is_listed_first(first: str) -> None:
    """Only the labels of its namespace say whether its owner can have pinned it."""
    placer, kube = Sharer(), FakeKube()
    placer.now = datetime(2026, 11, 25, tzinfo=UTC).timestamp()
    (made,) = gang("held", 1, 2, vc="B")
    placer.core.month_used({})
    placer.create([made], schedulerName="nobody")
    placer.round()
    core = PlacerCore(
        placer.core.spec, placer.core.options, lambda _: None, wall=lambda: placer.now, clock=lambda: placer.now
    )
    for status in placer.core.health.nodes.values():
        core.node_changed(status)
    accounts = Accountant(kube, core, UsageStore(kube, "paictl-system"), remaining=lambda: 60.0)
    namespace = {"metadata": {"name": "default", "labels": {GATE: "enabled"}}}
    if first == "namespaces":
        core.namespace_changed(namespace)
    core.pod_changed(made)
    accounts.pod_changed(made)
    if first == "pods":
        core.namespace_changed(namespace)
    core.open()
    assert accounts.attempt()
    placer.now += 3600
    assert accounts.used_in_month() == {("B", "default"): 2 * HOUR}


def test_nobody_is_told_that_the_accounts_are_about_to_be_read() -> None:
    placer = Sharer()
    placer.create(gang("late", 1, 1, vc="B"))
    placer.round()
    assert placer.node("late-0") == ""
    assert placer.reasons("late-0") == []
    placer.core.month_used({("B", "default"): 2 * HOUR})
    placer.round()
    assert [one.message for one in placer.recorded if "is used up" in one.message]


def test_the_user_of_a_pod_is_that_of_its_job_only_where_jobs_run() -> None:
    placer = Sharer()
    placer.core.month_used({})
    forged = gang("forged", 1, 4)
    forged[0]["metadata"]["annotations"][JOB_KEY] = "ann~forged"
    placer.create(forged)
    placer.round()
    placer.create(gang("own", 1, 1))
    placer.round()
    assert placer.node("forged-0")
    assert placer.node("own-0") == "", "its namespace holds four already"
