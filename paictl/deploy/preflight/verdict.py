"""What a check says about a host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from paictl.frozen import frozen

Facts: TypeAlias = Mapping[str, Any]
"""What `script` tells about a host."""


class Level(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    """It works, but may cause trouble; or an error that config.yaml says to ignore."""
    FAIL = "fail"
    UNKNOWN = "unknown"
    """Could not be found out; the check before it says why."""


@frozen
class PreflightVerdict:
    """What was found, what is wanted, and the command that mends it (both empty where all is well)."""

    level: Level
    found: str = ""
    wanted: str = ""
    fix: str = ""


@frozen
class DesiredHost:
    """What a host shall be, so far as checks need it; `name`, `address` and `master` are those of the lists,
    `cluster` is the name of the cluster.

    `devices` is the number of devices that the layout names for it, `leaves` the number of leaf cells with a device
    that HiveD promises on it, `cpus` what all its cells are promised; None where no file says it. `clock` are the two
    instants between which the facts were gathered, by the clock here. `driver_by_service` says that the
    service `gpu-driver` installs the GPU driver where there is none. `instances` are the MIG instances of each GPU, 0
    for whole GPUs, and `profile` is theirs if the SKU names it.
    """

    name: str
    address: str
    master: bool
    cluster: str = ""
    swap_allowed: bool = False
    devices: int | None = None
    leaves: int | None = None
    cpus: int | None = None
    clock: tuple[float, float] = (0.0, 0.0)
    driver_by_service: bool = False
    instances: int = 0
    profile: str = ""


Check = Callable[[Facts, DesiredHost], PreflightVerdict]
"""Pure: the same facts, the same verdict."""


def fine(finding: str) -> PreflightVerdict:
    """The check passed."""
    return PreflightVerdict(Level.OK, finding)


def warn(finding: str, expected: str, fix: str) -> PreflightVerdict:
    """It works, but should be fixed."""
    return PreflightVerdict(Level.WARN, finding, expected, fix)


def fail(finding: str, expected: str, fix: str) -> PreflightVerdict:
    """It would not work."""
    return PreflightVerdict(Level.FAIL, finding, expected, fix)


def unknown(finding: str) -> PreflightVerdict:
    """The check could not be made."""
    return PreflightVerdict(Level.UNKNOWN, finding)
