"""Taints of nodes: ours are what is wanted, those of others stay as they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.kubernetes.services.nodes import TAINTS, Taint, tainted, taints_of
from paictl.cluster.manifests.context import taints_by_host

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def taints(keys: str) -> st.SearchStrategy[list[Taint]]:
    one = st.fixed_dictionaries(
        {"key": st.sampled_from(keys), "effect": st.sampled_from(EFFECTS)}, optional={"value": st.sampled_from("xyz")}
    )
    return st.lists(one, max_size=4, unique_by=lambda one: (one["key"], one["effect"]))


@given(theirs=taints("abc"), first=taints("def"), then=taints("def"), late=taints("ghi"))
def test_ours_are_what_is_wanted_and_those_of_others_stay(
    theirs: list[Taint], first: list[Taint], then: list[Taint], late: list[Taint]
) -> None:
    bare = {"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24", **({"taints": theirs} if theirs else {})}}
    live = tainted(bare, first)
    assert taints_of(live) == [*theirs, *first]
    assert tainted(live, first) == live
    live["spec"]["taints"] = [*late, *taints_of(live)]  # others come in the meantime
    live = tainted(live, then)
    assert all(one in taints_of(live) for one in [*late, *theirs, *then])
    assert len(taints_of(live)) == len([*late, *theirs, *then])
    after = tainted(live, [])
    assert taints_of(after) == [*late, *theirs]
    assert TAINTS not in after["metadata"].get("annotations", {})
    assert after["spec"]["podCIDR"] == "10.0.0.0/24"


def test_where_the_note_is_spoilt_nothing_of_others_is_taken_away() -> None:
    live = {"metadata": {"annotations": {TAINTS: "[[1]"}}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
    assert taints_of(tainted(live, [])) == [{"key": "a", "effect": "NoExecute"}]


def test_taints_are_written_as_kubectl_writes_them() -> None:
    machines = [{"hostname": "h1", "taints": ["a/b=c:NoSchedule", "d:NoExecute", "e=:NoSchedule"]}, {"hostname": "h2"}]
    assert taints_by_host({"machine-list": machines}) == {
        "h1": [
            {"key": "a/b", "value": "c", "effect": "NoSchedule"},
            {"key": "d", "effect": "NoExecute"},
            {"key": "e", "effect": "NoSchedule"},
        ]
    }
