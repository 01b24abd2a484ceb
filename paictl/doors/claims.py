"""ResourceClaims of pods that come through a door, and the informers that keep a core up to date with them.

Slices and claims are as the API server has them; allocations that are no longer needed are given up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from paictl.cluster.devices.claims import ResourceClaim, read_claim
from paictl.cluster.devices.pod_claims import PodClaims
from paictl.cluster.devices.support import TAINT_RULES
from paictl.cluster.devices.writing import API
from paictl.doors.core import DoorCore, NotServingError
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.informer import Informer, InformerTimes
from paictl.scheduler.decision import Bind
from paictl.scheduler.request import PodRequest
from paictl.scheduler.state import State


def following(
    client: KubeClient,
    path: str,
    change: Callable[[Json], None],
    remove: Callable[[str, str], None],
    synced: Callable[[], None],
    *,
    query: Mapping[str, str] | None = None,
    times: InformerTimes | None = None,
) -> Informer:
    """An informer that passes on changed objects and removed ones (key, uid), and calls `synced` after each list."""
    listener = _Listener(change, remove, synced)
    informer = Informer(client, path, listener, query=query, times=times)
    listener.informer = informer
    return informer


@dataclass(slots=True)
class _Listener:
    """Passes news on to a core; a broken core has reported that already, and its errors are dropped."""

    change: Callable[[Json], None]
    remove: Callable[[str, str], None]
    on_list: Callable[[], None]
    informer: Informer | None = None

    def changed(self, body: Json) -> None:
        with suppress(NotServingError):
            self.change(body)

    def gone(self, key: str, uid: str) -> None:
        with suppress(NotServingError):
            self.remove(key, uid)

    def synced(self) -> None:
        assert self.informer is not None  # noqa: S101 - it calls this
        self.informer.ready.set()
        with suppress(NotServingError):
            self.on_list()


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
    """The informers that keep slices, rules and claims up to date in the core; `synced` is called after each list."""

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
    followers = [
        following(
            client,
            f"{API}/resourceslices",
            directory.slice_changed,
            lambda key, _uid: directory.slice_gone(key),
            synced,
            times=times,
        ),
        following(client, f"{API}/resourceclaims", claim_changed, claim_gone, synced, times=times),
    ]
    if claims.options.taint_rules:
        followers.append(
            following(
                client,
                f"{API}/{TAINT_RULES}",
                directory.rule_changed,
                lambda key, _uid: directory.rule_gone(key),
                synced,
                times=times,
            )
        )
    return tuple(followers)


def summary(core: DoorCore) -> str:
    """The first few findings that contradict the configuration; empty if there are none or nothing is known yet."""
    if core.claims is None or not core.is_open:
        return ""
    findings = [*core.claims.directory.findings(), *core.claims.directory.tainted()]
    more = f" (and {len(findings) - SHOWN} more)" if len(findings) > SHOWN else ""
    return "; ".join(findings[:SHOWN]) + more


def unfreed(core: DoorCore, request: PodRequest, offered: Collection[str] | None) -> str:
    """The claim that still holds devices of the place that a pod and its gang would get now; empty if none does.

    If the gang were bound now, only a part of it would run: the pods on devices that are already free. Raises
    `RequestError`.
    """
    booked, engine = core.book.pods.get(request.uid), core.book.engine
    if (
        core.claims is None
        or core.claims.ledger.leaving_since is None
        or (booked is not None and booked.info is not None)
    ):
        return ""
    decision = engine.plan(request, offered)
    if not isinstance(decision, Bind):
        return ""
    places = (pod for member in engine.bind_info(decision).members for pod in member)
    return core.claims.leaving((pod.node, pod.devices) for pod in places)


def given_up(core: DoorCore) -> list[ResourceClaim]:
    """Allocated claims of waiting pods whose place no longer matches these devices.

    Each pod counts as being bound until `settled`, so that no place is decided for it in the meantime.
    """
    if core.claims is None:
        return []
    claims = []
    with core.guarded():
        for claim in core.claims.held() if core.is_open else ():
            entry, booked = core.table.by_uid.get(claim.owner), core.book.pods.get(claim.owner)
            if entry is None or entry.binding or not core.waits_for_devices(entry):
                continue
            if (
                booked is None
                or booked.info is None
                or not core.claims.fits(claim, booked.info.node, booked.info.devices)
            ):
                entry.binding = True
                claims.append(claim)
    return claims


def settled(core: DoorCore, claims: Iterable[ResourceClaim]) -> None:
    """The devices of these claims were taken back, or that failed and will be retried."""
    with core.guarded():
        for claim in claims:
            entry = core.table.by_uid.get(claim.owner)
            if entry is not None:
                entry.binding = False
        core.claims_changed()
