"""Anything at all as operations: an error or a result comes back, an error changes nothing, invariants hold."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.cells.spec import ClusterSpec, SpecError
from paictl.cli.scheduler.input import parse_yaml
from paictl.scheduler.errors import RequestError
from paictl.scheduler.explain.pod import PodHistory, PodSituation, report, report_data, report_lines
from paictl.scheduler.invariants import validate
from paictl.scheduler.replay import Replayer
from paictl.scheduler.wire import read_request
from tests.unit.scheduler.scenarios.world import RACKS

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    3,
    1001,
    10**30,
    -(10**400),
    0.5,
    float("nan"),
    float("inf"),
    "",
    "a",
    "n0",
    "PIN",
    "x\n",
    "\ud800",
    [],
    {},
    [None],
    [[]],
    ["n0", 5],
    {"a": 1},
    {"name": "g0"},
    {"members": 3},
    [{"podNumber": 1}],
)
"""Values to put in the place of others."""
NODES = [f"n{number}" for number in range(8)]
SIZES = (1, 1, 2, 2, 3, 4)
GROUPS = 6


def scheduling(pick: random.Random) -> dict[str, Any]:
    """A pod of one of a few groups."""
    number = pick.randrange(GROUPS)
    size, pods = SIZES[number], 1 + number % 2
    keys = pick.choice([("leafCellNumber", "leafCellType"), ("gpuNumber", "gpuType")])
    spec = {
        "virtualCluster": "abc"[number % 3],
        "priority": (-1, 0, 0, 5, 1, 5)[number],
        keys[0]: size,
        keys[1]: pick.choice(["", "GPU"]),
        "lazyPreemptionEnable": number % 4 == 0,
        "ignoreK8sSuggestedNodes": pick.random() < 0.7,
        "pinnedCellId": "PIN" if number == 4 else "",
        "affinityGroup": {"name": f"g{number}", "members": [{"podNumber": pods, keys[0]: size}]},
    }
    name = f"p{number}-{pick.randrange(pods + 1)}"
    pod: dict[str, Any] = {"uid": name, "name": name, "namespace": "space"}
    pod |= {"spec": spec} if pick.random() < 0.7 else {"annotation": json.dumps(spec)}
    out = {"op": pick.choice(["schedule", "filter", "filter"]), "pod": pod}
    if pick.random() < 0.5:
        out["phase"] = pick.choice(["Filtering", "Preempting"])
    if pick.random() < 0.3:
        out["suggested"] = [name for name in NODES if pick.random() < 0.7]
    return out


def operation(pick: random.Random) -> dict[str, Any]:
    """A sound operation."""
    kind = pick.random()
    if kind < 0.55:
        return scheduling(pick)
    uid = f"p{pick.randrange(GROUPS)}-{pick.randrange(3)}"
    if kind < 0.8:
        return {"op": pick.choice(["add_allocated", "bound", "delete_allocated", "delete_unallocated"]), "uid": uid}
    if kind < 0.9:
        return {"op": "node", "name": pick.choice(NODES), "healthy": pick.random() < 0.6}
    return pick.choice(
        [
            {"op": "nodes", "names": pick.sample(NODES, 3), "healthy": True},
            {"op": "restart", "config": pick.choice(["same", "none"]), "lost": [uid], "order": "pods_first"},
            {"op": "restart"},
            {"op": "status", "view": pick.choice(["groups", "cells", "pods", "full", "other"])},
            {"op": "mark"},
        ]
    )


def spoilt(pick: random.Random, sound: dict[str, Any]) -> dict[str, Any]:
    """The operation with one value somewhere in it left out, doubled or put in the place of another."""
    here: Any = sound
    while True:
        keys = sorted(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return sound
        key = pick.choice(keys)
        if isinstance(here[key], dict | list) and pick.random() < 0.8:
            here = here[key]
            continue
        if key == "annotation":
            text = here[key]
            here[key] = (
                text[: pick.randrange(len(text))] + pick.choice(["", "]", "\n- ", '"', "&x *x", "\t", ": "]) + text
            )
        elif pick.random() < 0.2:
            del here[key]
        else:
            here[key] = pick.choice(ODD)
        return sound


def load(name: str) -> ClusterSpec:
    if name != "same":
        raise SpecError("physicalCluster", "no such file")
    return ClusterSpec.from_mapping(RACKS)


@pytest.mark.parametrize("seed", range(80))
def test_any_operation_gets_an_answer_and_a_refused_one_changes_nothing(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311 (a test, not a secret)
    player = Replayer(ClusterSpec.from_mapping(RACKS), load=load, parse=parse_yaml)
    player.run({"op": "nodes", "names": NODES, "healthy": True})
    seen = Counter[str]()
    for _ in range(80):
        asked = operation(pick)
        if pick.random() < 0.4:
            asked = spoilt(pick, asked)
        before = player.engine.state.digest()
        result = player.run(asked)
        validate(player.engine.state)
        json.dumps(result)
        seen[result["r"]] += 1
        if result["r"] == "error":
            assert player.engine.state.digest() == before, f"{asked} was refused but changed the state"
            assert result["field"]
            assert result["field"] in result["message"]
            assert result.get("pod", "") in result["message"]
    assert min(seen["error"], seen["bind"], seen["ok"]) > 3, "the operations have to reach deep"


@pytest.mark.parametrize("seed", range(30))
def test_every_pod_can_be_explained_after_any_operations(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311 (a test, not a secret)
    player = Replayer(ClusterSpec.from_mapping(RACKS), load=load, parse=parse_yaml)
    history = PodHistory(player)
    history.run([(1, {"op": "nodes", "names": NODES, "healthy": True})])
    for number in range(2, 60):
        asked = operation(pick) if pick.random() < 0.7 else spoilt(pick, operation(pick))
        history.run([(number, asked)])
    before = player.engine.state.digest()
    for word in list(history.names):
        found = report(history, word)
        json.dumps(report_data(found))
        assert report_lines(found)
        assert (found.situation is PodSituation.RUNNING) == (found.uid in player.engine.state.groups.slots)
    assert player.engine.state.digest() == before


VALUES = st.recursive(
    st.sampled_from(ODD) | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "virtualCluster",
    "priority",
    "leafCellNumber",
    "gpuNumber",
    "leafCellType",
    "gpuType",
    "pinnedCellId",
    "lazyPreemptionEnable",
    "ignoreK8sSuggestedNodes",
)
GOOD = {"virtualCluster": "a", "priority": 0, "leafCellNumber": 1}
MEMBER = st.dictionaries(st.sampled_from(["podNumber", "leafCellNumber", "gpuNumber"]), VALUES | st.integers(1, 3))
GROUP = st.fixed_dictionaries(
    {"name": VALUES | st.just("g"), "members": VALUES | st.lists(VALUES | MEMBER, max_size=3)}
)
SPECS = st.builds(
    lambda change, group: {**GOOD, **change, **group},
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
    st.fixed_dictionaries({}, optional={"affinityGroup": VALUES | GROUP}),
)


@given(spec=st.dictionaries(st.text(max_size=5), VALUES, max_size=4) | SPECS)
@settings(max_examples=500, deadline=None)
def test_any_mapping_is_a_request_or_an_error_that_names_pod_and_field(spec: dict[str, Any]) -> None:
    request = refused = None
    try:
        request = read_request(spec, "uid", "space/pod")
    except RequestError as error:
        refused = error
    if refused is not None:
        assert refused.field
        assert str(refused).startswith(f"pod space/pod: {refused.field}: ")
        assert len(str(refused)) < 250
    if request is not None:
        assert request.leaf_number in dict(request.members)
        assert request.vc
        assert -1 <= request.priority <= 1000


@given(text=st.text(max_size=60) | st.text(alphabet="[]{}:,-&*!|>\"'% #\n\tab01xf", max_size=40))
@settings(max_examples=400, deadline=None)
def test_any_annotation_is_a_request_or_an_error(text: str) -> None:
    player = Replayer(ClusterSpec.from_mapping(RACKS), parse=parse_yaml)
    before = player.engine.state.digest()
    result = player.run({"op": "schedule", "pod": {"uid": "p", "annotation": text}})
    if result["r"] == "error":
        assert (result["pod"], player.engine.state.digest()) == ("default/p", before)
        assert "\n" not in result["message"]
