"""The service that installs GPU drivers: an image for the system, and others that look for the driver where it is."""

from __future__ import annotations

import re
from typing import Final

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.services import DRIVER, load_images
from paictl.config.reading.nodes import MappingNode
from paictl.i18n import text

IMAGE: Final = "nvidia-driver-"
"""How names of images of drivers begin; the system follows."""
_ROOT: Final = "/run/nvidia/driver"
_VERSION: Final = re.compile(r"\d+(\.\d+)+")


@rule("SVC741", "driver-image", ERROR)
def driver_image(document: Document) -> Findings:
    """There is no driver image for the system, or the tag of an image does not contain version and system.

    Why: a kernel module is built for one system, and images of NVIDIA's driver are tagged with version and system, such
    as `580.126.20-ubuntu24.04`. The service compares the version with that of the driver that a machine runs.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        gpu-driver: {enabled: true, system: ubuntu24.04}

    Fails with::

        # services-configuration.yaml
        -gpu-driver: {enabled: true, system: ubuntu24.04}
        +gpu-driver: {enabled: true, system: debian12}
    """
    # The system that has no image; every image of a driver whose tag is another; a version that no image would have.
    settings, images = document.top.mapping(DRIVER), document.top.mapping("images")
    if not _enabled(settings):
        return
    system, version = settings.text("system"), settings.text("version")
    known = [name for name in (*load_images(), *(entry.key.text for entry in images)) if name.startswith(IMAGE)]
    if system is not None and system.text and f"{IMAGE}{system.text}" not in known:
        systems = ", ".join(name.removeprefix(IMAGE) for name in known)
        only = text("there is no driver image for {system}, only for {systems}", system=system.text, systems=systems)
        yield Finding(
            system,
            only,
            text(
                "install the driver on these machines yourself, or name an image {name} in the section images",
                name=f"{IMAGE}{system.text}",
            ),
        )
    for entry in images:
        reference = images.text(entry.key.text)
        if not entry.key.text.startswith(IMAGE) or reference is None:
            continue
        wanted = entry.key.text.removeprefix(IMAGE)
        tag = reference.text.partition("@")[0].rpartition("/")[2].partition(":")[2]
        if not tag.endswith(f"-{wanted}") or not _VERSION.fullmatch(tag.removesuffix(f"-{wanted}")):
            message = text("the tag of {image} is not VERSION-{system}", image=reference.text, system=wanted)
            yield Finding(reference, message, text("tag it as NVIDIA does, such as {tag}", tag=f"580.126.20-{wanted}"))
        elif version is not None and version.text and tag != f"{version.text}-{wanted}":
            message = text("gpu-driver.version is {version}, but this image is {tag}", version=version.text, tag=tag)
            yield Finding(reference, message, "remove gpu-driver.version, or name an image of that version")


@rule("SVC742", "driver-elsewhere", ERROR)
def driver_elsewhere(document: Document) -> Findings:
    """`device-plugin` or `dra-driver` looks for the driver in another folder than the one where `gpu-driver` puts it.

    Why: NVIDIA's driver container shows the driver in /run/nvidia/driver, and nowhere else. On machines with a driver
    of their own, gpu-driver lets this path lead to it. With gpu-driver, the other services always look there.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        gpu-driver: {enabled: true}
        device-plugin: {nvidia: {driver-root: /run/nvidia/driver}}

    Fails with::

        # services-configuration.yaml
        -device-plugin: {nvidia: {driver-root: /run/nvidia/driver}}
        +device-plugin: {nvidia: {driver-root: /}}
    """
    # Every other folder that is named, where drivers are installed.
    if not _enabled(document.top.mapping(DRIVER)):
        return
    for section, holder in (
        ("device-plugin.nvidia", document.top.at("device-plugin", "nvidia")),
        ("dra-driver", document.top.mapping("dra-driver")),
    ):
        root = holder.text("driver-root")
        if root is not None and root.text.rstrip("/") != _ROOT:
            message = text(
                "{section}.driver-root is {path}, but gpu-driver puts the driver into {root}",
                section=section,
                path=root.text,
                root=_ROOT,
            )
            yield Finding(root, message, text("remove this line: with gpu-driver, {root} is the default", root=_ROOT))


def _enabled(settings: MappingNode) -> bool:
    switch = settings.scalar("enabled")
    return switch is not None and switch.value is True
