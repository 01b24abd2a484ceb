"""What somebody has changed by hand: an object as it is, against the same as applying it again would leave it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from paictl.cluster.kubernetes.services.additions import additions
from paictl.cluster.kubernetes.services.kinds import label_of
from paictl.remote.kube.client import Json

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
    return [*changed, *(f"{label}: {one.shown} was added by {one.manager}" for one in added)]


def _bare(body: Json) -> Json:
    """An object without what only the server writes."""
    about = {key: one for key, one in (body.get("metadata") or {}).items() if key not in _SERVERS_OWN}
    return {**{key: one for key, one in body.items() if key not in ("status", "kind", "apiVersion")}, "metadata": about}


def _changes(now: Any, then: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(now, dict) and isinstance(then, dict):
        for key in sorted(now.keys() | then.keys()):
            yield from _changes(now.get(key), then.get(key), f"{path}.{key}" if "." not in key else f"{path}[{key}]")
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for place, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from _changes(one, other, f"{path}[{_name_of(other, place)}]")
    elif now != then:
        yield path.lstrip("."), now, then


def _name_of(entry: Any, place: int) -> str:
    return str(entry["name"]) if isinstance(entry, dict) and "name" in entry else str(place)


def _shown(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
