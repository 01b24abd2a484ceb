"""The Kubernetes objects of the extender or the placer, from ``templates/hivedscheduler/``."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import yaml

from paictl.cluster.devices import support
from paictl.cluster.doors import server_of
from paictl.cluster.manifests import writing
from paictl.cluster.manifests.certificates import CertificateSet
from paictl.cluster.manifests.context import Renderer, RenderInputs
from paictl.config.models.services import STANDARD_NAME
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.workload.budgets import SECTION

Json = dict[str, Any]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_LABELS: Final = {"app.kubernetes.io/part-of": "paictl", "app.kubernetes.io/managed-by": "paictl"}


@frozen
class Choices:
    """The options for the objects."""

    door: str = "extender"
    """``extender``: a separate kube-scheduler asks us; ``gates``: the placer, beside any kube-scheduler."""
    gate_policy: bool = False
    """Whether a policy sets the gate on pods that ask for cells (Kubernetes 1.36 and newer)."""
    scheduler_name: str = "hivedscheduler"
    namespace: str = "paictl-system"
    image: str = ""
    kube_image: str = ""
    replicas: int = 2
    hived_config: str = ""
    """Text of a hivedscheduler configuration."""
    sharing: object = None
    """The section `sharing` of services-configuration.yaml."""
    delete_after: float | None = None
    """Seconds; None: the default of the service; infinity: never."""
    require_grants: bool = True
    tls: bool = True
    """Whether kube-scheduler and the extender use mutual TLS."""
    devices: str = "environment"
    """How pods get their devices: ``environment``, ``claims`` or ``auto``."""
    device_classes: tuple[str, ...] = ()
    device_drivers: tuple[str, ...] = ()


def objects(choices: Choices, version: str, certificates: CertificateSet | None = None) -> list[Json]:
    """All objects, in an order in which they can be applied; missing certificates are replaced by placeholders.

    Raises `PaictlError` for an unknown door, an invalid name or way to get devices, and a gate policy without
    gates.
    """
    if choices.gate_policy and choices.door != "gates":
        raise PaictlError("--gate-policy sets the gate, which only the door gates reads", hint="add --door gates")
    own = server_of(choices.door)
    for kind, name in (("scheduler name", choices.scheduler_name), ("namespace", choices.namespace)):
        if not _NAME.fullmatch(name):
            raise PaictlError(f"{name!r} is not a valid {kind}: lower-case letters, digits, - and . are allowed")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choices.namespace}}
    bodies: list[Json] = [
        namespace,
        *(manifest.body for manifest in Renderer(_inputs(choices, version, certificates)).render("hivedscheduler")),
    ]
    for body in bodies[1:]:  # the namespace is shared with other services, and `service start` labels it
        metadata = body["metadata"]
        name = own if metadata["name"].startswith(own) else "hivedscheduler"
        labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/version": version, **_LABELS}
        metadata["labels"] = labels | metadata.get("labels", {})
    return bodies


def _inputs(choices: Choices, version: str, certificates: CertificateSet | None) -> RenderInputs:
    """A configuration with only these choices."""
    section: Json = {"scheduler-name": choices.scheduler_name, "replicas": choices.replicas}
    section |= {"door": choices.door, "gate-policy": choices.gate_policy}
    section |= {"require-grants": choices.require_grants, "tls": choices.tls}
    section["devices"] = support.read_options(choices.devices)[0].value
    section |= {"device-classes": list(choices.device_classes), "device-drivers": list(choices.device_drivers)}
    if choices.delete_after is not None:
        section["delete-after"] = "never" if math.isinf(choices.delete_after) else f"{choices.delete_after:g}"
    if choices.hived_config.strip():
        section["config"] = choices.hived_config
    images = {"kube-scheduler": choices.kube_image, "paictl": choices.image}
    data: Json = {"hivedscheduler": section, "images": {name: image for name, image in images.items() if image}}
    if choices.sharing:
        data[SECTION] = choices.sharing
    text = yaml.safe_dump(data)
    return RenderInputs("", choices.namespace, "", version, {STANDARD_NAME: text}, {}, certificates)


def scheduler_configuration(choices: Choices) -> Json:
    """Only the `KubeSchedulerConfiguration`, for a kube-scheduler that runs elsewhere.

    Raises `PaictlError` for a door that needs none.
    """
    if choices.door != "extender":
        raise PaictlError(f"with the door {choices.door} kube-scheduler needs no configuration")
    for body in objects(choices, "0"):
        if body["kind"] == "ConfigMap":
            configuration: Json = yaml.safe_load(body["data"]["scheduler.yaml"])
            return configuration
    raise AssertionError("the template has a ConfigMap")


def to_yaml(documents: list[Json]) -> str:
    """Documents for ``kubectl apply -f -``."""
    return writing.to_yaml(documents)
