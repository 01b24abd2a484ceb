"""The clusters that a user has added by name, in one file of the user's own.

A name stands for a context of a kubeconfig *and* for the server behind it: whoever changes the context afterwards, by
mistake or not, redirects nobody (`kubernetes.connection` compares). The file holds no credentials; it is replaced in
one step, and only its owner can read it. kubeconfig files are read where they are, and never written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any, Final

from paictl.cluster.values import ClusterError, ConflictError
from paictl.errors import PaictlError
from paictl.files import lock, write_together
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.places import config_folder

LOCAL: Final = "local"
"""The name of the cluster on this machine."""
FILE: Final = "clusters.json"
_SCHEMA: Final = 1
_NAME: Final = r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?"


@frozen
class Pinned:
    """A cluster that was added: the context by its name in a kubeconfig (several files: joined as in KUBECONFIG), and
    the server and its authority as they were then, as `remote.kube.client` tells them.
    """

    name: str
    kubeconfig: str
    context: str
    server: str
    authority: str


@frozen
class Registry:
    """All clusters that were added, and the one that `cluster use` has chosen."""

    current: str = LOCAL
    clusters: Mapping[str, Pinned] = field(default_factory=dict)


def registry_file() -> Path:
    """Where the names are kept."""
    return config_folder() / FILE


def read_registry() -> Registry:
    """What was added; nothing where there is no file yet. Raises `PaictlError` for a file that is no registry."""
    path = registry_file()
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if data["schemaVersion"] != _SCHEMA:
            raise PaictlError(
                text("was written by another version of paictl (schema {value})", value=data["schemaVersion"]),
                where=str(path),
            )
        rows = {name: Pinned(name=name, **row) for name, row in data["clusters"].items()}
        return Registry(str(data["current"]), rows)
    except (FileNotFoundError, NotADirectoryError):
        return Registry()
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "move it away and add the clusters again: paictl cluster add NAME"
        raise PaictlError("is not a list of clusters", where=str(path), hint=hint) from None


def add(cluster: Pinned, *, force: bool = False) -> None:
    """Keep a cluster under its name; raises `ConflictError` for a name that another one has, unless `force`."""
    if cluster.name == LOCAL:
        raise ClusterError(text("{local!r} is the cluster on this machine", local=LOCAL), hint="choose another name")
    if not re.fullmatch(_NAME, cluster.name):
        raise ClusterError(
            text("{name!r} is not a valid cluster name", name=cluster.name),
            hint="use lower-case letters, digits, '-' and '.', at most 63",
        )
    with _changing() as known:
        before = known.clusters.get(cluster.name)
        if before is not None and before != cluster and not force:
            raise ConflictError(
                text(
                    "{name} already stands for {server} ({context})",
                    name=cluster.name,
                    server=before.server,
                    context=before.context,
                ),
                hint="take another name, or replace it with --force",
            )
        _write(replace(known, clusters={**known.clusters, cluster.name: cluster}))


def use(name: str) -> None:
    """Let commands that name no cluster reach this one; `open_target` says whether there is one of that name."""
    with _changing() as known:
        _write(replace(known, current=name))


def remove(name: str) -> None:
    """Forget a name, nothing else; commands that name no cluster go to the local one if it was in use."""
    with _changing() as known:
        rest = {key: cluster for key, cluster in known.clusters.items() if key != name}
        _write(Registry(LOCAL if known.current == name else known.current, rest))


@contextmanager
def _changing() -> Iterator[Registry]:
    """The registry, while nobody else changes it."""
    folder = config_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / f".{FILE}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise PaictlError(text("cannot be written: {strerror}", strerror=error.strerror), where=str(folder)) from None
    try:
        lock(handle)
        yield read_registry()
    finally:
        os.close(handle)


def _write(registry: Registry) -> None:
    rows = {
        name: {key: value for key, value in asdict(pinned).items() if key != "name"}
        for name, pinned in sorted(registry.clusters.items())
    }
    data = {"schemaVersion": _SCHEMA, "current": registry.current, "clusters": rows}
    write_together(config_folder(), {FILE: json.dumps(data, indent=2) + "\n"}, force=True, mode=0o600)
