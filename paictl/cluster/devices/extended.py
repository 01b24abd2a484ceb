"""Pods that say ``nvidia.com/gpu: 8`` where a DeviceClass stands for that resource: the claim that is made for them.

A device plugin counts such a resource on its node. Where a driver publishes slices instead (DRAExtendedResource, on
since Kubernetes 1.36), whoever schedules the pod makes one claim for all of its containers and writes into the pod's
status which container has which request of it: that is what the kubelet goes by.
Source: Kubernetes 1.37, ``pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from paictl.cluster.devices.claims import FINALIZER
from paictl.cluster.pods.labels import container_limit
from paictl.frozen import frozen
from paictl.remote.kube.client import Json

MARK: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of such a claim, by which kube-controller-manager and kube-scheduler know it."""
_MOST: Final = 253
"""Characters of an object's name."""


@frozen
class ExtendedRequest:
    """One request of the claim: so many devices of a class."""

    name: str
    class_name: str
    count: int


@frozen
class RequestUse:
    """A container that has the devices of a request, for what it says about a resource."""

    container: str
    resource: str
    request: str


@frozen
class ExtendedClaim:
    """The claim that a pod needs, and who uses it."""

    requests: tuple[ExtendedRequest, ...]
    uses: tuple[RequestUse, ...]

    @property
    def devices(self) -> int:
        """How many there are in all."""
        return sum(request.count for request in self.requests)


def extended_claim(pod: Mapping[str, Any], resources: Mapping[str, str]) -> ExtendedClaim | None:
    """What a pod asks for by resources that classes stand for (resource → DeviceClass); None if by none.

    An init container ends before later ones begin, and so uses the devices of these; for more than they have there is
    a request more. A sidecar before it runs on beside it, and shares none.
    """
    spec = pod.get("spec") or {}
    init = list(spec.get("initContainers") or ())
    every = list(enumerate([*init, *(spec.get("containers") or ())]))
    brief = [
        (index, container)
        for index, container in every
        if index < len(init) and container.get("restartPolicy") != "Always"
    ]
    lasting = [pair for pair in every if pair not in brief]
    requests: list[ExtendedRequest] = []
    uses: list[RequestUse] = []
    for resource, class_name in resources.items():
        own: dict[int, ExtendedRequest] = {}
        for index, container in lasting:
            if count := container_limit(container, resource):
                own[index] = ExtendedRequest(_name(index, container, resource), class_name, count)
                uses.append(RequestUse(str(container["name"]), resource, own[index].name))
        extra: list[ExtendedRequest] = []
        for index, container in brief:
            later = [request for place, request in own.items() if place > index]
            uses += _shared(index, container, resource, class_name, later, extra)
        requests += [*own.values(), *extra]
    return ExtendedClaim(tuple(requests), tuple(uses)) if requests else None


def _shared(
    index: int,
    container: Mapping[str, Any],
    resource: str,
    class_name: str,
    later: Sequence[ExtendedRequest],
    extra: list[ExtendedRequest],
) -> Iterator[RequestUse]:
    """The requests that an init container uses: those of `later` containers, then `extra` ones; one is added if all of
    them are too few."""
    wanted = container_limit(container, resource)
    for request in (*later, *extra):
        if wanted <= 0:
            return
        yield RequestUse(str(container["name"]), resource, request.name)
        wanted -= request.count
    if wanted > 0:
        extra.append(ExtendedRequest(_name(index, container, resource), class_name, wanted))
        yield RequestUse(str(container["name"]), resource, extra[-1].name)


def _name(index: int, container: Mapping[str, Any], resource: str) -> str:
    """As kube-scheduler names it: by the places of the container in the pod and of the resource in its requests."""
    resources = container.get("resources") or {}
    names = sorted({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return f"container-{index}-request-{names.index(resource)}"


def claim_name(pod: Mapping[str, Any]) -> str:
    """The name of a pod's claim: always the same, so that one that was made before a restart is found again."""
    about = pod["metadata"]
    end = f"-extended-resources-{about['uid'][:8]}"
    return f"{str(about['name'])[: _MOST - len(end)]}{end}"


def claim_body(pod: Mapping[str, Any], asked: ExtendedClaim) -> Json:
    """The claim of a pod, which goes with it; protected from its beginning."""
    about = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"], "controller": True}
    exactly = [
        {
            "name": request.name,
            "exactly": {"deviceClassName": request.class_name, "allocationMode": "ExactCount", "count": request.count},
        }
        for request in asked.requests
    ]
    return {
        "metadata": {
            "name": claim_name(pod),
            "namespace": about["namespace"],
            "annotations": {MARK: "true"},
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": exactly}},
    }


def status_patch(pod: Mapping[str, Any], uses: Sequence[RequestUse]) -> Json:
    """A merge patch of a pod's status: which container has which request of the claim that was made for it."""
    mappings = [
        {"containerName": use.container, "resourceName": use.resource, "requestName": use.request} for use in uses
    ]
    status = {"resourceClaimName": claim_name(pod), "requestMappings": mappings}
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"extendedResourceClaimStatus": status}}
