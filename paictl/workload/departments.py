"""Departments: named sets of virtual clusters that lend to each other first (`docs/departments.md`).

The cells of virtual clusters remain the guarantee. A department only says whose opportunistic gangs go first, and whose
give way last. Devices are counted, not cells, as a promise is not tied to cells until its owner uses it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.request import gang_of
from paictl.workload.devicelimits import DevicesBy

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group

DEEPEST: Final = 5
"""Departments that a virtual cluster may be in, one around the other."""

UsedDevices = Mapping[tuple[str, bool], int]
"""Devices in use by (virtual cluster, whether with a guarantee)."""


@frozen
class Department:
    """What a configuration says of a department; `devices` is its promise, None: what its parts are promised."""

    name: str
    vcs: tuple[str, ...] = ()
    parent: str = ""
    devices: int | None = None


@frozen
class DepartmentUse:
    """How a department stands: devices that its jobs use, with and without a guarantee, and its promise."""

    name: str
    used: int
    promised: int


class Departments:
    """All departments of a cluster, a forest whose leaves are virtual clusters."""

    def __init__(self, departments: Iterable[Department] = ()) -> None:
        """Raises `ValueError` if one is defined twice, has no virtual cluster, shares one, or is nested too deeply."""
        self.all = tuple(departments)
        self._by_name = {department.name: department for department in self.all}
        if len(self._by_name) < len(self.all):
            raise ValueError(text("a department is defined twice"))
        self._above: dict[str, tuple[str, ...]] = {}
        """The departments of a virtual cluster, the nearest first."""
        for department in self.all:
            line = self._line(department)
            for vc in department.vcs:
                if vc in self._above:
                    raise ValueError(text("virtual cluster {vc} is in two departments", vc=vc))
                self._above[vc] = line
        used = {name for line in self._above.values() for name in line}
        if empty := [department.name for department in self.all if department.name not in used]:
            raise ValueError(text("department {name} has no virtual clusters", name=empty[0]))
        self.depth = max(map(len, self._above.values()), default=0)
        """Departments of the virtual cluster that is in most of them."""

    def __bool__(self) -> bool:
        return bool(self.all)

    def _line(self, department: Department) -> tuple[str, ...]:
        """A department and those around it."""
        line: dict[str, None] = {}
        at: Department | None = department
        while at is not None:
            if at.name in line:
                raise ValueError(text("department {name} is part of itself", name=at.name))
            line[at.name] = None
            if len(line) > DEEPEST:
                raise ValueError(text("departments are nested deeper than {most}", most=DEEPEST))
            if at.parent and at.parent not in self._by_name:
                raise ValueError(text("no department {name!r}", name=at.parent))
            at = self._by_name.get(at.parent)
        return tuple(line)

    def above(self, vc: str) -> tuple[str, ...]:
        """The departments that a virtual cluster is in, the nearest first."""
        return self._above.get(vc, ())

    def closeness(self, vc: str, other: str) -> int:
        """How near two virtual clusters are: 0 for strangers, one more for each department that both are in.

        Itself is one nearer than its nearest sister. One without a department is near to no other.
        """
        own = self.above(vc)
        if vc == other:
            return len(own) + 1 if own else 0
        theirs = self.above(other)
        return next((len(own) - place for place, name in enumerate(own) if name in theirs), 0)

    def promises(self, promised: Mapping[str, int]) -> dict[str, int]:
        """The promise of each department, by those of virtual clusters."""
        parts: Counter[str] = Counter()
        for department in self.all:
            parts[department.name] += sum(promised.get(vc, 0) for vc in department.vcs)
        # Parts before what they are part of.
        for department in sorted(self.all, key=lambda department: -len(self._line(department))):
            if department.devices is not None:
                parts[department.name] = department.devices
            if department.parent:
                parts[department.parent] += parts[department.name]
        return {department.name: parts[department.name] for department in self.all}

    def use(self, promised: Mapping[str, int], used: UsedDevices) -> list[DepartmentUse]:
        """How each department stands."""
        total: Counter[str] = Counter()
        for (vc, _), devices in used.items():
            for name in self.above(vc):
                total[name] += devices
        return [DepartmentUse(name, total[name], number) for name, number in self.promises(promised).items()]


class DevicesInUse(DevicesBy[tuple[str, bool]]):
    """Devices of groups by (virtual cluster, whether with a guarantee)."""

    def _key(self, group: Group, _before: tuple[str, bool] | None) -> tuple[str, bool] | None:
        if group.virtual is not None and gang_of(group.name) != group.name:
            return None  # a preemption for a member of a gang does not count once more
        return group.vc, group.virtual is not None


@frozen
class UnusedPart:
    """Whose unused devices a gang would use.

    `level` is 0 for its own virtual cluster, 1 for its nearest department, and so on; beyond all departments it is a
    stranger everywhere.
    """

    level: int
    department: str = ""
    unused: int = 0


class UnusedPromises:
    """What is unused at an instant, and for whom."""

    def __init__(self, departments: Departments, promised: Mapping[str, int], used: UsedDevices) -> None:
        """`promised` are devices of virtual clusters."""
        self._departments = departments
        own = Counter(promised)
        for (vc, _), devices in used.items():
            own[vc] -= devices
        self._own = own
        self._unused = {
            department.name: department.promised - department.used for department in departments.use(promised, used)
        }

    def of(self, vc: str, devices: int) -> UnusedPart:
        """The nearest promise of which so many devices are unused."""
        return next(self._parts(vc, devices), UnusedPart(self._departments.depth + 1))

    def _parts(self, vc: str, devices: int) -> Iterator[UnusedPart]:
        if self._own[vc] >= devices:
            yield UnusedPart(0, "", self._own[vc])
        for level, name in enumerate(self._departments.above(vc), 1):
            if self._unused[name] >= devices:
                yield UnusedPart(level, name, self._unused[name])
