"""What a cluster lacks for claims: version, class, driver, rights. Each fact says what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from paictl.cluster.devices.directory import DRIVERS
from paictl.cluster.devices.pod_claims import ClaimOptions
from paictl.cluster.devices.writing import API
from paictl.errors import PaictlError
from paictl.remote.kube.client import KubeClient, KubeError

GROUP: Final = "resource.k8s.io"
CLASSES: Final = ("gpu.nvidia.com",)
"""DeviceClasses of claims on cells, if no other is named."""
GRANULAR: Final = 36
"""Minor version of Kubernetes 1 from which an allocation needs the right to ``resourceclaims/binding`` as well."""
DOORS: Final = ("hivedscheduler-placer", "hivedscheduler-extender")
"""Deployments that may write allocations."""
OPTIONS: Final = ("devices", "device-class", "device-driver")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
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
    for door in DOORS:
        try:
            found = client.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{door}")
        except KubeError as error:
            if error.status not in (403, 404):
                raise
            continue
        words = [
            str(word) for one in found["spec"]["template"]["spec"]["containers"] for word in one.get("command", ())
        ]
        said = {name: [word.partition("=")[2] for word in words if word.startswith(f"--{name}=")] for name in OPTIONS}
        mode, options = read_options(
            (said["devices"] or ["environment"])[0], said["device-class"], said["device-driver"]
        )
        lacks = _facts(client, options)
        if mode is DeviceMode.ENVIRONMENT:
            instead = f"claims are not possible: {'; '.join(lacks)}" if lacks else "claims are possible: --devices auto"
            return f"environment, as {door} is configured; {instead}"
        if lacks:
            return f"environment, although {door} is configured for {mode}: {'; '.join(lacks)}"
        return f"claims on DeviceClass {', '.join(options.classes)}, written by {door}"
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
        return options, f"devices: claims on DeviceClass {', '.join(options.classes)}"
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


def _minor(client: KubeClient) -> int:
    text = str(client.get("/version").get("minor", ""))
    digits = "".join(char for char in text if char.isdigit())
    return int(digits or 0)


def _missing_rights(client: KubeClient, minor: int) -> Iterator[str]:
    lacking = []
    for group, resource, verbs in RIGHTS:
        if resource.endswith("/binding") and minor < GRANULAR:
            continue
        name, _, part = resource.partition("/")
        for verb in verbs:
            asked = {"group": group, "resource": name, "verb": verb, **({"subresource": part} if part else {})}
            review = client.request("POST", _REVIEWS, {"spec": {"resourceAttributes": asked}})
            if not (review.get("status") or {}).get("allowed"):
                lacking.append(f"{verb} {resource}")
    if lacking:
        yield f"the account may not {', '.join(lacking)}: apply the rights that `paictl placer config --devices` prints"


def _missing_driver(client: KubeClient, options: ClaimOptions) -> Iterator[str]:
    for name in options.classes:
        try:
            client.get(f"{API}/deviceclasses/{name}")
        except KubeError as error:
            if error.status == 404:
                yield f"there is no DeviceClass {name}: install its driver, or name another by --device-class"
            elif error.status != 403:  # a missing right is named above
                raise
    try:
        if not any(_publishes(client, driver) for driver in options.drivers):
            yield (
                f"no node has ResourceSlices of {' or '.join(options.drivers)}: install the driver, "
                "or name another by --device-driver"
            )
    except KubeError as error:
        if error.status != 403:
            raise


def _publishes(client: KubeClient, driver: str) -> bool:
    query = {"fieldSelector": f"spec.driver={driver}", "limit": 1}
    return bool(client.get(f"{API}/resourceslices", query=query).get("items"))
