"""The claims of a pod, from the question whether it can be placed to the allocation of the devices decided for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from paictl.cluster.devices.claims import MOST, ClaimError, ResourceClaim, assign, check_requests, claim_names
from paictl.cluster.devices.directory import DeviceDirectory
from paictl.cluster.devices.extended import ExtendedClaim, claim_body, extended_claim, status_patch
from paictl.cluster.devices.ledger import ClaimLedger
from paictl.cluster.devices.slices import OfferedDevice
from paictl.cluster.devices.writing import ClaimWriter
from paictl.cluster.pods.feasibility import NodeFacts
from paictl.cluster.pods.labels import pod_limit
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube import pods
from paictl.remote.kube.client import MERGE, KubeClient

FREEING: Final = 3.0
"""Seconds that kube-controller-manager may take to free the claims of a pod that is gone before others are told."""


class ClaimPendingError(ClaimError):
    """kube-controller-manager has not made a pod's claim yet, or nobody has told us of it."""


@frozen
class ClaimOptions:
    """Which claims are on cells, and whether pods need one."""

    classes: tuple[str, ...]
    """DeviceClasses whose claims get the devices of cells."""
    drivers: tuple[str, ...]
    required: bool = False
    """Whether a pod without such a claim waits; otherwise it learns its devices from the environment."""
    taint_rules: bool = False
    """Whether DeviceTaintRules can be followed."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Extended resources that stand for one of the classes (DeviceClass, by resource): ``nvidia.com/gpu``, say."""

    def may_claim(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod names claims, or asks for what a claim can be made for."""
        return bool((pod.get("spec") or {}).get("resourceClaims")) or any(
            pod_limit(pod, name) for name in self.resources
        )


class PodClaims:
    """What one door does about claims while it leads. Nothing here waits for a lock of the scheduler."""

    def __init__(
        self,
        client: KubeClient,
        options: ClaimOptions,
        promised: Mapping[str, Sequence[int]],
        wall: Callable[[], float],
        *,
        reserves: bool = False,
    ) -> None:
        self.client = client
        self.options = options
        self.directory = DeviceDirectory(promised, options.drivers)
        self.ledger = ClaimLedger()
        self.writer = ClaimWriter(client, self.ledger, wall, reserves=reserves)

    def obstacle(self, pod: Mapping[str, Any], number: int) -> str:
        """Why a pod with so many leaf cells cannot be placed whatever is free; empty if it can.

        Raises `ClaimPendingError` while its claims are being made.
        """
        try:
            mine = self._claims(pod)
            asked = None if mine else extended_claim(pod, self.options.resources)
            if mine:
                check_requests(mine, str(pod["metadata"]["uid"]), number, self.options.classes)
            elif self.options.required and asked is not None and self.writer.reserves:
                _check_extended(asked, number)
            elif self.options.required:
                raise ClaimError(self._missing(number, asked))
        except ClaimPendingError:
            raise
        except ClaimError as error:
            return error.message
        return ""

    def _missing(self, number: int, asked: ExtendedClaim | None) -> str:
        """What a pod that gets no claim of ours has to be told."""
        classes = " or ".join(self.options.classes)
        message = f"the pod has no claim on {number} devices of class {classes} in spec.resourceClaims"
        if asked is None:
            return message
        names = " and ".join({use.resource: None for use in asked.uses})
        return f"{message}, and for {names} alone kube-scheduler would choose devices outside its cells"

    def offering(self, node: str, facts: NodeFacts) -> NodeFacts:
        """The facts of a node with the resources for which claims are made there."""
        count = len(self.directory.of(node).devices) if self.writer.reserves and self.options.resources else 0
        more = {name: 1000 * count for name in self.options.resources if count and not facts.allocatable.get(name)}
        return replace(facts, allocatable={**facts.allocatable, **more}) if more and facts.allocatable else facts

    def _asked(self, pod: Mapping[str, Any], node: str, number: int) -> ExtendedClaim | None:
        """The claim to be made for a pod that names none; None where it asks for none, or a device plugin counts.

        Raises `ClaimError` if it asks for another number of devices than leaf cells, or nobody knows the devices now.
        """
        plugged = self.directory.plugged(node)
        resources = {name: kind for name, kind in self.options.resources.items() if name not in plugged}
        asked = extended_claim(pod, resources)
        if asked is None or not self.writer.reserves:
            return None
        if not self.directory.of(node).devices:
            if self._has_driver(node):
                raise ClaimError(f"node {node} publishes no devices now: its kubelet or its driver is starting")
            return None
        _check_extended(asked, number)
        return asked

    def _has_driver(self, node: str) -> bool:
        """Whether devices of a node come by claims, also while it publishes none.

        A kubelet that starts deletes the slices of its node, and the driver publishes them again seconds later.
        """
        return self.options.required or (self.directory.recorded(node) and not self._counts_plugin(node))

    def _counts_plugin(self, node: str) -> bool:
        return not self.directory.plugged(node).isdisjoint(self.options.resources)

    def _tell_pod(self, pod: Mapping[str, Any], asked: ExtendedClaim, timeout: float) -> None:
        """Write into a pod's status which container has which devices of its claim. Raises `KubeError`."""
        about = pod["metadata"]
        path = f"{pods.pod_path(about['namespace'], about['name'])}/status"
        self.client.request("PATCH", path, status_patch(pod, asked.uses), kind=MERGE, timeout=timeout)

    def _claims(self, pod: Mapping[str, Any]) -> list[ResourceClaim]:
        """The claims of a pod on devices of cells. Raises `ClaimPendingError` if some are not known yet."""
        claims = []
        for name, claim_name in claim_names(pod).items():
            claim = self.ledger.get(f"{pod['metadata']['namespace']}/{claim_name}") if claim_name else None
            if claim is None:
                raise ClaimPendingError(f"pod waits for kube-controller-manager to create its claim {name}")
            if claim.asks(self.options.classes):
                claims.append(claim)
        return claims

    def write(self, pod: Mapping[str, Any], node: str, indexes: Sequence[int], timeout: float) -> str:
        """Allocate the devices of these leaf cells to a pod's claims; why that failed, empty if it is done."""
        try:
            mine = self._claims(pod)
            asked = None if mine else self._asked(pod, node, len(indexes))
            if asked is not None:
                mine = [self.writer.made(claim_body(pod, asked), timeout)]
            if not mine:
                return ""
            check_requests(mine, str(pod["metadata"]["uid"]), len(indexes), self.options.classes)
            assigned = assign(mine, self._devices(node, indexes), self.options.classes)
            self.directory.keep_record(self.client, node, timeout)
            for claim, results in assigned:
                self.writer.allocate(claim, results, node, pod, timeout)
            if asked is not None:
                self._tell_pod(pod, asked, timeout)
        except PaictlError as error:
            return error.message
        return ""

    def _devices(self, node: str, indexes: Sequence[int]) -> list[OfferedDevice]:
        known = self.directory.of(node)
        for index in indexes:
            if index in known.bad or index not in known.devices:
                raise ClaimError(
                    f"device {index} of node {node} cannot be used: {known.bad.get(index, 'there is none')}"
                )
        return [known.devices[index] for index in indexes]

    def leaving(self, places: Iterable[tuple[str, Sequence[int]]]) -> str:
        """Which of these devices is still held by the claim of a pod that is gone; empty if none is.

        kube-controller-manager frees devices a moment after their pod has gone, or later where it is down.
        """
        if self.ledger.leaving_since is None:
            return ""
        for node, indexes in places:
            devices = self.directory.of(node).devices
            for index in indexes:
                if index in devices and self.ledger.leaving([devices[index].key]):
                    # not the claim: its name tells that of the pod, which may be another tenant's
                    what = f"device {index} of node {node}"
                    return f"pod waits for kube-controller-manager to free {what}, whose pod is gone"
        return ""

    def frees_by_itself(self, now: float) -> bool:
        """Whether what `leaving` waits for is over in a moment, as far as anybody can know: nobody needs to be told."""
        since = self.ledger.leaving_since
        return since is None or now - since < FREEING

    def disagreement(self, uid: str, node: str, indexes: Sequence[int]) -> str:
        """How a placed pod's claims differ from its annotation; empty if they agree or it has none."""
        mine = [claim for claim in self.ledger.of_pod(uid) if claim.asks(self.options.classes)]
        if not mine:
            return ""
        held = {result.device for claim in mine for result in claim.results or ()}
        devices = self.directory.of(node).devices
        noted = {devices[index].key for index in indexes if index in devices}
        if held == noted:
            return ""
        held_names = ", ".join(sorted(name for _, _, name in held)) or "nothing"
        return f"its annotation names {_named(indexes)} of node {node}, but its claims hold {held_names}"

    def bad_on(self, node: str, is_ours: Callable[[str], bool]) -> Mapping[int, str]:
        """Indexes of the leaf cells of a node that no pod can have now, and why.

        Also those whose device kube-scheduler has given to a claim of a pod (uid) that is not ours. Where pods may also
        learn their devices from the environment, a node that never had devices is not judged: no driver may run there
        on purpose.
        """
        known = self.directory.of(node)
        taken = {
            index: f"device {device.name} is held by claim {claim.key}, which asked for no cells"
            for index, device in known.devices.items()
            for claim in self.ledger.holders(device.key)
            if index not in known.bad and not (claim.owner and is_ours(claim.owner))
        }
        return {**known.bad, **taken} if known.devices or self._has_driver(node) else {}

    def nodes_of(self, claim: ResourceClaim | None) -> set[str]:
        """The nodes whose devices a claim holds."""
        devices = [result.device for result in claim.results or ()] if claim is not None else []
        return {node for driver, pool, _ in devices if (node := self.directory.node_of(driver, pool))}

    def held(self) -> list[ResourceClaim]:
        """Claims on cells that hold devices for one pod alone: an allocation that is used, about to be, or given up."""
        return [
            claim
            for claim in self.ledger.allocated()
            if claim.owner
            and set(claim.reserved) <= {claim.owner}
            and not claim.deleting
            and claim.asks(self.options.classes)
        ]

    def fits(self, claim: ResourceClaim, node: str, indexes: Sequence[int]) -> bool:
        """Whether a claim holds just what it should for its pod's place."""
        mine = [candidate for candidate in self.ledger.of_pod(claim.owner) if candidate.asks(self.options.classes)]
        try:
            assigned = assign(mine, self._devices(node, indexes), self.options.classes)
        except ClaimError:
            return False
        return any(candidate.key == claim.key and claim.results == results for candidate, results in assigned)


def _check_extended(asked: ExtendedClaim, number: int) -> None:
    if asked.devices != number:
        raise ClaimError(f"the pod asks for {number} leaf cells, but for {asked.devices} devices; make them equal")
    if asked.devices > MOST:
        raise ClaimError(f"a pod without claims of its own can have {MOST} devices; use several claims")


def _named(indexes: Sequence[int]) -> str:
    return f"device{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
