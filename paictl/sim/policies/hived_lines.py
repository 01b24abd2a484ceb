"""The queues of `hived`: waiting guaranteed jobs by tenant, opportunistic jobs by owner, both by kind of request."""

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
"""(user, reservation, run-time limit) of a job: the user only if users have limits, the rest only with reservations."""
Kind = tuple[int, int, str | None, str, Apart]
"""Key of interchangeable waiting jobs: (devices, devices of a pod, device type, pinned cell, `Apart`)."""


class Tenant:
    """The waiting guaranteed jobs of one VC, by priority and turn, and its use outside the quota."""

    __slots__ = ("changed", "heaps", "spare", "weight")

    def __init__(self, weight: int) -> None:
        self.heaps: dict[Kind, list[Row]] = {}
        self.changed = False
        """Whether an event may let one of them start."""
        self.weight = max(weight, 1)
        self.spare = 0
        """Devices of its running opportunistic jobs."""


def first_in_line(tenant: Tenant) -> tuple[int, int]:
    """(-priority, turn) of the tenant's first waiting job; behind all others if none waits."""
    return min((heap[0][:2] for heap in tenant.heaps.values()), default=(1, 0))


def take_out(heap: list[Row], row: Row) -> None:
    """Take a job out of a heap."""
    if heap[0] is row:
        heappop(heap)
    else:
        heap.remove(row)
        heapify(heap)


class SpareLines:
    """The waiting opportunistic jobs, a line for each kind and owner, and the order of the lines.

    An owner is a VC or, if the order is by use, a user in a VC.
    """

    def __init__(self, tenants: Mapping[str, Tenant], parameters: HivedParameters) -> None:
        self._tenants = tenants
        self._by_share = parameters.order == "share"
        self.by_use = parameters.opportunistic_order == "decayed-use"
        self.used = DecayedUse(Millis(max(1000, parameters.half_life)))
        """Past use of opportunistic jobs that no longer run."""
        self.lines: dict[Kind, dict[Who, deque[JobView]]] = {}
        self.changed = False
        """Whether an event may let one of them start."""
        self._lent: Counter[Who] = Counter()
        """By owner, devices of running opportunistic jobs."""
        self._recent: tuple[Millis, Counter[Who]] | None = None

    def __bool__(self) -> bool:
        return bool(self.lines)

    def _owner(self, job: JobView) -> Who:
        return job.vc, job.user if self.by_use else ""

    def add(self, kind: Kind, job: JobView) -> None:
        """Add a job at the end of its line."""
        self.lines.setdefault(kind, {}).setdefault(self._owner(job), deque()).append(job)
        self.changed = True

    def started(self, kind: Kind, job: JobView) -> None:
        """Take a job that has started out of its line."""
        owner, lines = self._owner(job), self.lines[kind]
        lines[owner].remove(job)
        if not lines[owner]:
            del lines[owner]
            if not lines:
                del self.lines[kind]
        self._tenants[job.vc].spare += job.gpus
        self._lent[owner] += job.gpus

    def gone(self, job: JobView, number: int) -> None:
        """Account for a running job that no longer has its `number` devices."""
        self._tenants[job.vc].spare -= number
        self._lent[self._owner(job)] -= number

    def firsts(self) -> Iterator[JobView]:
        """The first job of each line."""
        return (line[0] for lines in self.lines.values() for line in lines.values())

    def borrowed(self) -> dict[str, int]:
        """By tenant, devices of its running opportunistic jobs; tenants without any are absent."""
        return {vc: tenant.spare for vc, tenant in self._tenants.items() if tenant.spare}

    def next(
        self,
        free: int,
        turns: Mapping[int, int],
        rank: Callable[[str, str, int], Rank],
        stuck: Collection[Kind],
        held: Collection[tuple[Kind, Who]],
    ) -> tuple[Kind, Who] | None:
        """The line whose first job is tried next: the one of the lowest rank, of equals the earliest turn.

        Skips lines of kinds in `stuck`, lines in `held`, and kinds that need more than `free` devices.
        """
        ahead = [
            (rank(*owner, kind[0]), turns[line[0].number], kind, owner)
            for kind, lines in self.lines.items()
            if kind not in stuck and kind[0] <= free
            for owner, line in lines.items()
            if (kind, owner) not in held
        ]
        return min(ahead, key=lambda row: row[:2])[2:] if ahead else None

    def rank(
        self, now: Millis, running: Iterable[UsageSpan], unused: UnusedPromises | None
    ) -> Callable[[str, str, int], Rank]:
        """(tenant, user, devices) -> rank, the lowest first: by use / quota, by recent use, or all equal.

        `running`: use of the running jobs. With departments (`unused`), jobs that fit in the unused devices of their
        own department go before all others.
        """
        if not self.by_use:
            by_share, tenants = self._by_share, self._tenants
            if unused is None:
                return lambda vc, _user, _devices: (0, by_share * tenants[vc].spare / tenants[vc].weight, 0)
            return lambda vc, _user, devices: (
                unused.of(vc, devices).level,
                by_share * tenants[vc].spare / tenants[vc].weight,
                0,
            )
        if self._recent is None or self._recent[0] != now:
            self._recent = now, self.used.until(now, running)
        weights = {vc: tenant.weight for vc, tenant in self._tenants.items()}
        return Turns(self._recent[1], self._lent, weights, self.used.half_life, unused).rank
