"""What all placements have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import ClassVar

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.view import JobView


class Placer(ABC):
    """Which devices are free, and one way to choose from them."""

    id: ClassVar[str]
    located: ClassVar[bool] = True
    """Whether it matters for rates and fragmentation where the devices are."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.free = cluster.size
        """Number of free devices."""

    @abstractmethod
    def take(self, job: JobView, number: int) -> Devices | None:
        """Take `number` devices for a job, in rising order; None, and nothing changes, if they do not all fit."""

    @abstractmethod
    def give(self, devices: Devices) -> None:
        """Free these devices."""

    @abstractmethod
    def claim(self, devices: Devices) -> None:
        """Take exactly these devices, all of them free: undoes a `give`."""

    def fail(self, devices: Devices) -> None:
        """Take these devices, all of them free, out of service until they are repaired."""
        self.claim(devices)

    def repair(self, devices: Devices) -> None:
        """Return failed devices to service."""
        self.give(devices)

    def group(self, job: JobView) -> Hashable:
        """Key of jobs that `take` treats alike: if a job does not fit, no other of the same group and size does."""
        return job.gpu_type
