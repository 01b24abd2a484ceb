"""Which devices are down, and when that changes next."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.failures import FailureModel, Outage
from paictl.units import Millis


class DeviceOutages:
    """The devices of one run. A device is down while any outage that names it lasts."""

    def __init__(self, model: FailureModel, cluster: Cluster, seed: int, begin: Millis) -> None:
        self.checkpoint = model.checkpoint
        self.down: set[int] = set()
        self._model, self._cluster, self._seed, self._begin = model, cluster, seed, begin
        self._coming: Iterator[Outage] = model.outages(cluster, seed, begin)
        self._passed = 0
        """Outages that began."""
        self._outage = next(self._coming, None)
        self._count: dict[int, int] = {}
        """Outages of each device that is down."""
        self._repairs: list[tuple[Millis, int, Devices]] = []
        """A heap of (end, sequence, devices)."""

    def __getstate__(self) -> dict[str, object]:
        """Without the iterator, which is recreated: the same seed gives the same outages."""
        return {**self.__dict__, "_coming": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._coming = self._model.outages(self._cluster, self._seed, self._begin)
        for _ in range(self._passed + (self._outage is not None)):
            next(self._coming, None)

    def next(self, *, busy: bool) -> Millis | None:
        """When something fails or is repaired; if nothing else will happen (not `busy`) only repairs count."""
        times = [self._repairs[0][0]] if self._repairs else []
        if self._outage is not None and (busy or times):
            times.append(self._outage.start)
        return min(times) if times else None

    def pass_to(self, now: Millis) -> tuple[int, Devices, Devices]:
        """How many outages have begun since the last call; which devices have gone down, and which have come back."""
        before = set(self.down)
        began = 0
        while self._outage is not None and self._outage.start <= now:
            outage = self._outage
            began += 1
            for device in outage.devices:
                self._count[device] = self._count.get(device, 0) + 1
            self.down.update(outage.devices)
            if outage.end is not None:
                heappush(self._repairs, (outage.end, self._passed, outage.devices))
            self._passed += 1
            self._outage = next(self._coming, None)
        while self._repairs and self._repairs[0][0] <= now:
            for device in heappop(self._repairs)[2]:
                self._count[device] -= 1
                if not self._count[device]:
                    del self._count[device]
                    self.down.discard(device)
        if self.down == before:
            return began, (), ()
        return began, tuple(sorted(self.down - before)), tuple(sorted(before - self.down))
