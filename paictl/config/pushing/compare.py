"""What differs between two sets of configuration files: by key, and by line; secrets are never shown."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from paictl.config.pushing.configfile import ConfigFile, Files
from paictl.config.reading.nodes import Data, dotted, to_data
from paictl.config.reading.source import Source, one_line, printable
from paictl.config.reading.yamltree import parse_yaml
from paictl.config.secrets.sealing import is_seal
from paictl.config.secrets.walk import SHOWN
from paictl.frozen import frozen

Steps: TypeAlias = "tuple[str | int, ...]"
Children: TypeAlias = "dict[str | int, Data]"

ADDED, REMOVED, CHANGED = "added", "removed", "changed"

_IDENTITIES = ("hostname", "name", "groupname", "title", "pinnedCellId", "cellAddress")
"""Keys that tell the items of a list apart, so that one more item is not a change of all behind it."""


@frozen
class KeyChange:
    """A key that was added, removed or changed (`what`); `old` and `new` are its values, secrets masked."""

    path: str
    what: str
    old: Data = None
    new: Data = None


@frozen
class FileDifference:
    """One file: `what` is None where it is the same; `lines` are those of a unified diff, fit to be printed."""

    name: str
    what: str | None
    changes: tuple[KeyChange, ...] = ()
    lines: tuple[str, ...] = ()


def compare_files(old: Files, new: Files) -> tuple[FileDifference, ...]:
    """The differences of two sets of files, by name; each side may hold its secrets in clear or sealed.

    A secret in clear is held against the seal of the other side. Raises `SecretError` for a file that cannot be read.
    """
    return tuple(_file(name, old.get(name), new.get(name)) for name in sorted({*old, *new}))


def _file(name: str, old: ConfigFile | None, new: ConfigFile | None) -> FileDifference:
    if old == new:
        return FileDifference(name, None)
    if old is not None and new is not None:
        before = old.sealed(old)
        after = new.sealed(before, new)
        shown = before.masked(), after.shown_beside(before)
        changes = tuple(_changes((), before.data, after.data))
    else:
        shown = old.masked() if old else "", new.masked() if new else ""
        changes = tuple(_changes((), _masked_data(old), _masked_data(new)))
    lines = tuple(_unified(name, *(side.splitlines() for side in shown)))
    what = ADDED if old is None else REMOVED if new is None else CHANGED if lines or changes else None
    return FileDifference(name, what, changes, lines)


def _masked_data(file: ConfigFile | None) -> Data:
    """The values of a file on one side only: all that is secret in it is shown as such."""
    return {} if file is None else ConfigFile(file.name, file.masked(), kind=file.kind).data


def _unified(name: str, old: list[str], new: list[str]) -> Iterator[str]:
    for line in difflib.unified_diff(old, new, f"{name} (old)", f"{name} (new)", lineterm=""):
        yield "\t".join(printable(piece) for piece in line.split("\t"))


def _changes(path: Steps, old: Data, new: Data) -> Iterator[KeyChange]:
    """The changes below a path; text that holds YAML mappings on both sides is compared key by key too."""
    pair = _as_mappings(old, new)
    if pair is None:
        if _canonical(old) != _canonical(new):
            yield KeyChange(dotted(path), CHANGED, _masked(old), _masked(new, changed=True))
        return
    before, after = pair
    for name in [*before, *(name for name in after if name not in before)]:
        place = (*path, name)
        if name not in after:
            yield KeyChange(dotted(place), REMOVED, old=_masked(before[name]))
        elif name not in before:
            yield KeyChange(dotted(place), ADDED, new=_masked(after[name]))
        else:
            yield from _changes(place, before[name], after[name])


def _as_mappings(old: Data, new: Data) -> tuple[Children, Children] | None:
    """Both values as mappings from step to value, if they are of a shape that can be compared step by step."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _children(old.items()), _children(new.items())
    if isinstance(old, list) and isinstance(new, list):
        return _as_items(old, new)
    if isinstance(old, str) and isinstance(new, str) and "\n" in old and "\n" in new:
        old_children, new_children = _inner(old), _inner(new)
        if old_children is not None and new_children is not None:
            return old_children, new_children
    return None


def _as_items(old: list[Data], new: list[Data]) -> tuple[Children, Children] | None:
    if not all(isinstance(item, dict | list) for item in [*old, *new]):
        return None  # of plain values, the list as a whole says most
    for key in _IDENTITIES:
        old_children, new_children = _by_identity(old, key), _by_identity(new, key)
        if old_children is not None and new_children is not None:
            return old_children, new_children
    return _children(enumerate(old)), _children(enumerate(new))


def _by_identity(items: list[Data], key: str) -> Children | None:
    names = [item.get(key) if isinstance(item, dict) else None for item in items]
    by_name = {name: item for name, item in zip(names, items, strict=True) if isinstance(name, str)}
    return _children(by_name.items()) if len(by_name) == len(items) else None


def _inner(text: str) -> Children | None:
    tree = parse_yaml(Source("embedded", text))
    data = None if tree.fatal or tree.root is None else to_data(tree.root)
    return _children(data.items()) if isinstance(data, dict) else None


def _children(steps: Iterable[tuple[str | int, Data]]) -> Children:
    return dict(steps)


def _masked(data: Data, *, changed: bool = False) -> Data:
    if isinstance(data, dict):
        return {name: _masked(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_masked(item) for item in data]
    if is_seal(data):
        return f"{SHOWN} (changed)" if changed else SHOWN
    return data


def _canonical(data: Data) -> str:
    return json.dumps(data, sort_keys=True)


def value_text(data: Data, limit: int = 60) -> str:
    """A value on one line of a table: as YAML would have it, cut where it is long."""
    return one_line(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False), limit)
