"""Checks of GPUs before anything is installed; a host that has none, and shall have none, is asked nothing."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from paictl.config.making.skus import free_cpus
from paictl.config.models.services import load_images
from paictl.deploy.facts import NVIDIA, runs_own_driver
from paictl.deploy.preflight.verdict import Check, DesiredHost, Facts, PreflightVerdict, fail, fine, unknown, warn
from paictl.i18n import text

OLDEST_DRIVER: Final = 525
"""Oldest branch of NVIDIA's driver for Linux that makes CDI specifications of its devices."""
NONE: Final = "-"


def _nvidia(facts: Facts) -> list[Any]:
    return [device for device in facts["gpus"]["devices"] if device["vendor"] == NVIDIA]


def check_devices(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """As many devices on the PCI bus as the layout says."""
    devices = facts["gpus"]["devices"]
    kinds = sorted({f"{device['vendor'][2:]}:{device['device'][2:]}" for device in devices})
    finding = f"{len(devices)} ({', '.join(kinds)})" if devices else text("none")
    if desired.devices is None:
        return fine(finding if devices else NONE)
    if len(devices) == desired.devices:
        return fine(finding if devices else NONE)
    fix = text("lspci -nn | grep -i -e nvidia -e amd; reseat a missing device, or correct the SKU in the layout")
    return fail(finding, text("{count} according to the layout", count=desired.devices), fix)


def check_cells(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """What HiveD's configuration promises on the host, it has."""
    if desired.leaves is None:
        return fine(NONE)
    count = len(facts["gpus"]["devices"])
    if count * (desired.instances or 1) == desired.leaves:
        return fine(text("{count} cells", count=desired.leaves))
    fix = text("correct physicalCluster in services-configuration.yaml, or the host")
    expected = text("{count} leaf cells", count=desired.leaves)
    if desired.instances:
        expected = text(
            "{count} leaf cells, {instances} on each GPU", count=desired.leaves, instances=desired.instances
        )
    return fail(text("{count} devices", count=count), expected, fix)


def check_room(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """The cells of a worker leave its own programs some CPU: pods of a machine that is promised whole never start.

    Without a configuration the one that paictl would make is judged, which gives each device a whole CPU at least.
    """
    cpus = Decimal(facts["cpus"])
    free = free_cpus(cpus)
    if desired.master:
        return fine(NONE)
    if desired.cpus is not None:
        if desired.cpus <= free:
            return fine(text("{count} CPUs", count=desired.cpus))
        finding = text("{promised} CPUs in its cells, {cpus} on the machine", promised=desired.cpus, cpus=cpus)
        fix = text("lower cpu in skuTypes of services-configuration.yaml, or define fewer cells")
        return warn(finding, text("at most {free}", free=free), fix)
    count = max(len(facts["gpus"]["devices"]), 1)
    if count <= free:
        return fine(text("{count} CPUs", count=cpus))
    finding = text("{cpus} CPUs for {count} cells", cpus=cpus, count=count)
    fix = text("give it more CPUs, deploy with your own configuration (-p DIR), or use --kubernetes-only")
    return warn(finding, text("more than {count}: one for each cell, plus a reserve", count=count), fix)


def check_nouveau(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """nouveau does not hold the devices that NVIDIA's driver needs."""
    if not _nvidia(facts):
        return fine(NONE)
    if not facts["gpus"]["nouveau"]:
        return fine(text("absent"))
    update = "update-initramfs -u" if facts["system"]["id"] in ("debian", "ubuntu") else "dracut --force"
    fix = f"echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf && {update} && reboot"
    return fail(text("loaded"), text("absent"), fix)


def _by_service(facts: Facts, desired: DesiredHost) -> bool:
    """Whether the service `gpu-driver` has the driver of a host in its care."""
    return desired.driver_by_service and not runs_own_driver(facts)


def check_driver(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """NVIDIA's driver is there, and new enough; or the service `gpu-driver` has an image that installs one."""
    if not _nvidia(facts):
        return fine(NONE)
    if _by_service(facts, desired):
        return _check_image(facts)
    version = facts["gpus"]["driver"]
    expected = text("{version} or newer", version=OLDEST_DRIVER)
    if not version:
        return fail(text("none"), expected, _install(facts))
    branch = int(version.split(".")[0])
    if branch < OLDEST_DRIVER:
        return fail(version, expected, _install(facts))
    if facts["gpus"]["nodes"] < len(_nvidia(facts)):
        finding = text(
            "{version}, {nodes} of {count} devices",
            version=version,
            nodes=facts["gpus"]["nodes"],
            count=len(_nvidia(facts)),
        )
        return warn(finding, text("a /dev/nvidiaN for each"), "nvidia-smi -L; nvidia-modprobe -u -c 0")
    return fine(version)


def _check_image(facts: Facts) -> PreflightVerdict:
    """Whether there is an image of the driver for the system of a host, but for images of your own."""
    begin, system = "nvidia-driver-", f"{facts['system']['id']}{facts['system']['version']}"
    systems = [name.removeprefix(begin) for name in load_images() if name.startswith(begin)]
    if system in systems:
        return fine(facts["gpus"]["driver"] or text("none yet: the service gpu-driver installs it"))
    fix = text(
        "name an image {name} in the section images of services-configuration.yaml, or install a driver",
        name=f"{begin}{system}",
    )
    return warn(text("no driver image for {system}", system=system), ", ".join(systems), fix)


def _install(facts: Facts) -> str:
    """The command that installs a driver on this kind of system."""
    match facts["system"]["id"]:
        case "ubuntu":
            return "apt install nvidia-driver-570-server && reboot  # or deploy: {gpu_driver: service}"
        case "debian":
            return "apt install linux-headers-amd64 nvidia-driver && reboot  # of contrib and non-free"
        case _:
            return "dnf module install nvidia-driver:open-dkms && reboot  # of NVIDIA's repository"


def check_headers(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """The headers match the kernel that runs, or a driver cannot be built; a driver's container brings its own."""
    if not _nvidia(facts) or _by_service(facts, desired):
        return fine(NONE)
    if facts["gpus"]["headers"]:
        return fine(facts["system"]["kernel"])
    if facts["gpus"]["driver"]:
        return fine(text("not needed: the driver is running"))
    deb = facts["system"]["id"] in ("debian", "ubuntu")
    fix = "apt install linux-headers-$(uname -r)" if deb else "dnf install kernel-devel-$(uname -r)"
    return fail(text("none"), text("headers of {kernel}", kernel=facts["system"]["kernel"]), fix)


def check_secure_boot(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """With Secure Boot an unsigned driver is not loaded."""
    if not _nvidia(facts) or not facts["gpus"]["secureboot"]:
        return fine(NONE if not _nvidia(facts) else "off")
    if facts["gpus"]["driver"]:
        return fine(text("on, and the driver is loaded"))
    fix = text("switch it off in the firmware, or enrol a key: mokutil --import KEY")
    return fail(text("on"), text("off, or a signed driver"), fix)


def check_fabric(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """NVSwitches need the Fabric Manager, or no program can use the devices; a driver's container runs it."""
    if not facts["gpus"].get("switches") or _by_service(facts, desired):
        return fine(NONE)
    if facts["gpus"]["fabric"]:
        return fine(text("active"))
    branch = (facts["gpus"]["driver"] or "").split(".")[0] or "570"
    fix = f"apt install nvidia-fabricmanager-{branch} && systemctl enable --now nvidia-fabricmanager"
    if facts["system"]["id"] not in ("debian", "ubuntu"):
        fix = "dnf install nvidia-fabric-manager && systemctl enable --now nvidia-fabricmanager"
    return fail(text("not active"), text("active, for {count} NVSwitches", count=facts["gpus"]["switches"]), fix)


def check_mig(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """All devices of a host are divided by MIG as its cells say: not at all, or into so many instances each."""
    if not _nvidia(facts):
        return fine(NONE)
    modes = facts["gpus"]["mig"]
    if modes is None:
        return unknown(text("nvidia-smi is not installed yet")) if facts["gpus"]["driver"] else fine(NONE)
    if desired.instances:
        return _check_instances(facts, desired)
    fix = _called(facts, "nvidia-smi -mig 0 && nvidia-smi --gpu-reset")
    if len(modes) > 1:
        return fail(", ".join(modes), text("one mode"), fix)
    if modes[0] == "Enabled":
        return warn(text("on: its instances are not cells"), text("off, or migInstances in the SKU of its cells"), fix)
    return fine(modes[0])


def _check_instances(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """Each device has the instances of the cells, with the indices 0 and up, by which containers name them."""
    expected = _instances(desired.instances, desired.profile)
    divided: list[list[list[Any]]] = facts["gpus"].get("instances") or []
    missing: list[list[list[Any]]] = [[]] * (len(_nvidia(facts)) - len(divided))
    wrong = {
        gpu: instances
        for gpu, instances in enumerate([*divided, *missing])
        if [index for index, _ in instances] != list(range(desired.instances))
        or (desired.profile and {profile for _, profile in instances} != {desired.profile})
    }
    if not wrong:
        return fine(text("{instances} on each GPU", instances=expected))
    gpu, instances = next(iter(wrong.items()))
    profiles = sorted({str(profile) for _, profile in instances})
    finding = text("{found} on GPU {gpu}", found=_instances(len(instances), ", ".join(profiles)), gpu=gpu)
    if len(wrong) > 1:
        finding = text("{found} and others on {count} more", found=finding, count=len(wrong) - 1)
    return fail(finding, text("{instances} on each GPU", instances=expected), _divide(facts, desired))


def _instances(count: int, profile: str) -> str:
    """Instances of a GPU in words: ``7 x 1g.10gb``."""
    return f"{count} x {profile}" if profile else text("{count} MIG instances", count=count)


def _divide(facts: Facts, desired: DesiredHost) -> str:
    """The commands that divide all devices of a host; instances that are there go first."""
    old = "nvidia-smi mig -dci; nvidia-smi mig -dgi; " if any(facts["gpus"].get("instances") or ()) else ""
    profiles = ",".join([desired.profile or "PROFILE"] * desired.instances)
    lookup = "" if desired.profile else "  # PROFILE: nvidia-smi mig -lgip"
    return _called(facts, f"{old}nvidia-smi -mig 1 && nvidia-smi mig -cgi {profiles} -C{lookup}")


def _called(facts: Facts, commands: str) -> str:
    """Commands with nvidia-smi as a host can call it: the driver of the service `gpu-driver` is not in its root."""
    return commands.replace("nvidia-smi", str(facts["gpus"].get("smi") or "nvidia-smi"))


CHECKS: Final[dict[str, Check]] = {
    "devices": check_devices,
    "cells": check_cells,
    "room": check_room,
    "nouveau": check_nouveau,
    "driver": check_driver,
    "headers": check_headers,
    "secure-boot": check_secure_boot,
    "fabric-manager": check_fabric,
    "mig": check_mig,
}
