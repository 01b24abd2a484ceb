"""The lines of `hived`: guaranteed jobs that wait by tenant, opportunistic ones by owner, each by what they ask for."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop
from typing import TYPE_CHECKING

from paictl.sim.policies.hived_parameters import HivedParameters
from paictl.sim.policies.promised_starts import Row
from paictl.sim.view import JobView
from paictl.units import Millis
from paictl.workload.lentorder import DecayedUse, Rank, Turns, Who
from paictl.workload.usage import UsageSpan

if TYPE_CHECKING:
    from paictl.workload.departments import UnusedPromises

Apart = tuple[str, str, int]
"""What else sets jobs apart: their user where users have limits; with reservations, their own and their limit."""
Kind = tuple[int, int, str | None, str, Apart]
"""Waiting jobs that are alike: (devices, devices of a pod, device type, pinned cell, what else sets them apart)."""


class Tenant:
    """The guaranteed jobs of one VC that wait, by priority and order; and what it runs outside its quota."""

    __slots__ = ("changed", "heaps", "spare", "weight")

    def __init__(self, weight: int) -> None:
        self.heaps: dict[Kind, list[Row]] = {}
        self.changed = False
        """Whether something happened that may let one of them start."""
        self.weight = max(weight, 1)
        self.spare = 0
        """Devices of its opportunistic jobs."""


def first_in_line(tenant: Tenant) -> tuple[int, int]:
    """Priority and turn of the first job that waits; behind all others if none does."""
    return min((heap[0][:2] for heap in tenant.heaps.values()), default=(1, 0))


def take_out(heap: list[Row], row: Row) -> None:
    """Take a job out of a heap."""
    if heap[0] is row:
        heappop(heap)
    else:
        heap.remove(row)
        heapify(heap)


class SpareLines:
    """The opportunistic jobs that wait, a line for each kind and owner, and what decides whose line goes first.

    An owner is a VC or, where use decides, a user in a VC.
    """

    def __init__(self, tenants: Mapping[str, Tenant], parameters: HivedParameters) -> None:
        self._tenants = tenants
        self._by_share = parameters.order == "share"
        self.by_use = parameters.opportunistic_order == "decayed-use"
        self.used = DecayedUse(Millis(max(1000, parameters.half_life)))
        """What opportunistic jobs that do not run any more have used."""
        self.lines: dict[Kind, dict[Who, deque[JobView]]] = {}
        self.changed = False
        """Whether something happened that may let one of them start."""
        self._lent: Counter[Who] = Counter()
        """Devices of those that run."""
        self._recent: tuple[Millis, Counter[Who]] | None = None

    def __bool__(self) -> bool:
        return bool(self.lines)

    def _owner(self, job: JobView) -> Who:
        return job.vc, job.user if self.by_use else ""

    def add(self, kind: Kind, job: JobView) -> None:
        """A job waits behind those of its line."""
        self.lines.setdefault(kind, {}).setdefault(self._owner(job), deque()).append(job)
        self.changed = True

    def started(self, kind: Kind, job: JobView) -> None:
        """A job that waited has devices."""
        owner, lines = self._owner(job), self.lines[kind]
        lines[owner].remove(job)
        if not lines[owner]:
            del lines[owner]
            if not lines:
                del self.lines[kind]
        self._tenants[job.vc].spare += job.gpus
        self._lent[owner] += job.gpus

    def gone(self, job: JobView, number: int) -> None:
        """A job has lost its devices, this many."""
        self._tenants[job.vc].spare -= number
        self._lent[self._owner(job)] -= number

    def firsts(self) -> Iterator[JobView]:
        """The first job of each line."""
        return (line[0] for lines in self.lines.values() for line in lines.values())

    def borrowed(self) -> dict[str, int]:
        """Devices of those that run, by tenant."""
        return {vc: tenant.spare for vc, tenant in self._tenants.items() if tenant.spare}

    def next(
        self, free: int, turns: Mapping[int, int], rank: Callable[[str, str, int], Rank], stuck: Collection[Kind],
        held: Collection[tuple[Kind, Who]],
    ) -> tuple[Kind, Who] | None:  # fmt: skip
        """The line whose first job is tried next: the one of the least rank; of equals the one that came first.

        Lines of kinds in `stuck` and lines in `held` are passed over, and jobs that ask for more than is free.
        """
        ahead = [
            (rank(*who, kind[0]), turns[line[0].number], kind, who)
            for kind, lines in self.lines.items()
            if kind not in stuck and kind[0] <= free
            for who, line in lines.items()
            if (kind, who) not in held
        ]
        return min(ahead, key=lambda row: row[:2])[2:] if ahead else None

    def rank(
        self, now: Millis, running: Iterable[UsageSpan], unused: UnusedPromises | None
    ) -> Callable[[str, str, int], Rank]:
        """Whose jobs go first, less is earlier: the tenant that uses least, by its quota, or has lately; or equal.

        `running` is what those that run have used. With departments jobs go before all others for which there are
        unused devices in theirs (`unused`).
        """
        if not self.by_use:
            by_share, tenants = self._by_share, self._tenants
            if unused is None:
                return lambda vc, _user, _devices: (0, by_share * tenants[vc].spare / tenants[vc].weight, 0)
            return lambda vc, _user, devices: (
                unused.of(vc, devices).level, by_share * tenants[vc].spare / tenants[vc].weight, 0
            )  # fmt: skip
        if self._recent is None or self._recent[0] != now:
            self._recent = now, self.used.until(now, running)
        weights = {vc: tenant.weight for vc, tenant in self._tenants.items()}
        return Turns(self._recent[1], self._lent, weights, self.used.half_life, unused).rank
