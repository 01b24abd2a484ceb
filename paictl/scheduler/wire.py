"""HiveD's pod annotations: the one place that reads and writes them.

`pod-scheduling-spec` says what a pod asks for, `pod-bind-info` where it and its group run, `pod-leaf-cell-isolation`
the devices of its containers. Keys are HiveD's, those from before 0.3.3 are still read. Values are those of JSON;
texts are written as JSON, which is YAML too, and read by a parser that the caller gives. What is malformed is a
`RequestError` that names the pod and the field; whether it makes sense in a cluster is the engine's to judge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from paictl.scheduler.decision import BindInfo, PodPlacement
from paictl.scheduler.errors import RequestError
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.request import MAX_GROUP, MAX_PRIORITY, STANDS_FOR, Member, PodRequest, shown

PREFIX: Final = "hivedscheduler.microsoft.com/"
SCHEDULING_SPEC: Final = f"{PREFIX}pod-scheduling-spec"
BIND_INFO: Final = f"{PREFIX}pod-bind-info"
ISOLATION: Final = f"{PREFIX}pod-leaf-cell-isolation"
PREEMPTED_FOR: Final = "paictl.io/preempted-for"
"""The group for which a pod is evicted, as the extender notes it; HiveD has no such annotation."""
ENABLE: Final = f"{PREFIX}pod-scheduling-enable"
"""Not an annotation: the resource whose limit of 1 makes kube-scheduler ask the extender about a pod."""
GATE: Final = "paictl.io/cells"
"""Not an annotation either: the scheduling gate that the placer removes; HiveD has none."""
GRANTED: Final = "paictl.io/virtual-clusters"
"""Annotation of a Namespace: the virtual clusters that its pods may use, separated by commas."""

Json = dict[str, Any]
Parse = Callable[[str], object]
"""Reads a YAML text; raises ValueError if it is not YAML."""

MAX_REPAIRS: Final = 1 << 30
"""Repairs that an annotation may count."""
_SPEC: Final = "pod-scheduling-spec"
_INFO: Final = "pod-bind-info"
_INDEX: Final = re.compile(r"([0-9]{1,9})")
_INSTANCE: Final = re.compile(r"([0-9]{1,9}):([0-9])")
_LEAVES: Final = re.compile(r'"leafCellIsolation":\s*\[([0-9,\s]*)\]')
_OLD_KEYS: Final = {
    "leafCellType": "gpuType",
    "leafCellNumber": "gpuNumber",
    "leafCellIsolation": "gpuIsolation",
    "physicalLeafCellIndices": "physicalGpuIndices",
}
"""Names of fields before HiveD 0.3.3."""


def pod_name(namespace: str | None, name: str) -> str:
    """How requests and messages name a pod."""
    return f"{namespace or 'default'}/{name}"


# --- what a pod asks for


def parse_request(text: str | None, uid: str, name: str, parse: Parse | None) -> PodRequest:
    """The request in a pod's annotation; `name` is ``namespace/name``. Raises `RequestError`."""
    if not isinstance(text, str) or not text.strip() or parse is None:
        raise RequestError(name, _SPEC, "the annotation is missing or empty")
    return read_request(_parsed(text, name, _SPEC, parse), uid, name)


def read_request(spec: object, uid: str, name: str) -> PodRequest:
    """The request in HiveD's scheduling spec as loaded from YAML or JSON. Raises `RequestError`."""
    if not isinstance(spec, Mapping):
        raise RequestError(name, _SPEC, f"expected a mapping, found {type(spec).__name__}")
    reader = _SpecReader(spec, name)
    leaf_number = reader.number("leafCellNumber", 1)
    group, members = reader.group(leaf_number)
    request = PodRequest(
        uid=uid,
        name=name,
        vc=reader.text("virtualCluster"),
        priority=reader.priority(),
        leaf_number=leaf_number,
        group=group,
        members=members,
        leaf_type=reader.text("leafCellType"),
        pinned_id=reader.text("pinnedCellId"),
        lazy_preemption=reader.flag("lazyPreemptionEnable", default=False),
        ignore_suggested=reader.flag("ignoreK8sSuggestedNodes", default=True),
        repair=reader.flag("memberRepairEnable", default=False),
    )
    if not request.vc:
        raise RequestError(name, "virtualCluster", "is empty")
    return request


