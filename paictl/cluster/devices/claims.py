"""ResourceClaims: what they ask for, what they hold, and the allocation that gives a pod's devices to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from paictl.cluster.devices.slices import OfferedDevice
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import Json

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim until its devices are free; kube-controller-manager removes it when the pod has ended."""
MOST: Final = 32
"""Results of one claim, by the API's validation."""
Key = tuple[str, str, str]
"""Driver, pool and name of a device."""


class ClaimError(PaictlError):
    """A pod's claims cannot be given what was decided; the message says what to change."""


@frozen
class DeviceRequest:
    """One request of a claim."""

    name: str
    class_name: str
    """Empty for a request with alternatives (``firstAvailable``)."""
    count: int
    strange: str = ""
    """What a request says that an allocation of ours would not respect; empty if nothing."""


@frozen
class Result:
    """A device of an allocation, and the request that it is for."""

    request: str
    device: Key


@frozen
class ResourceClaim:
    """A ResourceClaim as the API server has it."""

    namespace: str
    name: str
    uid: str
    version: str
    owner: str
    """Uid of the pod that it was made for; empty if anybody may use it."""
    requests: tuple[DeviceRequest, ...]
    results: tuple[Result, ...] | None
    """None if it is not allocated."""
    reserved: tuple[str, ...]
    """Uids of the pods that may use it now."""
    protected: bool
    """Whether it has our finalizer."""
    finalizers: tuple[str, ...]
    deleting: bool

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    def asks(self, classes: Collection[str]) -> bool:
        """Whether some of its requests are for one of these classes."""
        return any(request.class_name in classes for request in self.requests)


def read_claim(body: Mapping[str, Any]) -> ResourceClaim:
    """A claim from its object."""
    about, status = body["metadata"], body.get("status") or {}
    allocation = status.get("allocation")
    results = None
    if allocation is not None:
        rows = (allocation.get("devices") or {}).get("results") or ()
        results = tuple(
            Result(str(row["request"]), (row["driver"], row["pool"], row["device"]))
            for row in rows
            if not row.get("adminAccess")  # it only watches the device, which others can have meanwhile
        )
    owner: Mapping[str, Any] = next(
        (reference for reference in about.get("ownerReferences") or () if reference.get("controller")), {}
    )
    finalizers = tuple(map(str, about.get("finalizers") or ()))
    devices = (body.get("spec") or {}).get("devices") or {}
    constrained = "constraints" if devices.get("constraints") else ""
    return ResourceClaim(
        namespace=str(about.get("namespace") or ""),
        name=str(about["name"]),
        uid=str(about["uid"]),
        version=str(about.get("resourceVersion") or ""),
        owner=str(owner.get("uid") or "") if owner.get("kind") == "Pod" else "",
        requests=tuple(_request(request, constrained) for request in devices.get("requests") or ()),
        results=results,
        reserved=tuple(str(consumer.get("uid")) for consumer in status.get("reservedFor") or ()),
        protected=FINALIZER in finalizers,
        finalizers=finalizers,
        deleting=bool(about.get("deletionTimestamp")),
    )


def _request(body: Mapping[str, Any], constrained: str) -> DeviceRequest:
    exactly = body.get("exactly")
    if exactly is None:
        return DeviceRequest(str(body["name"]), "", 0, "firstAvailable")
    strange = constrained
    if exactly.get("allocationMode", "ExactCount") != "ExactCount":
        strange = f"allocationMode {exactly['allocationMode']}"
    elif exactly.get("selectors"):
        strange = "selectors"
    elif exactly.get("adminAccess"):
        strange = "adminAccess"
    return DeviceRequest(str(body["name"]), str(exactly["deviceClassName"]), int(exactly.get("count") or 1), strange)


def claim_names(pod: Mapping[str, Any]) -> dict[str, str]:
    """The claims of a pod: the name in its spec to the claim's own; empty for one that has not been made yet."""
    status = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {str(entry["name"]): str(entry.get("resourceClaimName") or "") for entry in status}
    return {
        str(claim["name"]): str(claim.get("resourceClaimName") or made.get(str(claim["name"]), ""))
        for claim in (pod.get("spec") or {}).get("resourceClaims") or ()
    }


def claiming_part(pod: Mapping[str, Any]) -> Json:
    """What of a pod names it and its claims, and what could ask for devices without naming one."""
    about, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    return {
        "metadata": {key: about.get(key) for key in ("namespace", "name", "uid")},
        "spec": {
            "resourceClaims": spec.get("resourceClaims"),
            **{kind: list(map(_asking_part, spec.get(kind) or ())) for kind in ("initContainers", "containers")},
        },
        "status": {"resourceClaimStatuses": status.get("resourceClaimStatuses")},
    }


def _asking_part(container: Mapping[str, Any]) -> Json:
    return {key: container[key] for key in ("name", "resources", "restartPolicy") if key in container}


def check_requests(claims: Sequence[ResourceClaim], pod_uid: str, number: int, classes: Collection[str]) -> None:
    """Whether a pod's claims on devices of ours fit the number of leaf cells that it asks for.

    Raises `ClaimError` that says which claim and request do not.
    """
    mine = [claim for claim in claims if claim.asks(classes)]
    for claim in mine:
        if claim.owner != pod_uid:
            hint = "claims on cells have to be made for one pod: use resourceClaimTemplateName"
            raise ClaimError(f"claim {claim.key} does not belong to the pod alone; {hint}")
        for request in claim.requests:
            if request.class_name not in classes:
                other = f"request {request.name} of claim {claim.key} is not for {' or '.join(sorted(classes))}"
                raise ClaimError(f"{other}; put it into a claim of its own")
            if request.strange:
                raise ClaimError(
                    f"request {request.name} of claim {claim.key} has {request.strange}, but the scheduler chooses "
                    "devices by cells; remove it and ask for a leaf cell type or pinned cell instead"
                )
        if sum(request.count for request in claim.requests) > MOST:
            raise ClaimError(f"claim {claim.key} asks for more than {MOST} devices; use several claims")
    asked = sum(request.count for claim in mine for request in claim.requests)
    if asked != number:
        raise ClaimError(
            text(
                "the pod asks for {number} leaf cells, but its claims for {devices} devices; make them equal",
                number=number,
                devices=asked,
            )
        )


def assign(
    claims: Sequence[ResourceClaim], devices: Sequence[OfferedDevice], classes: Collection[str]
) -> list[tuple[ResourceClaim, tuple[Result, ...]]]:
    """Give a pod's devices to the requests of its claims, both in order; the results of each claim of ours.

    There must be as many devices as the claims ask for (`check_requests`).
    """
    rest = iter(devices)
    return [
        (
            claim,
            tuple(Result(request.name, next(rest).key) for request in claim.requests for _ in range(request.count)),
        )
        for claim in claims
        if claim.asks(classes)
    ]


def allocation_body(results: Sequence[Result], node: str, now: float) -> Json:
    """``status.allocation`` for some devices of a node.

    With a timestamp of ours: kube-scheduler 1.37 would try to add its own to a field that must not change, and fail
    for ever.
    """
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    listed = [
        {"request": result.request, "driver": result.device[0], "pool": result.device[1], "device": result.device[2]}
        for result in results
    ]
    return {
        "allocationTimestamp": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "devices": {"results": listed},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
