"""The whole mutable state of an engine as JSON values, and an engine made from them again.

What is written is what the journal has registered, table by table, so nothing can be forgotten that can change; the
digest is written too and checked on the way back. Lists that are mostly one value are written sparsely, bit sets in
hexadecimal. A snapshot is the state half of the dump after an `InvariantError`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.scheduler.decision import Slot
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.journal import Table
from paictl.scheduler.state import digest_of
from paictl.scheduler.wire import bind_info_json, read_bind_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from paictl.cells.spec import ClusterSpec

Json = dict[str, Any]

FORMAT: Final = "paictl-scheduler-state/2"
EARLIER: Final = ("paictl-scheduler-state/1",)
"""Formats that are recognised but no longer read: state in such a format is recovered from nodes and pods."""


class SnapshotError(PaictlError, ValueError):
    """The data is not a snapshot, is damaged, or belongs to another specification."""


@frozen
class StateCopy:
    """The state of an engine at one moment, as shallow copies: the entries of tables are immutable."""

    spec: ClusterSpec
    version: int
    stopped: bool
    tables: tuple[Table, ...]

    def digest(self) -> str:
        """What `State.digest` was at that moment."""
        return digest_of(self.tables)


def copy_state(engine: Engine) -> StateCopy:
    """The current state, to be written later; costs no more than copying the tables."""
    tables = tuple(Table(box.name, box.values.copy(), box.bits) for box in engine.state.journal.tables)
    return StateCopy(engine.spec, engine.version, engine.stopped, tables)


def dump(engine: Engine) -> Json:
    """The complete mutable state of an engine, as JSON values that share nothing with it."""
    return dump_copy(copy_state(engine))


def dump_copy(copy: StateCopy) -> Json:
    """What `dump` would have written at the moment of the copy."""
    return {
        "format": FORMAT,
        "specification": fingerprint(copy.spec),
        "version": copy.version,
        "stopped": copy.stopped,
        "digest": copy.digest(),
        "state": {box.name: _encode(box) for box in copy.tables},
    }


def restore(spec: ClusterSpec, data: Mapping[str, Any]) -> Engine:
    """An engine with the state of a snapshot, which answers as the one that was dumped would have.

    `spec` must be the specification that engine ran with; an engine that had stopped comes back stopped. Raises
    `SnapshotError` if the data is not a snapshot, is damaged, or belongs to another specification.
    """
    try:
        if data["format"] != FORMAT:
            raise SnapshotError(f"the snapshot has the format {data['format']!r}, expected {FORMAT!r}")
        if data["specification"] != fingerprint(spec):
            raise SnapshotError(
                "the snapshot was made with another specification", hint="give the configuration it was made with"
            )
        engine = Engine(spec)
        _fill(engine, data["state"])
        engine.version, engine.stopped = _integer(data["version"]), bool(data["stopped"])
        whole = engine.state.digest() == data["digest"]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RequestError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(f"the snapshot is damaged ({type(error).__name__}: {error})") from error
    if not whole:
        raise SnapshotError("the snapshot is damaged: the restored state does not have the digest that was written")
    return engine


def fingerprint(spec: ClusterSpec) -> str:
    """A hash of a specification without the resources of its SKUs, which no decision depends on."""
    parts = [
        sorted(value.items()) if isinstance(value, Mapping) else value
        for value in (getattr(spec, item.name) for item in fields(spec) if item.name != "sku_types")
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _fill(engine: Engine, written: Mapping[str, Any]) -> None:
    """Put the written values into the containers of a new engine, which its parts share by reference."""
    names = []
    for box in engine.state.journal.tables:
        names.append(box.name)
        value = _decode(box, written[box.name])
        if isinstance(box.values, dict):
            box.values.clear()
            box.values.update(value)
        elif len(value) == len(box.values):
            box.values[:] = value
        else:
            raise ValueError(f"{box.name} has {len(value)} entries, expected {len(box.values)}")
    if unknown := sorted(set(written).difference(names)):
        raise ValueError(f"unknown part {unknown[0]}")


# --- containers


def _encode(box: Table) -> object:
    values = box.values
    if not isinstance(values, dict):
        return [hex(value) for value in values] if box.bits else _thin(values)
    if box.name == "groups.by_name":  # inspection lists them in this order
        return [group_to_json(group) for group in values.values()]
    keys = sorted(values)  # the order of the others depends on what was tried and rolled back
    rows = [values[key] for key in keys]
    if box.bits:
        rows = [hex(value) for value in rows]
    elif box.name == "groups.slots":
        rows = [[name, slot.member, slot.pod, node] for name, slot, node in rows]
    return {"keys": _lists(keys), "values": rows}


def _decode(box: Table, written: Any) -> Any:
    if not isinstance(box.values, dict):
        return [int(value, 16) for value in written] if box.bits else _thick(written)
    if box.name == "groups.by_name":
        return {group.name: group for group in map(group_from_json, written)}
    rows = written["values"]
    if box.bits:
        rows = [int(value, 16) for value in rows]
    elif box.name == "groups.slots":
        rows = [(name, Slot(_integer(member), _integer(pod)), node) for name, member, pod, node in rows]
    return dict(zip(map(_tuples, written["keys"]), rows, strict=True))


def _thin(values: list[int] | bytearray) -> object:
    """A list of numbers, sparse where most of them are the same."""
    most, times = Counter(values).most_common(1)[0] if values else (0, 0)
    if 2 * times < len(values):
        return list(values)
    places = [place for place, value in enumerate(values) if value != most]
    return {"length": len(values), "most": most, "places": places, "values": [values[place] for place in places]}


def _thick(written: Any) -> list[int]:
    """The inverse of `_thin`."""
    if isinstance(written, list):
        return list(written)
    values: list[int] = [written["most"]] * _integer(written["length"])
    for place, value in zip(written["places"], written["values"], strict=True):
        values[place] = value
    return values


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected a number, found {value!r}")
    return value


# --- groups


def group_to_json(group: Group) -> Json:
    """A group as JSON values, field by field."""
    out = {item.name: getattr(group, item.name) for item in fields(group)}
    out["state"] = str(group.state)
    out["preempting"] = sorted(group.preempting)
    out["info"] = None if group.info is None else bind_info_json(group.info)
    return {key: _lists(value) for key, value in out.items()}


def group_from_json(written: Mapping[str, Any]) -> Group:
    """The inverse of `group_to_json`; raises the errors that `restore` treats as damage."""
    readers: dict[str, Callable[[Any], Any]] = {
        "state": GroupState,
        "preempting": frozenset,
        "info": lambda info: None if info is None else read_bind_info(info),
    }
    values = {item.name: readers.get(item.name, _tuples)(written[item.name]) for item in fields(Group)}
    if len(written) != len(values):
        raise ValueError(f"group {values['name']} has unknown fields")
    return Group(**values)


def _lists(value: Any) -> Any:
    return [_lists(item) for item in value] if isinstance(value, tuple | list) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
