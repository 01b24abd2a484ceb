"""Carrying out for real what an explanation only imagined, and watching the pod until it binds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Book
from paictl.scheduler.decision import Bind, Decision, Phase, Preempt
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import LeafHealth, NodeHealth, PodGone
from paictl.scheduler.explain.data import Change, ChangeKind, QuotaIncrease
from paictl.scheduler.replay import Replayer
from paictl.scheduler.snapshot import dump, restore

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from tests.unit.scheduler.scenarios.world import Json, World

Suggested = list[str] | None


def copied(engine: Engine) -> Engine:
    """Another engine in the same state."""
    return restore(engine.spec, dump(engine))


def end(engine: Engine, names: list[str]) -> None:
    """All pods of some groups are deleted."""
    for name in names:
        group = engine.state.groups.by_name.get(name)
        for uid in [uid for pods in group.pods for uid in pods if uid] + sorted(group.preempting) if group else []:
            engine.observe(PodGone(uid))


def with_quota(config: Json, quota: QuotaIncrease) -> Json:
    """The configuration with more cells for a VC, written as an administrator would."""
    spec = ClusterSpec.from_mapping(config)
    path, below = [quota.chain], quota.chain
    while below != quota.cell_type:
        below = spec.cell_types[below].child_type
        path.append(below)
    clusters = config["virtualClusters"]
    cells = [*(clusters[quota.vc].get("virtualCells") or []), {"cellType": ".".join(path), "cellNumber": quota.number}]
    return {**config, "virtualClusters": {**clusters, quota.vc: {**clusters[quota.vc], "virtualCells": cells}}}


def carried_out(world: World, config: Json, change: Change, request: PodRequest) -> tuple[Engine, PodRequest]:
    """A copy of the world's engine on which a change has happened, and the request as changed."""
    if change.quota is not None:
        return restarted(world, with_quota(config, change.quota)), request
    return changed_engine(world.replayer.engine, change, request)


def changed_engine(old: Engine, change: Change, request: PodRequest) -> tuple[Engine, PodRequest]:
    """A copy of an engine on which a change other than of quota has happened, and the request as changed."""
    engine = copied(old)
    engine.sparing = old.sparing
    match change.kind:
        case ChangeKind.END:
            end(engine, [one.group for one in change.groups])
        case ChangeKind.HEAL:
            for name in change.nodes:
                engine.observe(NodeHealth(name, healthy=True))
            for name, device in change.devices:
                engine.observe(LeafHealth(name, device, healthy=True))
        case ChangeKind.PRIORITY:
            assert change.priority is not None
            request = replace(request, priority=change.priority)
        case ChangeKind.OPPORTUNISTIC:
            request = replace(request, priority=-1, pinned_id="")
        case ChangeKind.SIZE:
            ((leaves, _),) = change.members
            request = replace(request, leaf_number=leaves, members=change.members)
        case ChangeKind.ANY_NODE:
            request = replace(request, ignore_suggested=True)
    return engine, request


def restarted(world: World, config: Json) -> Engine:
    """The engine after a restart of the process with another configuration."""
    old = world.replayer
    replayer = Replayer(old.spec, load=lambda _: ClusterSpec.from_mapping(config))
    replayer.book = Book(copied(old.engine))
    replayer.book.resume(old.book.pods, old.book.health, old.book.bad_devices)
    replayer.run({"op": "restart", "config": "new"})
    return replayer.engine


def waits(engine: Engine, request: PodRequest, suggested: Suggested) -> bool:
    """Whether a request waits for room, or is refused."""
    try:
        return not isinstance(engine.plan(request, suggested), Bind | Preempt)
    except RequestError:
        return True


def run(engine: Engine, request: PodRequest, suggested: Suggested) -> tuple[list[str], Bind]:
    """Schedule a pod as kube-scheduler would, preempting if need be; returns the groups that fell and the binding."""
    decision: Decision = engine.plan(request, suggested)
    fell: list[str] = []
    if isinstance(decision, Preempt):
        decision = engine.plan(request, suggested, Phase.PREEMPTING)
        assert isinstance(decision, Preempt)
        engine.apply(decision)
        groups = engine.state.groups
        uids = [uid for _, pods in decision.victims for uid in pods]
        fell = sorted({groups.slots[uid][0] for uid in uids})
        for uid in uids:
            engine.observe(PodGone(uid))
        decision = engine.plan(request, suggested)
    assert isinstance(decision, Bind), f"{request} does not bind: {decision}"
    engine.apply(decision)
    assert request.uid in engine.state.groups.slots
    return fell, decision
