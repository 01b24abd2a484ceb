"""Chronus' selector: in which leases jobs with deadlines run (SoCC '21; its published artifact).

Time is cut into leases; lease 0 begins now. Devices are counted only: on nodes of eight, jobs whose sizes are 1, 2, 4
or a multiple of 8 always fit without being spread if their sum fits (`rounded_up`, and a test that tries all of them).

Our program is smaller than the artifact's and has the same optimum: it says with one variable whether job i runs in
lease t, not with one for each of its deadlines. Keeping deadline p means that enough of the leases before it are the
job's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from paictl.frozen import frozen
from paictl.sim.programs.linear import Program

_PREFERENCE: Final = 1e-4
"""Of the largest value: what using devices in lease 0 may weigh against keeping deadlines."""


@frozen
class Request:
    """A job with deadlines: devices while it runs, leases it needs, and (lease before which, worth) by rising lease.

    `promised`: it was admitted, so one of its deadlines is kept, and losing the last one is not an option.
    """

    devices: int
    need: int
    options: tuple[tuple[int, float], ...]
    promised: bool


Plan = Mapping[int, frozenset[int]]
"""Request → the leases it runs in; a request that keeps no deadline is absent."""


@frozen
class Chosen:
    """A plan and where it is from: `solver` is highs or greedy; `proven` says that none is worth more."""

    plan: Plan
    solver: str
    proven: bool


def rounded_up(devices: int) -> int:
    """Devices of the next size of the set 1, 2, 4, 8n."""
    if devices <= 2:
        return devices
    return 4 if devices <= 4 else -(-devices // 8) * 8


def fits(plan: Plan, requests: Sequence[Request], capacity: int) -> bool:
    """Whether no lease gives out more devices than there are, and every promise is kept; for tests and incumbents."""
    used: dict[int, int] = {}
    for index, leases in plan.items():
        for lease in leases:
            used[lease] = used.get(lease, 0) + requests[index].devices
    if any(amount > capacity for amount in used.values()):
        return False
    return all(worth(plan, index, request) is not None for index, request in enumerate(requests) if request.promised)


def worth(plan: Plan, index: int, request: Request) -> float | None:
    """What the first deadline that a plan keeps is worth, None if it keeps none."""
    leases = plan.get(index, frozenset())
    for due, value in request.options:
        if sum(lease < due for lease in leases) >= request.need:
            return value
    return None


class Calendar:
    """Devices that are left in each lease, and which jobs have them; leases are numbered from the beginning of time.

    `capacity` is what a lease has in all. A lease that nobody has is not stored.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._free: dict[int, int] = {}
        self._jobs: dict[int, set[int]] = {}
        self._plans: dict[int, tuple[list[int], int]] = {}

    def leases(self, job: int) -> tuple[list[int], int]:
        """(its leases, rising; its devices)."""
        return self._plans[job]

    def jobs(self, lease: int) -> AbstractSet[int]:
        """Who has devices in a lease."""
        return self._jobs.get(lease, frozenset())

    def latest(self, devices: int, need: int, first: int, due: int) -> list[int] | None:
        """The last `need` leases from `first` on and before `due` with that many devices left; None: there are not."""
        chosen: list[int] = []
        free, capacity = self._free, self.capacity
        for lease in range(due - 1, first - 1, -1):
            if free.get(lease, capacity) >= devices:
                chosen.append(lease)
                if len(chosen) == need:
                    return chosen[::-1]
        return None

    def put(self, job: int, leases: Sequence[int], devices: int) -> None:
        """Give a job devices in these leases, rising."""
        self._plans[job] = list(leases), devices
        for lease in leases:
            self._free[lease] = self._free.get(lease, self.capacity) - devices
            self._jobs.setdefault(lease, set()).add(job)

    def drop(self, job: int) -> None:
        """Take all its leases away; nothing happens if it has none."""
        leases, devices = self._plans.pop(job, ([], 0))
        for lease in leases:
            self._take(job, lease, devices)

    def trim(self, job: int, first: int, need: int) -> None:
        """Take away the leases before `first`, and the earliest of the others if it needs fewer."""
        leases, devices = self._plans[job]
        past = bisect_left(leases, first)
        spare = max(past, len(leases) - need)
        for lease in leases[past:spare]:
            self._take(job, lease, devices)
        self._plans[job] = leases[spare:], devices

    def forget(self, lease: int) -> None:
        """It has begun: who has it is settled."""
        self._free.pop(lease, None)
        self._jobs.pop(lease, None)

    def _take(self, job: int, lease: int, devices: int) -> None:
        if lease in self._jobs:
            self._free[lease] += devices
            self._jobs[lease].discard(job)


def _best(request: Request) -> float:
    return max((value for _, value in request.options), default=0.0)


def choose(
    requests: Sequence[Request], capacity: int, *, busy: bool, nodes: int, known: Plan | None = None
) -> Chosen | None:
    """The plan that keeps the most worth of deadlines and every promise; None if not all promises can be kept.

    Among equals one that uses lease 0 (`busy`) or leaves it to others. `known` is a plan that fits already: it is only
    improved upon, and it is the answer where the effort (`nodes`, see `Program.solve`) found none better.
    """
    if not requests:
        return Chosen({}, "highs", proven=True)
    program = Program()
    top = max(_best(request) for request in requests) or 1.0
    used: dict[int, list[tuple[int, float]]] = {}
    runs: list[list[int]] = []
    takes: list[list[int]] = []
    small = _PREFERENCE * top / max(1, sum(request.devices for request in requests))
    for request in requests:
        last = request.options[-1][0] if request.options else 0
        x = []
        for lease in range(last):
            gain = (small if busy else -small) * request.devices if lease == 0 else 0.0
            variable = program.variable(0.0, 1.0, gain, integer=True)
            used.setdefault(lease, []).append((variable, float(request.devices)))
            x.append(variable)
        s = [program.variable(0.0, 1.0, value, integer=True) for _, value in request.options]
        program.row([(variable, 1.0) for variable in x], at_most=float(request.need))
        program.row([(variable, 1.0) for variable in s], at_least=float(request.promised), at_most=1.0)
        for (due, _), taken in zip(request.options, s, strict=True):
            program.row([*((variable, 1.0) for variable in x[:due]), (taken, -float(request.need))], at_least=0.0)
        runs.append(x)
        takes.append(s)
    for terms in used.values():
        program.row(terms, at_most=float(capacity))
    start = None if known is None else _values(requests, known, runs, takes)
    solution = program.solve(nodes=nodes, start=start)
    if solution is None:
        return None if known is None else Chosen(known, "highs", proven=False)
    plan = {
        index: frozenset(lease for lease, variable in enumerate(x) if solution.values[variable] > 0.5)
        for index, x in enumerate(runs)
        if any(solution.values[variable] > 0.5 for variable in takes[index])
    }
    return Chosen(plan, "highs", solution.proven)


def _values(
    requests: Sequence[Request], plan: Plan, runs: Sequence[Sequence[int]], takes: Sequence[Sequence[int]]
) -> list[float]:
    """A plan as values of the program's variables."""
    values = [0.0] * (sum(map(len, runs)) + sum(map(len, takes)))
    for index, request in enumerate(requests):
        kept = worth(plan, index, request)
        if kept is None:
            continue
        for lease in sorted(plan[index])[: request.need]:
            if lease < len(runs[index]):
                values[runs[index][lease]] = 1.0
        for (due, value), taken in zip(request.options, takes[index], strict=True):
            if value == kept and sum(lease < due for lease in plan[index]) >= request.need:
                values[taken] = 1.0
                break
    return values
