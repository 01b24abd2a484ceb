"""What somebody has changed by hand: fields with other values, and fields that were added to an object of ours.

Server-side apply compares the fields that we apply and leaves all others alone, so that an environment variable or a
volume that was added by hand is not a difference. The API server notes who set which field in
``metadata.managedFields``. Labels, annotations and status are left out: controllers and administrators write there as
they are meant to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from paictl.cluster.kubernetes.services.kinds import label_of
from paictl.frozen import frozen
from paictl.remote.kube.client import Json
from paictl.remote.kube.objects import MANAGER

_SERVERS_OWN: Final = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink")
_SHOWN: Final = 40
"""Characters of a value."""


def drift_of(live: Json | None, wanted: Json, body: Json) -> list[str]:
    """A line for each field of `live` that applying `body` makes that of `wanted`, and for each that others added.

    Values of secrets are not shown.
    """
    label = label_of(body)
    if live is None:
        return [f"{label}: is gone"]
    hidden = body["kind"] == "Secret"
    changed = [
        f"{label}: {path}" + ("" if hidden else f" is {_shown(now)}, applied was {_shown(then)}")
        for path, now, then in _changes(_bare(live), _bare(wanted), "")
    ]
    added = additions(
        {**wanted, "kind": body["kind"]}
    )  # whoever changed a field of ours owns it until it is ours again
    return [*changed, *(f"{label}: {addition.shown} was added by {addition.manager}" for addition in added)]


def _bare(body: Json) -> Json:
    """An object without what only the server writes."""
    about = {key: value for key, value in (body.get("metadata") or {}).items() if key not in _SERVERS_OWN}
    return {
        **{key: value for key, value in body.items() if key not in ("status", "kind", "apiVersion")},
        "metadata": about,
    }


def _changes(now: Any, then: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in sorted(now.keys() | then.keys()):
            yield from _changes(now.get(key), then.get(key), f"{path}.{key}" if "." not in key else f"{path}[{key}]")
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for place, (item, other) in enumerate(zip(now, then, strict=True)):
            yield from _changes(item, other, f"{path}[{_name_of(other, place)}]")
    elif now != then:
        yield path.lstrip("."), now, then


def _name_of(entry: Any, place: int) -> str:
    return str(entry["name"]) if isinstance(entry, dict) and "name" in entry else str(place)


def _shown(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


_CONTROL_PLANE: Final = frozenset(
    {
        "kube-controller-manager",
        "cloud-controller-manager",
        "kube-apiserver",
        "kube-scheduler",
        "kubelet",
    }
)
_PASSED_OVER: Final = frozenset({"f:metadata", "f:status"})
_KINDS: Final = frozenset({"Node", "Namespace"})
"""Kinds that others have a share in."""
_ABSENT: Final = object()


@frozen
class Addition:
    """A field of an object that paictl does not apply: its path as keys and indexes, and who set it."""

    path: tuple[str | int, ...]
    shown: str
    manager: str


def additions(live: Json) -> list[Addition]:
    """The outermost fields of an object that others own and paictl none of; by path, each once.

    The object has to be as applying ours by force leaves it: whoever has changed a field of ours owns it until then.
    """
    if live.get("kind") in _KINDS:
        return []
    entries = [
        field for field in (live.get("metadata") or {}).get("managedFields") or () if not field.get("subresource")
    ]
    ours: dict[str, Any] = {}
    for entry in entries:
        if entry.get("manager") == MANAGER:
            _merge(ours, entry.get("fieldsV1") or {})
    if not ours:
        return []
    _merge(
        ours.setdefault("f:data", {}), ours.get("f:stringData", {})
    )  # of a Secret: applied as one, kept as the other
    by_path: dict[tuple[str | int, ...], Addition] = {}
    for entry in entries:
        manager = str(entry.get("manager", ""))
        if manager != MANAGER and manager not in _CONTROL_PLANE:
            for path, shown in _foreign(entry.get("fieldsV1") or {}, ours, live, (), ""):
                by_path.setdefault(path, Addition(path, shown.lstrip("."), manager))
    return [by_path[path] for path in sorted(by_path, key=lambda path: [str(step) for step in path])]


def removal(live: Json) -> list[Json]:
    """A JSON patch that takes all additions out of an object as it was read; empty if there are none.

    It fails, changing nothing, if the object has changed since.
    """
    paths = sorted((addition.path for addition in additions(live)), key=_last_first, reverse=True)
    if not paths:
        return []
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]}
    return [version, *({"op": "remove", "path": _pointer(path)} for path in paths)]


def _merge(into: dict[str, Any], fields: Mapping[str, Any]) -> None:
    for key, inner in fields.items():
        _merge(into.setdefault(key, {}), inner)


def _foreign(
    theirs: Mapping[str, Any], ours: Mapping[str, Any], value: Any, path: tuple[str | int, ...], shown: str
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for key, inner in theirs.items():
        if key == "." or key in _PASSED_OVER:
            continue
        step, child = _step(key, value)
        if child is _ABSENT:
            continue
        text = _step_shown(shown, key, step)
        if key in ours:
            yield from _foreign(inner, ours[key], child, (*path, step), text)
        else:
            yield (*path, step), text


def _step(key: str, value: Any) -> tuple[str | int, Any]:
    """Where a key of ``fieldsV1`` leads in a value: a field, an entry of a list by its keys, or by its value."""
    kind, _, name = key.partition(":")
    if kind == "f" and isinstance(value, Mapping):
        return name, value.get(name, _ABSENT)
    if kind in ("k", "v") and isinstance(value, list):
        wanted = json.loads(name)
        for place, entry in enumerate(value):
            if entry == wanted if kind == "v" else _has(entry, wanted):
                return place, entry
    return name, _ABSENT


def _has(entry: Any, keys: Mapping[str, Any]) -> bool:
    return isinstance(entry, Mapping) and all(entry.get(key) == value for key, value in keys.items())


def _step_shown(before: str, key: str, step: str | int) -> str:
    kind, _, name = key.partition(":")
    if kind == "f":
        return f"{before}[{step}]" if "." in str(step) else f"{before}.{step}"
    value = json.loads(name)
    return f"{before}[{next(iter(value.values())) if isinstance(value, dict) and value else value}]"


def _last_first(path: Sequence[str | int]) -> list[tuple[int, str]]:
    """A key by which, in reverse, entries of a list come last to first: removing one moves those behind it."""
    return [(step, "") if isinstance(step, int) else (-1, step) for step in path]


def _pointer(path: Sequence[str | int]) -> str:
    """A path as RFC 6901 has it."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
