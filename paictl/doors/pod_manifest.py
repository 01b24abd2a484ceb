"""How a pod reaches the scheduler and gets its devices, read from its manifest: the door, and claims or environment.

For people who write pods; the doors themselves read the objects in the API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from paictl.cluster.devices.claims import ClaimError, ResourceClaim, check_requests, read_claim
from paictl.cluster.kubernetes.names import MAX_RUN_TIME, job_of, run_limit
from paictl.cluster.pods.labels import pod_limit
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.scheduler.wire import ENABLE, GATE, ISOLATION
from paictl.suggestions import nearest
from paictl.units import span_text

Json = dict[str, Any]

CLASSES: Final = ("gpu.nvidia.com",)
"""The default DeviceClasses whose devices are leaf cells."""
TEMPLATE: Final = "ResourceClaimTemplate"
DEFAULT_SCHEDULER: Final = "default-scheduler"


def door_of(pod: Mapping[str, Any]) -> str:
    """The door through which a pod is scheduled, in a few words.

    Raises `PaictlError` for a pod that no door would ever admit.
    """
    spec = pod.get("spec") or {}
    gates = [str(gate.get("name")) for gate in _entries(spec, "schedulingGates")]
    scheduler = str(spec.get("schedulerName") or DEFAULT_SCHEDULER)
    if GATE not in gates:
        near = nearest(GATE, gates, 0.8)
        if near is not None:
            raise PaictlError(text("no door uses the gate {near}; the right name is {gate}", near=near, gate=GATE))
        if scheduler != DEFAULT_SCHEDULER:
            return text("extender (schedulerName {scheduler})", scheduler=scheduler)
        return text(
            "none: it has neither the gate {gate} nor a schedulerName of its own (a policy may add the gate)", gate=GATE
        )
    if pod_limit(pod, ENABLE) > 0:
        raise PaictlError(
            text(
                "it has the gate {gate} and the limit {limit}, which no node provides: remove the limit",
                gate=GATE,
                limit=ENABLE,
            )
        )
    return text("gates ({gate}), then {scheduler}", gate=GATE, scheduler=scheduler)


def run_time_of(pod: Mapping[str, Any]) -> str:
    """How long a pod runs at most, for maintenance and promised starts; empty if it does not say."""
    limit = run_limit(pod)
    if limit is not None:
        return f"at most {span_text(limit)}, then {'the job controller' if job_of(pod) else 'the kubelet'} ends it"
    notes = pod["metadata"].get("annotations")
    if not isinstance(notes, dict) or MAX_RUN_TIME not in notes:
        return ""
    return f"no limit: {MAX_RUN_TIME} counts for jobs of paictl only, set spec.activeDeadlineSeconds"


def devices_of(
    pod: Mapping[str, Any],
    uid: str,
    objects: Sequence[Mapping[str, Any]],
    leaves: int,
    classes: Sequence[str] = CLASSES,
) -> str:
    """How a pod's containers get its `leaves` devices; `objects` has the known ResourceClaimTemplates.

    Raises `PaictlError` if they cannot get them.
    """
    claims, unknown = _claims(pod, uid, objects)
    asking = [claim for claim in claims if claim.asks(classes)]
    if not unknown and (asking or claims):
        check_requests(claims, uid, leaves, classes)
    if asking:
        _check_used(pod, asking)
        counts = ", ".join(f"{claim.name}: {sum(request.count for request in claim.requests)}" for claim in asking)
        return text("claims, which the kubelet enforces ({counts})", counts=counts)
    if unknown:
        return text("claims ({kind} {names}: not in the file, so not checked)", kind=TEMPLATE, names=", ".join(unknown))
    containers = [name for name, variables in _environments(pod) if variables]
    if containers:
        return text("the environment ({names}), which the container could overwrite", names=", ".join(containers))
    return text("unknown: no claim, and no variable with a fieldRef to the annotation {name}", name=ISOLATION)


def _claims(
    pod: Mapping[str, Any], uid: str, objects: Sequence[Mapping[str, Any]]
) -> tuple[list[ResourceClaim], list[str]]:
    """The claims that Kubernetes will create for a pod, named as in the pod, and the unknown templates."""
    named = str(pod["metadata"].get("namespace") or "")
    namespace = named or "default"
    templates = _templates_for(named, objects)
    claims, unknown = [], []
    for entry in _entries(pod.get("spec") or {}, "resourceClaims"):
        name, template = str(entry.get("name")), entry.get("resourceClaimTemplateName")
        if template is None:
            raise ClaimError(
                text("claim {name} is not made for this pod alone: use resourceClaimTemplateName", name=name)
            )
        if template not in templates:
            if templates:
                names = ", ".join(templates)
                raise ClaimError(
                    text(
                        "{kind} {name} is not in the file, which has {names}", kind=TEMPLATE, name=template, names=names
                    )
                )
            unknown.append(str(template))
            continue
        owner = {"kind": "Pod", "uid": uid, "controller": True}
        metadata = {"name": name, "namespace": namespace, "uid": f"{uid}/{name}", "ownerReferences": [owner]}
        spec = (templates[template].get("spec") or {}).get("spec") or {}
        try:
            counts = [
                request["exactly"].get("count", 1) for request in spec["devices"]["requests"] if "exactly" in request
            ]
            if not all(isinstance(count, int) for count in counts):
                raise ClaimError(text("{kind} {name}: count is not a whole number", kind=TEMPLATE, name=template))
            claims.append(read_claim({"metadata": metadata, "spec": spec}))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ClaimError(text("{kind} {name} cannot be read", kind=TEMPLATE, name=template)) from None
    return claims, unknown


def _templates_for(namespace: str, objects: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The ResourceClaimTemplates that a pod of a namespace can name; what names none is for where it is applied."""
    templates: dict[str, Mapping[str, Any]] = {}
    for item in objects:
        if item.get("kind") == TEMPLATE:
            name, own = str(item["metadata"].get("name")), str(item["metadata"].get("namespace") or "")
            if own == namespace or (name not in templates and not (own and namespace)):
                templates[name] = item
    return templates


def _check_used(pod: Mapping[str, Any], claims: Sequence[ResourceClaim]) -> None:
    """Raise `ClaimError` for a claim that no container uses: its devices would be reserved, but in no container."""
    used = {
        str(entry.get("name"))
        for container in _entries(pod.get("spec") or {}, "containers")
        for entry in _entries(container.get("resources") or {}, "claims")
    }
    for claim in claims:
        if claim.name not in used:
            raise ClaimError(text("no container has claim {name}: add it to resources.claims", name=claim.name))


def _environments(pod: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Each container, with its variables that read the devices from the annotation."""
    for container in _entries(pod.get("spec") or {}, "containers"):
        variables = [
            str(variable.get("name"))
            for variable in _entries(container, "env")
            if ISOLATION in str(((variable.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath"))
        ]
        yield str(container.get("name")), variables


def _entries(holder: Mapping[str, Any], field: str) -> list[Json]:
    """The mappings in a list that may be missing; raises `PaictlError` naming an entry that is not a mapping."""
    entries = holder.get(field) or []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        if not isinstance(entries, list) or not isinstance(entry, dict):
            where = f"{field}[{number}]" if isinstance(entries, list) else field
            raise PaictlError(text("{field}: expected a list of mappings, such as - name: …", field=where))
    return entries
