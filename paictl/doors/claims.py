"""Claims through a door: what the API server says about slices and claims, and allocations that nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from paictl.cluster.devices.claims import ResourceClaim, read_claim
from paictl.cluster.devices.pod_claims import PodClaims
from paictl.cluster.devices.support import TAINT_RULES
from paictl.cluster.devices.writing import API
from paictl.doors.core import DoorCore
from paictl.doors.following import following
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.informer import Informer, InformerTimes
from paictl.scheduler.decision import Bind
from paictl.scheduler.request import PodRequest
from paictl.scheduler.state import State

SHOWN: Final = 3
"""Findings in one line."""


def promised_indexes(state: State) -> dict[str, tuple[int, ...]]:
    """Indexes of the devices that the cells of each node promise, in the order of the configuration."""
    tree = state.physical
    return {
        name: tuple(sorted(tree.device(leaf) for cell in cells for leaf in tree.leaves(cell)))
        for name, cells in tree.nodes.items()
    }


def informers(
    client: KubeClient, core: DoorCore, claims: PodClaims, synced: Callable[[], None], times: InformerTimes | None
) -> tuple[Informer, ...]:
    """Those that keep slices, rules and claims up to date and tell the core; `synced` is called after each list."""

    def claim_changed(body: Json) -> None:
        claim = read_claim(body)
        nodes = claims.nodes_of(claims.ledger.get(claim.key)) | claims.nodes_of(claim)
        claims.ledger.change(claim)
        core.claims_changed(claim.owner, nodes)

    def claim_gone(key: str, uid: str) -> None:
        nodes = claims.nodes_of(claims.ledger.get(key))
        claims.ledger.remove(key, uid)
        core.claims_changed("", nodes)

    directory = claims.directory
    made = [
        following(client, f"{API}/resourceslices", directory.slice_changed,
                  lambda key, _uid: directory.slice_gone(key), synced, times=times),
        following(client, f"{API}/resourceclaims", claim_changed, claim_gone, synced, times=times),
    ]  # fmt: skip
    if claims.options.taint_rules:
        made.append(
            following(client, f"{API}/{TAINT_RULES}", directory.rule_changed,
                      lambda key, _uid: directory.rule_gone(key), synced, times=times)
        )  # fmt: skip
    return tuple(made)


def summary(core: DoorCore) -> str:
    """What contradicts the configuration, the first few findings; empty if nothing does or nothing is known yet."""
    if core.claims is None or not core.is_open:
        return ""
    found = [*core.claims.directory.findings(), *core.claims.directory.tainted()]
    more = f" (and {len(found) - SHOWN} more)" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def unfreed(core: DoorCore, request: PodRequest, offered: Collection[str] | None) -> str:
    """Which claim still holds devices of the place that a pod and its gang would get now; empty if none does.

    A gang that was bound meanwhile would run in part: the pods on devices that are free, without the others.
    Raises `RequestError`.
    """
    known, engine = core.book.pods.get(request.uid), core.book.engine
    if (
        core.claims is None
        or core.claims.ledger.leaving_since is None
        or (known is not None and known.info is not None)
    ):
        return ""
    decision = engine.plan(request, offered)
    if not isinstance(decision, Bind):
        return ""
    places = (pod for member in engine.bind_info(decision).members for pod in member)
    return core.claims.leaving((pod.node, pod.devices) for pod in places)


def given_up(core: DoorCore) -> list[ResourceClaim]:
    """Allocated claims of pods that wait and have no place for these devices any more.

    Each pod counts as being bound until `settled`, so that no place is decided for it meanwhile.
    """
    if core.claims is None:
        return []
    claims = []
    with core.guarded():
        for claim in core.claims.held() if core.is_open else ():
            entry, known = core.table.by_uid.get(claim.owner), core.book.pods.get(claim.owner)
            if entry is None or entry.binding or not core.waits_for_devices(entry):
                continue
            if known is None or known.info is None or not core.claims.fits(claim, known.info.node, known.info.devices):
                entry.binding = True
                claims.append(claim)
    return claims


def settled(core: DoorCore, found: Iterable[ResourceClaim]) -> None:
    """The devices of these claims were taken back, or that failed and is tried again."""
    with core.guarded():
        for claim in found:
            entry = core.table.by_uid.get(claim.owner)
            if entry is not None:
                entry.binding = False
        core.claims_changed()
