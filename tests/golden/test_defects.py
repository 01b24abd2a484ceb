"""On the sequences where HiveD crashes, leaks or allocates twice, ours runs to the end with all invariants."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paictl.scheduler.decision import Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth
from paictl.scheduler.invariants import validate
from paictl.scheduler.replay import Replayer
from paictl.scheduler.request import PodRequest
from tests.golden.support import GOLDEN, load_spec, replayer

DEFECTS = GOLDEN / "defects"


def sequences() -> list[str]:
    return sorted(path.name for path in DEFECTS.glob("*.jsonl"))


def config_of(name: str) -> Path:
    """As the folder's README says: listed, or the suffix, or the YAML of the same name, or ``small.yaml``."""
    listed = {item["trace"]: item["config"] for item in json.loads((DEFECTS / "crashes.json").read_text())}
    if name in listed:
        return DEFECTS / str(listed[name])
    stem, *suffix = name.removesuffix(".jsonl").split(".")
    if suffix:
        return DEFECTS / f"{suffix[0]}.yaml"
    own = DEFECTS / f"{stem}.yaml"
    return own if own.exists() else DEFECTS / "small.yaml"


def operations(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DEFECTS / name).read_text().splitlines() if line.strip()]


def play(name: str) -> tuple[Replayer, list[dict[str, Any]]]:
    player = replayer(config_of(name), check=lambda engine: validate(engine.state))
    return player, [player.run(operation) for operation in operations(name)]


def devices_of(player: Replayer) -> list[tuple[str, int]]:
    pods = player.run({"op": "status", "view": "pods"})["pods"]
    return [(pod["node"], device) for pod in pods for device in pod["devices"]]


def free_quota_requests(engine: Engine) -> list[PodRequest]:
    """One request for each preassigned cell that nobody uses, as large as it."""
    state, out = engine.state, []
    for root, top in state.virtual.preassigned.items():
        if not state.counts.used[root]:
            chain, level = state.virtual.chains[state.virtual.chain[root]], state.virtual.level[root]
            size = chain.leaves[min(level, chain.node_level)]
            members = ((size, chain.leaves[level] // size),)
            out.append(
                PodRequest(
                    "in-quota",
                    "default/in-quota",
                    top.vc,
                    0,
                    size,
                    "in-quota",
                    members,
                    leaf_type=chain.leaf_type,
                    pinned_id=top.pinned_id or "",
                )
            )
    return out


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("name", sequences())
def test_free_quota_is_served_once_the_hardware_is_healthy(name: str) -> None:
    player, _ = play(name)
    for node in player.engine.state.physical.nodes:
        player.run({"op": "node", "name": node, "healthy": True})
    for request in free_quota_requests(player.engine):
        decision = player.engine.plan(request)
        assert not isinstance(decision, Wait), f"{request.vc} has to wait for its quota: {decision.reason}"


@pytest.mark.parametrize("name", sequences())
@pytest.mark.usefixtures("shared")
def test_runs_to_the_end_and_leaves_nothing_behind(name: str) -> None:
    player, _ = play(name)
    devices = devices_of(player)
    assert len(devices) == len(set(devices)), "a device is allocated twice"
    for uid in list(player.book.pods):
        player.run({"op": "delete_allocated", "uid": uid})
    fresh = Engine(player.spec)
    for node in fresh.state.physical.nodes:
        player.run({"op": "node", "name": node, "healthy": True})
        fresh.observe(NodeHealth(node, healthy=True))
    assert player.engine.state.digest() == fresh.state.digest()


def test_a_chain_without_vc_starts(shared: Path) -> None:
    validate(Engine(load_spec(shared / "golden/defects/RC12-chain-without-vc.yaml")).state)


@pytest.mark.usefixtures("shared")
def test_nobody_is_lazily_preempted_for_a_pod_that_never_binds() -> None:
    player, results = play("RC15-lazy-preempted-for-a-pod-that-never-binds.jsonl")
    assert results[-2]["groups"][0]["status"].get("lazyPreemptionStatus") is None
    assert results[-1]["r"] == "bind"
    assert player.engine.state.groups.by_name["g1"].virtual is not None


@pytest.mark.usefixtures("shared")
def test_a_lazily_preempted_group_is_promoted_back_where_that_is_wanted() -> None:
    name = "RC16-lazy-preempted-never-promoted-back.jsonl"
    spec = replace(load_spec(config_of(name)), lazy_preemption_recovery=True)
    player = Replayer(spec, check=lambda engine: validate(engine.state))
    for operation in operations(name):
        player.run(operation)
    group = player.engine.state.groups.by_name["g1"]
    assert (group.preemptor, group.virtual is not None) == (None, True)
