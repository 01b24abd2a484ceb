"""Writes allocations to ResourceClaims and takes them back, so that either may be repeated after any interruption.

Two writes each, because the API server takes metadata and status by different paths: first the finalizer, then the
allocation; taken back in the reverse order. A process that dies between them leaves a claim that is protected but not
allocated, which the next attempt completes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from paictl.cluster.devices.claims import FINALIZER, ClaimError, ResourceClaim, Result, allocation_body, read_claim
from paictl.cluster.devices.ledger import ClaimLedger
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError

API: Final = "/apis/resource.k8s.io/v1"
_ATTEMPTS: Final = 4
"""Times that a claim which changes meanwhile is read again before the caller has to try later."""


def claim_path(namespace: str, name: str, part: str = "") -> str:
    """The path of a claim, or of a subresource of it."""
    path = f"{API}/namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"
    return f"{path}/{part}" if part else path


class ClaimWriter:
    """Writes for one process that leads. Safe to use from many threads."""

    def __init__(
        self, client: KubeClient, ledger: ClaimLedger, wall: Callable[[], float], *, reserves: bool = False
    ) -> None:
        self.client = client
        self.reserves = reserves
        """Whether it reserves a claim for its pod as well, because it binds the pod itself; kube-scheduler does not."""
        self.ledger = ledger
        self.wall = wall

    def made(self, body: Json, timeout: float) -> ResourceClaim:
        """A claim as it is to be, made unless it is there already. Raises `KubeError`."""
        about = body["metadata"]
        path = claim_path(about["namespace"], about["name"])
        try:
            return self._noted(self.client.request("POST", path.rpartition("/")[0], body, timeout=timeout))
        except KubeError as error:
            if error.status != 409:
                raise
        return self._noted(self.client.get(path, timeout=timeout))

    def allocate(
        self, claim: ResourceClaim, results: Sequence[Result], node: str, pod: Mapping[str, Any], timeout: float
    ) -> None:
        """Make a claim of a pod hold these devices and no others.

        Raises `ClaimError` if another claim has one of them, or this one is in use with others; `KubeError`.
        """
        if problem := self.ledger.promise(claim, results):
            raise ClaimError(problem)
        try:
            self._allocate(claim, tuple(results), node, pod, timeout)
        finally:
            self.ledger.settle(claim, results)

    def _allocate(
        self, claim: ResourceClaim, results: tuple[Result, ...], node: str, pod: Mapping[str, Any], timeout: float
    ) -> None:
        uid = claim.uid
        for _ in range(_ATTEMPTS):
            if claim.deleting or claim.uid != uid:
                raise ClaimError(f"claim {claim.key} is being deleted")
            if claim.results is not None and claim.results != results:
                self._check_unused(claim)
                changed = self._free(claim, timeout)
            elif claim.results is None and not claim.protected:
                changed = self._write_finalizers(claim, (*claim.finalizers, FINALIZER), timeout)
            elif claim.results is None:
                status = {"allocation": allocation_body(results, node, self.wall()), **self._reservation(pod)}
                changed = self._write_status(claim, status, timeout)
            elif self.reserves and pod["metadata"]["uid"] not in claim.reserved:
                changed = self._write_status(claim, self._reservation(pod), timeout)
            else:
                return
            claim = changed or self._read(claim, timeout)
        if claim.results != results:
            raise ClaimError(f"claim {claim.key} keeps changing")

    def take_back(self, claim: ResourceClaim, timeout: float) -> None:
        """Free the devices of a claim that no pod uses; nothing happens to one that is free.

        A claim that has changed since is left alone: the caller has to look again whether it is needed. Raises
        `ClaimError` if a pod uses it, `KubeError`.
        """
        self._check_unused(claim)
        if claim.results is not None:
            changed = self._free(claim, timeout)
            if changed is None:
                return
            claim = changed
        if claim.protected:
            rest = tuple(finalizer for finalizer in claim.finalizers if finalizer != FINALIZER)
            self._write_finalizers(claim, rest, timeout)

    def _check_unused(self, claim: ResourceClaim) -> None:
        if set(claim.reserved) - ({claim.owner} if self.reserves else set()):
            held = ", ".join(result.device[2] for result in claim.results or ())
            raise ClaimError(f"claim {claim.key} holds other devices ({held}) and is in use")

    def _reservation(self, pod: Mapping[str, Any]) -> Json:
        about = pod["metadata"]
        user = {"resource": "pods", "name": about["name"], "uid": about["uid"]}
        return {"reservedFor": [user]} if self.reserves else {}

    def _free(self, claim: ResourceClaim, timeout: float) -> ResourceClaim | None:
        return self._write_status(
            claim, {"allocation": None, **({"reservedFor": None} if self.reserves else {})}, timeout
        )

    def _write_status(self, claim: ResourceClaim, status: Json, timeout: float) -> ResourceClaim | None:
        return self._patch(claim, "status", {"status": status}, timeout)

    def _write_finalizers(
        self, claim: ResourceClaim, finalizers: Sequence[str], timeout: float
    ) -> ResourceClaim | None:
        return self._patch(claim, "", {"metadata": {"finalizers": list(finalizers)}}, timeout)

    def _patch(self, claim: ResourceClaim, part: str, body: Json, timeout: float) -> ResourceClaim | None:
        """The claim after a write; None if it has changed since it was read, or is gone."""
        about = {"uid": claim.uid, "resourceVersion": claim.version, **body.get("metadata", {})}
        path = claim_path(claim.namespace, claim.name, part)
        try:
            answer = self.client.request("PATCH", path, {**body, "metadata": about}, kind=MERGE, timeout=timeout)
        except KubeError as error:
            if error.status not in (404, 409):
                raise
            return None
        return self._noted(answer)

    def _read(self, claim: ResourceClaim, timeout: float) -> ResourceClaim:
        try:
            return self._noted(self.client.get(claim_path(claim.namespace, claim.name), timeout=timeout))
        except KubeError as error:
            if error.status == 404:
                self.ledger.remove(claim.key, claim.uid)
                raise ClaimError(f"claim {claim.key} is gone") from None
            raise

    def _noted(self, body: Json) -> ResourceClaim:
        claim = read_claim(body)
        self.ledger.change(claim)
        return claim
