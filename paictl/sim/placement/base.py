"""What all placements have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import ClassVar

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.view import JobView


class Placer(ABC):
    """A book of free devices with one way to choose from them."""

    id: ClassVar[str]
    located: ClassVar[bool] = True
    """Whether it matters for rates and fragmentation where the devices are."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.free = cluster.size
        """Devices that nobody has."""

    @abstractmethod
    def take(self, job: JobView, number: int) -> Devices | None:
        """Take that many devices for a job, rising; None, and nothing changes, if there is no place for all."""

    @abstractmethod
    def give(self, devices: Devices) -> None:
        """They are free again."""

    @abstractmethod
    def claim(self, devices: Devices) -> None:
        """Take these very devices, all of them free: to undo a `give`."""

    def fail(self, devices: Devices) -> None:
        """Nobody can use these devices, all of them free, until they are repaired."""
        self.claim(devices)

    def repair(self, devices: Devices) -> None:
        """They can be used again."""
        self.give(devices)

    def group(self, job: JobView) -> Hashable:
        """Jobs of one group and size are alike to `take`: where one finds no place, the others do not either."""
        return job.gpu_type
