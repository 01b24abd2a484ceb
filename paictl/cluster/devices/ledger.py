"""All ResourceClaims, and who holds which device: by the API server, and by writes that are under way.

Invariant: a device is promised to one claim at a time. It is checked against every allocated claim that the informer
has told of, whoever allocated it, because the API server does not check it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from paictl.cluster.devices.claims import Key, ResourceClaim, Result


class ClaimLedger:
    """Claims by name and by pod, and the holders of devices. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: dict[str, ResourceClaim] = {}
        self._owned: dict[str, set[str]] = {}
        """Keys of the claims that were made for a pod, by its uid."""
        self._holders: dict[Key, set[str]] = {}
        """Keys of the claims to which a device is allocated."""
        self._promised: dict[Key, str] = {}
        """The claim that a device is being written to."""
        self._leaving: dict[str, float] = {}
        """Pods that are gone while claims of theirs still hold devices, by uid, and since when."""

    def change(self, claim: ResourceClaim) -> None:
        """A claim is like this now; older news than what is known is dropped."""
        with self._lock:
            known = self._claims.get(claim.key)
            if known is not None and known.uid == claim.uid and _is_older(claim.version, known.version):
                return
            self._drop(claim.key)
            self._claims[claim.key] = claim
            if claim.owner:
                self._owned.setdefault(claim.owner, set()).add(claim.key)
            for result in claim.results or ():
                self._holders.setdefault(result.device, set()).add(claim.key)
            self._check_leaving(claim.owner)

    def remove(self, key: str, uid: str = "") -> None:
        """A claim is gone; another one of its name may be there already."""
        with self._lock:
            known = self._claims.get(key)
            if known is not None and uid in ("", known.uid):
                self._drop(key)
                self._check_leaving(known.owner)

    def pod_gone(self, uid: str, now: float) -> None:
        """A pod has ended or was deleted: its claims hold their devices until kube-controller-manager frees them."""
        with self._lock:
            if uid in self._owned:
                self._leaving.setdefault(uid, now)
                self._check_leaving(uid)

    def _check_leaving(self, uid: str) -> None:
        """Forget a pod that is gone once its claims hold nothing any more."""
        if uid in self._leaving and not any(self._claims[key].results for key in self._owned.get(uid, ())):
            del self._leaving[uid]

    @property
    def leaving_since(self) -> float | None:
        """Since when the first of the pods has been gone whose claims still hold devices; None if there is none."""
        with self._lock:
            return min(self._leaving.values(), default=None)

    def leaving(self, devices: Iterable[Key]) -> str:
        """The claim of a pod that is gone which still holds one of these devices; empty if none does."""
        with self._lock:
            for device in devices if self._leaving else ():
                for key in sorted(self._holders.get(device, ())):
                    if self._claims[key].owner in self._leaving:
                        return key
            return ""

    def _drop(self, key: str) -> None:
        claim = self._claims.pop(key, None)
        if claim is None:
            return
        if claim.owner:
            self._owned[claim.owner].discard(key)
            if not self._owned[claim.owner]:
                del self._owned[claim.owner]
        for result in claim.results or ():
            holders = self._holders.get(result.device)
            if holders is not None:
                holders.discard(key)
                if not holders:
                    del self._holders[result.device]

    def get(self, key: str) -> ResourceClaim | None:
        """A claim by namespace and name."""
        with self._lock:
            return self._claims.get(key)

    def of_pod(self, uid: str) -> list[ResourceClaim]:
        """The claims that were made for a pod."""
        with self._lock:
            return [self._claims[key] for key in sorted(self._owned.get(uid, ()))]

    def allocated(self) -> list[ResourceClaim]:
        """All claims that hold devices."""
        with self._lock:
            keys = {key for holders in self._holders.values() for key in holders}
            return [self._claims[key] for key in sorted(keys)]

    def holders(self, device: Key) -> list[ResourceClaim]:
        """The claims to which a device is allocated."""
        with self._lock:
            return [self._claims[key] for key in sorted(self._holders.get(device, ()))]

    def doubled(self) -> list[tuple[Key, tuple[str, ...]]]:
        """Devices that several claims hold, which must never be, and those claims."""
        with self._lock:
            return sorted((device, tuple(sorted(keys))) for device, keys in self._holders.items() if len(keys) > 1)

    def promise(self, claim: ResourceClaim, results: Sequence[Result]) -> str:
        """Set devices aside for a write; if another claim has one of them: which, and nothing is set aside."""
        with self._lock:
            for result in results:
                others = self._holders.get(result.device, set()) - {claim.key}
                if (writer := self._promised.get(result.device, claim.key)) != claim.key:
                    others = others | {writer}
                if others:
                    driver, pool, name = result.device
                    return f"device {name} of {pool} ({driver}) is held by claim {' and '.join(sorted(others))}"
            for result in results:
                self._promised[result.device] = claim.key
            return ""

    def settle(self, claim: ResourceClaim, results: Iterable[Result]) -> None:
        """A write has ended, one way or the other."""
        with self._lock:
            for result in results:
                if self._promised.get(result.device) == claim.key:
                    del self._promised[result.device]


def _is_older(version: str, other: str) -> bool:
    """Whether a resource version is older than another (numbers, and comparable since Kubernetes 1.35)."""
    return version.isdigit() and other.isdigit() and int(version) < int(other)
