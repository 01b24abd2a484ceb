"""What a cluster lacks for claims: version, class, driver, rights. Each fact says what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from paictl.cluster.devices.directory import DRIVERS
from paictl.cluster.devices.pod_claims import ClaimOptions
from paictl.cluster.devices.slices import RECORD
from paictl.cluster.devices.writing import API
from paictl.cluster.doors import DOORS
from paictl.errors import PaictlError
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.kube.objects import may

GROUP: Final = "resource.k8s.io"
CLASSES: Final = ("gpu.nvidia.com",)
"""DeviceClasses of claims on cells, if no other is named."""
GRANULAR: Final = 36
"""Minor version of Kubernetes 1 from which an allocation needs the right to ``resourceclaims/binding`` as well."""
TAINT_RULES: Final = "devicetaintrules"
OPTIONS: Final = ("devices", "device-class", "device-driver")
RIGHTS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (GROUP, "resourceslices", ("list", "watch")),
    (GROUP, "deviceclasses", ("get",)),
    (GROUP, "resourceclaims", ("get", "list", "watch", "patch")),
    (GROUP, "resourceclaims/status", ("patch",)),
    (GROUP, "resourceclaims/binding", ("patch",)),
    ("", "nodes", ("patch",)),
)
"""API group, resource and verbs that a door needs to write allocations."""


class DeviceMode(StrEnum):
    """How a container learns its devices, and who keeps it to them."""

    ENVIRONMENT = "environment"
    """By an environment variable, which is a convention."""
    CLAIMS = "claims"
    """By ResourceClaims, which the kubelet enforces; every pod needs one."""
    AUTO = "auto"
    """Claims for pods that have them, where the cluster can; the environment otherwise."""


def read_options(
    mode: str, classes: Sequence[str] | None = None, drivers: Sequence[str] | None = None
) -> tuple[DeviceMode, ClaimOptions]:
    """How pods get their devices, as a command line says it. Raises `PaictlError` for an invalid mode."""
    if mode not in set(DeviceMode):
        raise PaictlError(f"{mode!r} is not a way to get devices", hint=f"use {', '.join(DeviceMode)}")
    chosen = DeviceMode(mode)
    required = chosen is DeviceMode.CLAIMS
    return chosen, ClaimOptions(tuple(classes or CLASSES), tuple(drivers or DRIVERS), required)


def described(client: KubeClient, namespace: str) -> str:
    """How pods of a cluster get their devices, by what its extender or placer was told, and why; empty without either.

    Raises `NoAnswerError`, `KubeError` but for what does not exist or may not be read.
    """
    for server in DOORS.values():
        try:
            deployment = client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{server}")
        except KubeError as error:
            if error.status not in (403, 404):
                raise
            continue
        words = [
            str(word)
            for container in deployment["spec"]["template"]["spec"]["containers"]
            for word in container.get("command", ())
        ]
        settings = {
            name: [word.partition("=")[2] for word in words if word.startswith(f"--{name}=")] for name in OPTIONS
        }
        mode, options = read_options(
            (settings["devices"] or ["environment"])[0], settings["device-class"], settings["device-driver"]
        )
        lacks = _facts(client, options)
        if mode is DeviceMode.ENVIRONMENT:
            instead = f"claims are not possible: {'; '.join(lacks)}" if lacks else "claims are possible: --devices auto"
            return f"environment, as {server} is configured; {instead}"
        if lacks:
            return f"environment, although {server} is configured for {mode}: {'; '.join(lacks)}"
        return f"claims on DeviceClass {', '.join(options.classes)}, written by {server}"
    return ""


def missing(client: KubeClient, options: ClaimOptions) -> list[str]:
    """What the cluster lacks for claims, empty if it has all. Raises `NoAnswerError`, `KubeError`."""
    facts = _facts(client, options)
    return [*_missing_rights(client, _minor(client)), *facts]


def chosen(client: KubeClient, mode: DeviceMode, options: ClaimOptions) -> tuple[ClaimOptions | None, str]:
    """The options for claims, None for the environment alone, and why.

    Raises `PaictlError` naming each missing fact if claims are demanded and cannot be had.
    """
    if mode is DeviceMode.ENVIRONMENT:
        return None, "devices: environment, as configured"
    lacks = missing(client, options)
    if not lacks:
        resources = _resources(client, options)
        options = replace(options, taint_rules=_has_taint_rules(client), resources=resources)
        also = f", also for pods that only ask for {', '.join(resources)}" if resources else ""
        return options, f"devices: claims on DeviceClass {', '.join(options.classes)}{also}"
    if mode is DeviceMode.AUTO:
        return None, f"devices: environment, because {'; '.join(lacks)}"
    raise PaictlError("this cluster cannot have devices by claims", where=client.where, hint="; ".join(lacks))


def _facts(client: KubeClient, options: ClaimOptions) -> list[str]:
    """What is missing whoever asks: the API, a class, a driver."""
    try:
        client.get(API)
    except KubeError as error:
        if error.status != 404:
            raise
        return [f"the API {GROUP}/v1 is not served (Kubernetes 1.{_minor(client)}): use Kubernetes 1.34 or newer"]
    return list(_missing_driver(client, options))


def _has_taint_rules(client: KubeClient) -> bool:
    """Whether DeviceTaintRules are served (Kubernetes 1.37 and newer) and may be followed; claims work without them."""
    served = {str(resource.get("name")) for resource in client.get(API).get("resources") or ()}
    return TAINT_RULES in served and all(may(client, verb, TAINT_RULES, GROUP) for verb in ("list", "watch"))


def _resources(client: KubeClient, options: ClaimOptions) -> dict[str, str]:
    """The extended resources that stand for the classes (since Kubernetes 1.36), if claims may be made for them."""
    rights = (("create", "resourceclaims", GROUP), ("patch", "pods/status", ""))
    classes = {name: client.get(f"{API}/deviceclasses/{name}")["spec"] for name in options.classes}
    resources = {
        str(spec["extendedResourceName"]): name for name, spec in classes.items() if "extendedResourceName" in spec
    }
    return resources if resources and all(may(client, *right) for right in rights) else {}


def _minor(client: KubeClient) -> int:
    text = str(client.get("/version").get("minor", ""))
    digits = "".join(char for char in text if char.isdigit())
    return int(digits or 0)


def _missing_rights(client: KubeClient, minor: int) -> Iterator[str]:
    lacking: list[str] = []
    for group, resource, verbs in RIGHTS:
        if resource.endswith("/binding") and minor < GRANULAR:
            continue
        lacking += [f"{verb} {resource}" for verb in verbs if not may(client, verb, resource, group)]
    if lacking:
        yield f"the account may not {', '.join(lacking)}: apply the rights that `paictl placer config --devices` prints"


def _missing_driver(client: KubeClient, options: ClaimOptions) -> Iterator[str]:
    for name in options.classes:
        try:
            client.get(f"{API}/deviceclasses/{name}")
        except KubeError as error:
            if error.status == 404:
                yield f"no DeviceClass {name}: install its driver, or name another by --device-class"
            elif error.status != 403:  # a missing right is named above
                raise
    try:
        if not any(_publishes(client, driver) for driver in options.drivers) and not _has_published(client):
            yield (
                f"no node has ResourceSlices of {' or '.join(options.drivers)}: install the driver, "
                "or name another by --device-driver"
            )
    except KubeError as error:
        if error.status != 403:
            raise


def _has_published(client: KubeClient) -> bool:
    """Whether a node has the record of devices that were allocated: its kubelet or driver is starting.

    A door that starts together with the only node that has devices would do without claims until its next start.
    """
    pages = client.list("/api/v1/nodes")
    return any(RECORD in (node["metadata"].get("annotations") or {}) for _, page in pages for node in page)


def _publishes(client: KubeClient, driver: str) -> bool:
    query = {"fieldSelector": f"spec.driver={driver}", "limit": 1}
    return bool(client.get(f"{API}/resourceslices", query=query).get("items"))
