"""Gangs of which pods never come: those that came are told so."""

from __future__ import annotations

from dataclasses import replace

from paictl.doors.views import explain_pod
from tests.unit.extender.harness import Harness, gang, pod

TOLD = "waits for 1 more pod of its group: 2 of 3 were seen"


def pass_time(harness: Harness, seconds: int) -> None:
    for _ in range(seconds):
        harness.now += 1
        harness.reconciler.reconcile()


def come(harness: Harness, *pods: object) -> None:
    for made in pods:
        assert isinstance(made, dict)
        harness.run(made)
        harness.core.pod_changed(made)


def messages(harness: Harness, name: str) -> list[str]:
    return [one.message for one in harness.recorded if one.pod.name == name and one.reason == "GroupIncomplete"]


def test_a_gang_says_that_a_member_has_not_come(harness: Harness) -> None:
    made = gang("g", 3, 4)
    come(harness, *made[:2])
    assert any(TOLD in line for line in explain_pod(harness.core, "default", "g-0")["text"]), "at once where asked"
    pass_time(harness, 30)
    assert messages(harness, "g-0") == [], "it may still come"
    pass_time(harness, 200)
    assert [TOLD in text for text in messages(harness, "g-0")] == [True], "once"
    assert messages(harness, "g-1")
    assert harness.evictions() == []
    come(harness, made[2])
    assert not any("more pod" in line for line in explain_pod(harness.core, "default", "g-0")["text"])


def test_a_gang_label_in_two_namespaces_makes_two_gangs_that_say_so(harness: Harness) -> None:
    for space, number in (("default", 2), ("other", 1)):
        for i in range(number):
            labels = {
                "paictl.io/virtual-cluster": "A",
                "paictl.io/group": "g",
                "paictl.io/group-size": "3",
                "paictl.io/leaf-cells": "1",
            }
            come(harness, pod(f"{space}-{i}", None, namespace=space, labels=labels))
    pass_time(harness, 90)
    assert "2 of 3 were seen (group default/g)" in messages(harness, "default-0")[0]
    assert "waits for 2 more pods of its group: 1 of 3 were seen (group other/g)" in messages(harness, "other-0")[0]


def test_a_member_that_has_ended_is_not_missed(harness: Harness) -> None:
    made = gang("g", 3, 4)
    come(harness, *made)
    harness.core.pod_changed(made[0] | {"status": {"phase": "Succeeded"}})
    pass_time(harness, 90)
    assert messages(harness, "g-1") == []


def test_nobody_is_missed_after_a_restart(harness: Harness) -> None:
    """Members may have ended before this process began."""
    come(harness, *gang("g", 3, 4)[:2])
    harness.begin(harness.core.spec)
    harness.open(harness.nodes or ["n0", "n1", "n2", "n3"])
    pass_time(harness, 90)
    assert messages(harness, "g-0") == []


def test_a_gang_that_never_becomes_whole_gives_its_place_back(harness: Harness) -> None:
    harness.core.options = replace(harness.core.options, gang_deadline=120)
    made = gang("g", 3, 4)
    come(harness, *made[:2])
    assert any("given back 120 s after" in line for line in explain_pod(harness.core, "default", "g-0")["text"])
    pass_time(harness, 110)
    assert harness.evictions() == []
    pass_time(harness, 30)
    assert {call.split()[-1] for call in harness.evictions()} == {"g-0", "g-1"}
    for one in made[:2]:
        assert "GroupGivenBack" in harness.reasons_of(one["metadata"]["name"])
        harness.delete(one["metadata"]["name"])
    for other in gang("other", 3, 4):
        harness.run(other)


def test_a_gang_that_is_whole_in_time_keeps_its_place(harness: Harness) -> None:
    harness.core.options = replace(harness.core.options, gang_deadline=120)
    made = gang("g", 3, 4)
    come(harness, *made[:2])
    pass_time(harness, 100)
    come(harness, made[2])
    pass_time(harness, 300)
    assert harness.evictions() == []
