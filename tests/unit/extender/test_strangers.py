"""Pods whose owner has given them the name of another tenant's gang before a new door reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paictl.remote.kube.client import Json
from paictl.scheduler.groups import Group
from paictl.scheduler.invariants import validate
from paictl.scheduler.wire import BIND_INFO, GATE, GRANTED, SCHEDULING_SPEC
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness
from tests.unit.extender.test_tenants import grant, member, two_tenants


def renamed(made: Json, **about: Any) -> None:
    """A pinned pod after its owner has changed what it says of its gang."""
    noted = made["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = json.dumps(json.loads(noted[SCHEDULING_SPEC]) | {"affinityGroup": about})


def restart(harness: Harness, *, reverse: bool = False) -> dict[str, Group]:
    if reverse:
        harness.server.pods = dict(reversed(harness.server.pods.items()))
    harness.begin(spec())
    grant(harness)
    validate(harness.core.book.engine.state)
    return harness.core.book.engine.state.groups.by_name


def uids(group: Group) -> list[str]:
    return [uid for row in group.pods for uid in row]


ONE = [{"podNumber": 1, "leafCellNumber": 4}]
TWO = [{"podNumber": 2, "leafCellNumber": 4}]


def test_who_takes_the_name_of_a_gang_over_a_restart_keeps_its_devices_only() -> None:
    harness = two_tenants()
    stranger = member("team-b", "s0", "B", "team-b/x", 1)
    node = harness.run(stranger)
    renamed(stranger, name="team-a/train", members=ONE)
    groups = restart(harness)
    assert list(groups) == ["team-a/train (uid-team-b-s0)"]
    assert groups["team-a/train (uid-team-b-s0)"].virtual is None
    assert harness.reasons_of("s0") == ["GuaranteeLost"]
    assert "begin it with team-b/" in harness.recorded[-1].message
    owner = member("team-a", "t0", "A", "team-a/train", 1)
    assert harness.run(owner) != node
    assert groups["team-a/train"].virtual is not None
    harness.delete("s0", "team-b")
    assert list(groups) == ["team-a/train"]


@pytest.mark.parametrize("bound", [False, True])
def test_who_takes_a_virtual_cluster_over_a_restart_keeps_its_devices_only(*, bound: bool) -> None:
    """Only before it is bound: a grant may have been withdrawn since, and the gang keeps what it was promised."""
    harness = two_tenants()
    stranger = member("team-b", "s0", "B", "team-b/x", 1)
    node = harness.run(stranger)
    if not bound:
        del stranger["spec"]["nodeName"]
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        only = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        stranger["spec"]["affinity"] = {"nodeAffinity": only}
    noted = stranger["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = json.dumps(json.loads(noted[SCHEDULING_SPEC]) | {"virtualCluster": "A"})
    harness.begin(spec())
    harness.core.namespace_changed(
        {"metadata": {"name": "team-b", "annotations": {GRANTED: "B"}, "labels": {GATE: "enabled"}}}
    )
    harness.open(NODES)
    groups = harness.core.book.engine.state.groups.by_name
    (group,) = groups.values()
    assert len(list(group.leaves())) == 4
    assert (group.vc, group.virtual is not None) == ("A", bound)
    assert ("GuaranteeLost" in harness.reasons_of("s0")) is not bound


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("members", [ONE, TWO])
def test_the_gang_whose_name_is_taken_stays_whole_over_a_restart(members: list[Json], *, reverse: bool) -> None:
    """Though the stranger is older, and comes first by its name and uid."""
    harness = two_tenants()
    stranger = member("team-a", "s0", "A", "team-a/x", 1)
    stranger["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    harness.run(stranger)
    own = member("team-b", "t0", "B", "team-b/train", 1)
    own["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    harness.run(own)
    renamed(stranger, name="team-b/train", members=members)
    groups = restart(harness, reverse=reverse)
    assert {name: list(filter(None, uids(group))) for name, group in groups.items()} == {
        "team-b/train": ["uid-team-b-t0"],
        "team-b/train (uid-team-a-s0)": ["uid-team-a-s0"],
    }
    assert groups["team-b/train"].virtual is not None


@pytest.mark.parametrize("reverse", [False, True])
def test_gangs_of_two_namespaces_under_one_plain_name_both_keep_their_guarantee(*, reverse: bool) -> None:
    harness = two_tenants()
    stranger = member("team-b", "s0", "B", "team-b/x", 1)
    stranger["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    harness.run(stranger)
    for number in range(2):
        own = member("team-a", f"t{number}", "A", "train", 2)
        own["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        harness.run(own)
    renamed(stranger, name="train", members=ONE)
    groups = restart(harness, reverse=reverse)
    assert {name: sorted(uids(group)) for name, group in groups.items()} == {
        "train": ["uid-team-a-t0", "uid-team-a-t1"],
        "train (team-b)": ["uid-team-b-s0"],
    }
    assert all(group.virtual is not None for group in groups.values())


def test_a_stranger_whose_annotation_names_no_device_holds_none() -> None:
    harness = two_tenants()
    stranger = member("team-b", "s0", "B", "team-b/x", 1)
    harness.run(stranger)
    noted = stranger["metadata"]["annotations"]
    noted[BIND_INFO] = json.dumps(json.loads(noted[BIND_INFO]) | {"leafCellIsolation": []})
    renamed(stranger, name="team-a/train", members=ONE)
    assert restart(harness) == {}
    assert "DevicesUnknown" in harness.reasons_of("s0")


def test_nobody_is_told_to_begin_a_name_with_what_it_begins_with() -> None:
    """team-b's gang had the name before team-a was granted anything."""
    harness = two_tenants()
    harness.core.namespace_changed({"metadata": {"name": "team-a"}})
    harness.run(member("team-b", "s0", "B", "team-a/train", 1))
    harness.core.namespace_changed({"metadata": {"name": "team-a", "annotations": {GRANTED: "A"}}})
    answer = harness.ask(member("team-a", "t0", "A", "team-a/train", 1), NODES)
    said = next(iter(answer.hopeless.values()))
    assert said.endswith("the name team-a/train is in use in another namespace until the pods there have ended")
    harness.delete("s0", "team-b")
    assert harness.run(harness.server.pods["team-a/t0"])
