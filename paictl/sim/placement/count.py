"""Only how many devices are free counts, not where they are."""

from __future__ import annotations

from collections.abc import Mapping

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.base import Placer
from paictl.sim.view import JobView


class Count(Placer):
    """Any free devices; of one type if one has enough, those of the first type of the cluster first."""

    id = "count"
    located = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._free: dict[str, list[int]] = {kind: [] for kind in cluster.types}
        for device in reversed(range(cluster.size)):
            self._free[cluster.type_of[device]].append(device)
        self._one = next(iter(self._free.values())) if len(self._free) == 1 else None

    def take(self, job: JobView, number: int) -> Devices | None:
        """From the top of a stack: which ones does not matter."""
        if number > self.free:
            return None
        stack = self._one
        if stack is None or job.gpu_type is not None:
            kinds = [job.gpu_type] if job.gpu_type is not None else list(self._free)
            found = next((one for kind in kinds if len(one := self._free.get(kind, [])) >= number), None)
            if found is None:
                return self._mixed(number) if job.gpu_type is None else None
            stack = found
        self.free -= number
        if number == 1:
            return (stack.pop(),)
        devices = tuple(sorted(stack[-number:]))
        del stack[-number:]
        return devices

    def _mixed(self, number: int) -> Devices:
        devices: list[int] = []
        for stack in self._free.values():
            while stack and len(devices) < number:
                devices.append(stack.pop())
        self.free -= number
        return tuple(sorted(devices))

    def take_parts(self, parts: Mapping[str, int]) -> Devices:
        """So many of each type; as many must be free."""
        devices: list[int] = []
        for kind, number in parts.items():
            stack = self._free[kind]
            devices += stack[-number:]
            del stack[-number:]
        self.free -= len(devices)
        return tuple(sorted(devices))

    def give(self, devices: Devices) -> None:
        """Back on their stacks."""
        self.free += len(devices)
        if self._one is not None:
            self._one.extend(devices)
            return
        for device in devices:
            self._free[self.cluster.type_of[device]].append(device)

    def claim(self, devices: Devices) -> None:
        """Out of the middle of the stacks: rare, so it may look for them."""
        self.free -= len(devices)
        for device in devices:
            self._free[self.cluster.type_of[device]].remove(device)
