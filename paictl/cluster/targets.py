"""Clusters by name: of what kind each is, and how one is opened.

The one place that knows all kinds. Whoever has a name gets a `Cluster` and need not know what is behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paictl.cluster.interface import ClusterError
from paictl.places import state_folder
from paictl.words import did_you_mean

if TYPE_CHECKING:
    from paictl.cluster.interface import Cluster

LOCAL: Final = "local"
"""The name of the cluster on this machine."""


class Kind(StrEnum):
    """What can be behind a name."""

    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster that can be named; `folder` is where an embedded one lives."""

    name: str
    kind: Kind
    folder: Path


def targets(folder: Path | None = None) -> dict[str, Target]:
    """All clusters that can be named; the local one lives in `folder`, else in this shell's state folder."""
    return {LOCAL: Target(LOCAL, Kind.EMBEDDED, folder if folder is not None else state_folder())}


def open_target(name: str = LOCAL, *, folder: Path | None = None) -> Cluster:
    """The cluster of a name.

    Raises `ClusterError` for a name that is not known, `UnreachableError` if nothing answers there.
    """
    known = targets(folder)
    if name not in known:
        hint = did_you_mean(name, known) or f"one of: {', '.join(known)}"
        raise ClusterError(f"there is no cluster {name!r}", hint=hint)
    return _OPENERS[known[name].kind](known[name])


def _open_embedded(target: Target) -> Cluster:
    from paictl.cluster.embedded.cluster import EmbeddedCluster  # its engine is loaded only where it is used

    return EmbeddedCluster.at(target.folder)


_OPENERS: Final[Mapping[Kind, Callable[[Target], Cluster]]] = {Kind.EMBEDDED: _open_embedded}
