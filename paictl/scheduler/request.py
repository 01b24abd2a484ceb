"""What a pod asks for, read from its scheduling spec and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from paictl.scheduler.errors import RequestError
from paictl.scheduler.occupancy import OPPORTUNISTIC

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PRIORITY: Final = 1000
MAX_GROUP: Final = 1 << 20
"""Leaf cells that a group may ask for, eight times those of the largest cluster that is planned for."""
SHOWN: Final = 40
"""Characters of a wrong value that a message repeats."""

_OLD_KEYS: Final = {"leafCellType": "gpuType", "leafCellNumber": "gpuNumber"}
"""Names of fields before HiveD 0.3.3, still read."""

Member = tuple[int, int]
"""Leaf cells of a pod, number of such pods."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod's scheduling spec. `members` is in ascending order of leaf cells and holds each number once."""

    uid: str
    name: str
    """``namespace/name``"""
    vc: str
    priority: int
    leaf_number: int
    group: str
    members: tuple[Member, ...]
    leaf_type: str = ""
    pinned_id: str = ""
    lazy_preemption: bool = False
    ignore_suggested: bool = True

    @property
    def guaranteed(self) -> bool:
        """Whether the pod asks for its VC's quota."""
        return self.priority > OPPORTUNISTIC

    @classmethod
    def from_spec(cls, spec: Mapping[str, object], uid: str, name: str) -> PodRequest:
        """Read HiveD's pod scheduling spec; `name` is ``namespace/name``.

        Raises `RequestError` naming the pod and the field.
        """
        read = _Reader(spec, name)
        leaf_number = read.number("leafCellNumber", 1)
        group, members = read.group(leaf_number)
        request = cls(
            uid=uid,
            name=name,
            vc=read.text("virtualCluster"),
            priority=read.priority(),
            leaf_number=leaf_number,
            group=group,
            members=members,
            leaf_type=read.text("leafCellType"),
            pinned_id=read.text("pinnedCellId"),
            lazy_preemption=read.flag("lazyPreemptionEnable", default=False),
            ignore_suggested=read.flag("ignoreK8sSuggestedNodes", default=True),
        )
        if not request.vc:
            raise RequestError(name, "virtualCluster", "is empty")
        return request


def shown(value: object) -> str:
    """A wrong value in a message: short, on one line, and never the work of writing out a nested one."""
    if isinstance(value, dict | list | tuple):
        return f"a {'mapping' if isinstance(value, dict) else 'list'}"
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a huge number"
    text = repr(value[: SHOWN + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


class _Reader:
    """Fields of a spec with their types checked."""

    def __init__(self, spec: Mapping[str, object], pod: str) -> None:
        self.spec = spec
        self.pod = pod

    def value(self, spec: Mapping[str, object], key: str) -> object:
        found = spec.get(key)
        return spec.get(_OLD_KEYS[key]) if found is None and key in _OLD_KEYS else found

    def written(self, spec: Mapping[str, object], key: str) -> str:
        """The name under which a field is given: an error names what its writer can find."""
        old = _OLD_KEYS.get(key, key)
        return old if spec.get(key) is None and spec.get(old) is not None else key

    def text(self, key: str) -> str:
        found = self.value(self.spec, key)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise RequestError(self.pod, self.written(self.spec, key), f"expected a text, found {shown(found)}")
        return found

    def flag(self, key: str, *, default: bool) -> bool:
        found = self.spec.get(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise RequestError(self.pod, key, f"expected true or false, found {shown(found)}")
        return found

    def priority(self) -> int:
        found = self.spec.get("priority")
        if found is None:
            return 0
        if isinstance(found, bool) or not isinstance(found, int):
            raise RequestError(self.pod, "priority", f"expected a whole number, found {shown(found)}")
        if not OPPORTUNISTIC <= found <= MAX_PRIORITY:
            raise RequestError(self.pod, "priority", f"must lie in -1..{MAX_PRIORITY}, is {shown(found)}")
        return found

    def number(self, key: str, least: int) -> int:
        path = self.written(self.spec, key)
        found = self._count(self.value(self.spec, key), path, least)
        if found > MAX_GROUP:
            raise RequestError(self.pod, path, f"must be at most {MAX_GROUP:,}, is {shown(found)}")
        return found

    def _count(self, found: object, path: str, least: int) -> int:
        if isinstance(found, bool) or not isinstance(found, int):
            raise RequestError(self.pod, path, f"expected a whole number, found {shown(found)}")
        if found < least:
            raise RequestError(self.pod, path, f"must be at least {least}, is {shown(found)}")
        return found

    def group(self, leaf_number: int) -> tuple[str, tuple[Member, ...]]:
        """Name and members of the affinity group; without one the pod is its own."""
        found = self.spec.get("affinityGroup")
        if found is None:
            return self.pod, ((leaf_number, 1),)
        if not isinstance(found, dict):
            raise RequestError(self.pod, "affinityGroup", f"expected a mapping, found {shown(found)}")
        name = found.get("name")
        if not isinstance(name, str) or not name:
            raise RequestError(self.pod, "affinityGroup.name", "is empty" if not name else "expected a text")
        members: dict[int, int] = {}
        listed = found.get("members")
        for i, item in enumerate(listed if isinstance(listed, list) else ()):
            path = f"affinityGroup.members[{i}]"
            if not isinstance(item, dict):
                raise RequestError(self.pod, path, f"expected a mapping, found {shown(item)}")
            pods = self._count(item.get("podNumber"), f"{path}.podNumber", 1)
            key = self.written(item, "leafCellNumber")
            leaves = self._count(self.value(item, "leafCellNumber"), f"{path}.{key}", 1)
            members[leaves] = members.get(leaves, 0) + pods
            if sum(size * number for size, number in members.items()) > MAX_GROUP:
                raise RequestError(self.pod, path, f"the group asks for more than {MAX_GROUP:,} leaf cells")
        if listed is not None and not isinstance(listed, list):
            raise RequestError(self.pod, "affinityGroup.members", f"expected a list, found {shown(listed)}")
        if leaf_number not in members:
            raise RequestError(
                self.pod, "affinityGroup.members", f"no member has the pod's own {leaf_number} leaf cells"
            )
        return name, tuple(sorted(members.items()))