def request_json(request: PodRequest) -> Json:
    """The inverse of `read_request`; for a pod that is its own group, the group is left out."""
    spec: Json = {
        "virtualCluster": request.vc,
        "priority": request.priority,
        "pinnedCellId": request.pinned_id,
        "leafCellType": request.leaf_type,
        "leafCellNumber": request.leaf_number,
        "lazyPreemptionEnable": request.lazy_preemption,
        "ignoreK8sSuggestedNodes": request.ignore_suggested,
    }
    if request.repair:  # not HiveD's: left out unless it is requested
        spec["memberRepairEnable"] = True
    if (request.group, request.members) != (request.name, ((request.leaf_number, 1),)):
        members = [{"podNumber": pods, "leafCellNumber": leaves} for leaves, pods in request.members]
        spec["affinityGroup"] = {"name": request.group, "members": members}
    return spec


class _SpecReader:
    """Fields of a spec with their types checked."""

    def __init__(self, spec: Mapping[str, object], pod: str) -> None:
        self.spec = spec
        self.pod = pod

    def text(self, key: str) -> str:
        value = _value(self.spec, key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise RequestError(self.pod, _written(self.spec, key), f"expected a text, found {shown(value)}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.spec.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise RequestError(self.pod, key, f"expected true or false, found {shown(value)}")
        return value

    def priority(self) -> int:
        value = self.spec.get("priority")
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int):
            raise RequestError(self.pod, "priority", f"expected a whole number, found {shown(value)}")
        if not OPPORTUNISTIC <= value <= MAX_PRIORITY:
            raise RequestError(self.pod, "priority", f"must lie in -1..{MAX_PRIORITY}, is {shown(value)}")
        return value

    def number(self, key: str, least: int) -> int:
        path = _written(self.spec, key)
        value = self._count(_value(self.spec, key), path, least)
        if value > MAX_GROUP:
            raise RequestError(self.pod, path, f"must be at most {MAX_GROUP:,}, is {shown(value)}")
        return value

    def _count(self, value: object, path: str, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise RequestError(self.pod, path, f"expected a whole number, found {shown(value)}")
        if value < least:
            raise RequestError(self.pod, path, f"must be at least {least}, is {shown(value)}")
        return value

    def group(self, leaf_number: int) -> tuple[str, tuple[Member, ...]]:
        """Name and members of the affinity group; without one the pod is its own."""
        data = self.spec.get("affinityGroup")
        if data is None:
            return self.pod, ((leaf_number, 1),)
        if not isinstance(data, dict):
            raise RequestError(self.pod, "affinityGroup", f"expected a mapping, found {shown(data)}")
        name = data.get("name")
        if not isinstance(name, str) or not name:
            raise RequestError(self.pod, "affinityGroup.name", "is empty" if not name else "expected a text")
        if STANDS_FOR in name:  # it would be taken for a stand-in for a member of another gang
            raise RequestError(self.pod, "affinityGroup.name", f"must not contain {STANDS_FOR!r}")
        members: dict[int, int] = {}
        listed = data.get("members")
        for i, item in enumerate(listed if isinstance(listed, list) else ()):
            path = f"affinityGroup.members[{i}]"
            if not isinstance(item, dict):
                raise RequestError(self.pod, path, f"expected a mapping, found {shown(item)}")
            pods = self._count(item.get("podNumber"), f"{path}.podNumber", 1)
            key = _written(item, "leafCellNumber")
            leaves = self._count(_value(item, "leafCellNumber"), f"{path}.{key}", 1)
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


# --- where it runs


def bind_info_json(info: BindInfo) -> Json:
    """A bind annotation with HiveD's keys."""
    return _head(info) | {"affinityGroupBindInfo": _rows(info)} | _tail(info)


def _head(info: BindInfo) -> Json:
    return {"node": info.node, "leafCellIsolation": list(info.devices), "cellChain": info.chain}


def _rows(info: BindInfo) -> list[Json]:
    return [
        {
            "podPlacements": [
                {
                    "physicalNode": place.node,
                    "physicalLeafCellIndices": list(place.devices),
                    "preassignedCellTypes": None if place.preassigned is None else list(place.preassigned),
                }
                for place in pods
            ]
        }
        for pods in info.members
    ]


def _tail(info: BindInfo) -> Json:
    return {"repairs": info.repairs} if info.repairs else {}


def bind_info_text(info: BindInfo) -> str:
    """The value of the annotation `BIND_INFO`."""
    return BindInfoTexts().text(info)


class BindInfoTexts:
    """Writes bind annotations. A gang's rows are most of each and the same in all of them, so they are written once."""

    def __init__(self) -> None:
        self._members: object = None
        self._rows = ""

    def text(self, info: BindInfo) -> str:
        """The value of the annotation `BIND_INFO`."""
        if info.members is not self._members:
            self._members, self._rows = info.members, _compact(_rows(info))
        rows, tail = f',"affinityGroupBindInfo":{self._rows}', _compact(_tail(info))[1:-1]
        return f"{_compact(_head(info))[:-1]}{rows}{',' if tail else ''}{tail}}}"


def _compact(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def parse_bind_info(text: str | None, name: str, parse: Parse) -> BindInfo:
    """The inverse of `bind_info_text`, also for HiveD's texts. `name` is ``namespace/name``. Raises `RequestError`."""
    if not isinstance(text, str) or not text.strip():
        raise RequestError(name, _INFO, "the annotation is missing or empty")
    return read_bind_info(_parsed(text, name, _INFO, parse), name)


def read_bind_info(data: object, name: str = "") -> BindInfo:
    """The inverse of `bind_info_json`; `name` is the pod's, for messages. Raises `RequestError`."""
    reader = _InfoReader(name)
    top = reader.mapping(data, "")
    members = []
    for i, member in enumerate(reader.items(top, "affinityGroupBindInfo", "")):
        path = f"affinityGroupBindInfo[{i}]"
        rows = reader.items(reader.mapping(member, path), "podPlacements", f"{path}.")
        members.append(tuple(reader.place(row, f"{path}.podPlacements[{j}]") for j, row in enumerate(rows)))
    return BindInfo(
        reader.text(top, "node", ""),
        reader.devices(top, "leafCellIsolation", ""),
        reader.text(top, "cellChain", ""),
        tuple(members),
        reader.repairs(top),
    )


class _InfoReader:
    """Fields of a bind annotation with their types checked."""

    def __init__(self, pod: str) -> None:
        self.pod = pod

    def place(self, data: object, path: str) -> PodPlacement:
        row = self.mapping(data, path)
        types = row.get("preassignedCellTypes")
        if types is not None and not (isinstance(types, list) and all(isinstance(kind, str) for kind in types)):
            raise self._wrong(f"{path}.preassignedCellTypes", "a list of texts", types)
        return PodPlacement(
            self.text(row, "physicalNode", f"{path}."),
            self.devices(row, "physicalLeafCellIndices", f"{path}."),
            None if types is None else tuple(types),
        )

    def mapping(self, value: object, path: str) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            raise self._wrong(path or _INFO, "a mapping", value)
        return value

    def items(self, spec: Mapping[str, object], key: str, path: str) -> list[object]:
        rows = spec.get(key)
        if rows is None:
            return []
        if not isinstance(rows, list):
            raise self._wrong(f"{path}{key}", "a list", rows)
        return rows

    def text(self, spec: Mapping[str, object], key: str, path: str) -> str:
        value = spec.get(key)
        if not isinstance(value, str):
            raise self._wrong(f"{path}{key}", "a text", value)
        return value

    def repairs(self, spec: Mapping[str, object]) -> int:
        value = spec.get("repairs", 0)
        if type(value) is not int or not 0 <= value <= MAX_REPAIRS:
            raise self._wrong("repairs", f"a whole number in 0..{MAX_REPAIRS}", value)
        return value

    def devices(self, spec: Mapping[str, object], key: str, path: str) -> tuple[int, ...]:
        indices = _value(spec, key)
        if not isinstance(indices, list) or not all(type(device) is int for device in indices):
            raise self._wrong(f"{path}{_written(spec, key)}", "a list of device indices", indices)
        return tuple(indices)

    def _wrong(self, path: str, expected: str, value: object) -> RequestError:
        where = path if path == _INFO else f"{_INFO}.{path}"
        return RequestError(self.pod, where, f"expected {expected}, found {shown(value)}")


def isolation_text(devices: tuple[int, ...], instances: int = 0) -> str:
    """The value of the annotation `ISOLATION`: device indices as NVIDIA's runtime reads them.

    `instances` is the number of MIG instances of each GPU if leaf cells are MIG instances, which are written as
    ``GPU:instance``; 0 for whole GPUs.
    """
    if not instances:
        return ",".join(map(str, devices))
    return ",".join(f"{device // instances}:{device % instances}" for device in devices)


def noted_instances(annotations: Mapping[str, object]) -> str:
    """The annotation `ISOLATION` of a pod with MIG instances; empty for whole GPUs, whose indices are enough."""
    text = annotations.get(ISOLATION)
    return text if isinstance(text, str) and ":" in text else ""


def parse_isolation(text: str, name: str, instances: int = 0) -> tuple[int, ...]:
    """The inverse of `isolation_text`. Raises `RequestError`."""
    form = _INSTANCE if instances else _INDEX
    matches = [form.fullmatch(part.strip()) for part in text.split(",")]
    parts = [tuple(map(int, match.groups())) for match in matches if match is not None]
    if len(parts) < len(matches) or any(instance >= instances for _, *rest in parts for instance in rest):
        expected = f"MIG instances as in 0:0,0:{instances - 1}" if instances else "device indices as in 0,1,2"
        raise RequestError(name, "pod-leaf-cell-isolation", f"expected {expected}, found {shown(text)}")
    return tuple(gpu * instances + rest[0] if rest else gpu for gpu, *rest in parts)


def isolation_agrees(text: str, devices: tuple[int, ...], instances: int = 0) -> bool:
    """Whether a pod's `ISOLATION` names the leaf cells of its bind annotation, as GPUs are divided now.

    Only MIG is checked: for whole GPUs that are still whole, the bind annotation counts, as in HiveD.
    """
    if not text or not (instances or ":" in text):
        return True
    try:
        return set(parse_isolation(text, "", instances)) == set(devices)
    except RequestError:
        return False


def noted_devices(annotations: Mapping[str, object]) -> tuple[int, ...]:
    """The indices of the leaf cells within their node, as a pod's annotations say; empty without any.

    `ISOLATION` does not number MIG instances consecutively, so their indices come from the bind annotation. Only its
    beginning is read, since a large gang's annotation is long.
    """
    text = annotations.get(ISOLATION)
    parts = [part.strip() for part in text.split(",")] if isinstance(text, str) else []
    if any(":" in part for part in parts):
        match = _LEAVES.search(str(annotations.get(BIND_INFO, "")))
        parts = [part.strip() for part in match[1].split(",")] if match is not None else []
    return tuple(int(part) for part in parts if _INDEX.fullmatch(part))


def _parsed(text: str, name: str, field: str, parse: Parse) -> object:
    try:
        return parse(text)
    except ValueError as error:
        raise RequestError(name, field, f"is not YAML: {error}") from error


def _value(spec: Mapping[str, object], key: str) -> object:
    value = spec.get(key)
    return spec.get(_OLD_KEYS[key]) if value is None and key in _OLD_KEYS else value


def _written(spec: Mapping[str, object], key: str) -> str:
    """The name under which a field is given: an error message has to use the name that its reader wrote."""
    old = _OLD_KEYS.get(key, key)
    return old if spec.get(key) is None and spec.get(old) is not None else key
