"""Clusters by name: of what kind each is, and how one is opened.

The one place that knows all kinds. Whoever has a name gets a `Cluster` and need not know what is behind it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paictl.cluster.interface import ClusterError
from paictl.cluster.registry import LOCAL, Pinned, read_registry
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.places import state_folder

if TYPE_CHECKING:
    from paictl.cluster.interface import Cluster
    from paictl.config.making.discovered import DiscoveredCluster

VARIABLE: Final = "PAICTL_CLUSTER"
"""Names the cluster of commands that do not."""
STATE_VARIABLE: Final = "PAICTL_STATE"
BOUND: Final = "cluster-name"
"""File of a state folder that names the cluster which is meant there: that of a lab on a cluster of another kind."""


class ClusterKind(StrEnum):
    """What can be behind a name."""

    EMBEDDED = "embedded"
    KUBERNETES = "kubernetes"


@frozen
class Target:
    """A cluster that can be named: one in a `folder` of this machine, or one that was added (`pinned`)."""

    name: str
    kind: ClusterKind
    folder: Path | None = None
    pinned: Pinned | None = None

    @property
    def where(self) -> str:
        """The place, for people."""
        return self.pinned.server if self.pinned else str(self.folder)


def targets(folder: Path | None = None) -> dict[str, Target]:
    """All clusters that can be named; the local one lives in `folder`, else in this shell's state folder."""
    local = Target(LOCAL, ClusterKind.EMBEDDED, folder if folder is not None else state_folder())
    added = {
        name: Target(name, ClusterKind.KUBERNETES, pinned=cluster) for name, cluster in read_registry().clusters.items()
    }
    return {LOCAL: local, **added}


def bind(folder: Path, name: str) -> None:
    """Let commands for which a folder is the state folder be about a cluster that was added."""
    (folder / BOUND).write_text(f"{name}\n", encoding="utf-8")


def bound_to(folder: Path) -> str:
    """The cluster that is meant where a folder is the state folder: `LOCAL`, unless it was bound to another.

    Where that cannot be read, too: who opens the cluster in the folder says what is wrong with it.
    """
    try:
        return (folder / BOUND).read_text(encoding="utf-8").strip() or LOCAL
    except (OSError, ValueError):
        return LOCAL


def chosen_name(flag: str | None = None, *, state_given: bool = False) -> str:
    """The cluster that a command is about: ``--cluster``, ``--state``, PAICTL_CLUSTER, PAICTL_STATE, ``cluster use``.

    PAICTL_STATE is set in the shell of a lab, whose commands must not reach a real cluster because somebody used one
    elsewhere. Raises `PaictlError` where the two variables contradict each other.
    """
    if flag is not None:
        return flag
    if state_given:
        return LOCAL
    named, folder = os.environ.get(VARIABLE), os.environ.get(STATE_VARIABLE)
    meant = bound_to(Path(folder)) if folder else LOCAL
    if named and folder and named not in (LOCAL, meant):
        raise PaictlError(
            text(
                "{variable} names {named}, but {state_variable} names a folder on this machine: which cluster do "
                "you want?",
                variable=VARIABLE,
                named=named,
                state_variable=STATE_VARIABLE,
            ),
            hint=text(
                "pass --cluster {named} or --cluster {local}, or unset {variable}",
                named=named,
                local=LOCAL,
                variable=VARIABLE,
            ),
        )
    return named or (meant if folder else read_registry().current)


def find_target(name: str, folder: Path | None = None) -> Target:
    """What is behind a name; raises `ClusterError` with the nearest names if it is not known."""
    known = targets(folder)
    if name not in known:
        hint = did_you_mean(name, known) or text(
            "one of: {names}; to add one: paictl cluster add NAME", names=", ".join(known)
        )
        raise ClusterError(text("no cluster {name!r}", name=name), hint=hint)
    return known[name]


def open_target(name: str = LOCAL, *, folder: Path | None = None) -> Cluster:
    """The cluster of a name.

    Raises `ClusterError` for a name that is not known, and for one behind which another cluster stands than the one
    that was added; `UnreachableError` if nothing answers there.
    """
    target = find_target(name, folder)
    return _OPENERS[target.kind](target)


def _open_embedded(target: Target) -> Cluster:
    from paictl.cluster.embedded.cluster import EmbeddedCluster  # its engine is loaded only where it is used

    return EmbeddedCluster.at(target.folder or state_folder())


def _open_kubernetes(target: Target) -> Cluster:
    from paictl.cluster.kubernetes.cluster import open_pinned  # as is the library

    if target.pinned is None:
        raise ClusterError(
            text("{name} has not been added", name=target.name),
            hint=text("paictl cluster add {name}", name=target.name),
        )
    return open_pinned(target.pinned)


_OPENERS: Final[Mapping[ClusterKind, Callable[[Target], Cluster]]] = {
    ClusterKind.EMBEDDED: _open_embedded,
    ClusterKind.KUBERNETES: _open_kubernetes,
}


def pinned_now(name: str, kubeconfig: str | None, context: str | None) -> Pinned:
    """A context as it is now, to be kept under a name (`registry.add`); raises `PaictlError` if there is none."""
    from paictl.cluster.kubernetes.connection import pin

    return pin(name, kubeconfig, context)


def observed(pinned: Pinned) -> DiscoveredCluster:
    """What a cluster says about its devices, its topology and its tenants, for a configuration to be drafted from.

    Raises `ClusterError` if its context leads elsewhere today, `KubeError` if nodes may not be listed, `NoAnswerError`.
    """
    from paictl.cluster.kubernetes.discovery import observe_pinned

    return observe_pinned(pinned)


def open_in_cluster() -> Cluster:
    """The cluster in one of whose pods this process runs, by the pod's service account; raises `PaictlError`."""
    from paictl.cluster.kubernetes.cluster import open_own

    return open_own()


def stamp_of(target: Target) -> object:
    """What changes when another cluster takes the place of one on this machine; None for every other kind."""
    if target.kind is not ClusterKind.EMBEDDED:
        return None
    from paictl.cluster.embedded.store import file_of

    try:
        status = file_of(target.folder or state_folder()).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
