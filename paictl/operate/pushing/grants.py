"""What virtual clusters were granted, when they go: a new one of the same name is another tenant, and inherits nothing.

Grants are kept by the name of a virtual cluster, outside of the configuration. They end with the push that removes it;
what is left all the same (granted until the scheduler loaded that push, or removed by an earlier version of paictl)
ends before the push that brings the name back. Grants to users stay: whoever pushes is told of them (`granted_before`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Protocol

from paictl.cluster.interface import ClusterError, Stored, Templated
from paictl.frozen import frozen
from paictl.i18n import Text, text


class GrantPorts(Stored, Templated, Protocol):
    """What grants need of a cluster."""


@frozen
class Turnover:
    """The names of the virtual clusters that a push removes, and of those that it adds."""

    removed: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()


def grant_notes(cluster: GrantPorts, turnover: Turnover) -> tuple[Text, ...]:
    """A line for each grant that ends with a push; none where the lists of grants cannot be read."""
    if not (turnover.removed or turnover.added):
        return ()
    try:
        return (*_storage_notes(cluster, turnover), *_library_notes(cluster, turnover))
    except ClusterError:
        return ()


def _storage_notes(cluster: GrantPorts, turnover: Turnover) -> Iterator[Text]:
    for storage in cluster.storages():
        for vc in storage.vcs:
            if vc in turnover.removed:
                yield text(
                    "storage {name} is no longer granted to {vc}, which is removed; if it is added again: "
                    "paictl storage grant {name} --vc {vc}",
                    name=storage.name, vc=vc,
                )  # fmt: skip
            elif vc in turnover.added:
                yield text(
                    "storage {name} was granted to an earlier virtual cluster {vc}, not to the new one; to grant it: "
                    "paictl storage grant {name} --vc {vc}",
                    name=storage.name, vc=vc,
                )  # fmt: skip


def _library_notes(cluster: GrantPorts, turnover: Turnover) -> Iterator[Text]:
    for library in cluster.template_libraries():
        for vc in library.vcs:
            if vc in turnover.removed:
                yield text(
                    "template library {name} is no longer granted to {vc}, which is removed; if it is added again: "
                    "paictl template sync {name} FOLDER --vc {vc}",
                    name=library.name, vc=vc,
                )  # fmt: skip
            elif vc in turnover.added:
                yield text(
                    "template library {name} was granted to an earlier virtual cluster {vc}, not to the new one; to "
                    "grant it: paictl template sync {name} FOLDER --vc {vc}",
                    name=library.name, vc=vc,
                )  # fmt: skip


def end_grants(cluster: GrantPorts, vcs: Collection[str]) -> None:
    """Take from all storages and template libraries the grants to some virtual clusters."""
    if not vcs:
        return
    for storage in cluster.storages():
        ended = [vc for vc in storage.vcs if vc in vcs]
        if ended:
            cluster.grant_storage(storage.name, (), ended)
    for library in cluster.template_libraries():
        kept = tuple(vc for vc in library.vcs if vc not in vcs)
        if kept != library.vcs:
            cluster.put_template_library(replace(library, vcs=kept), new=False)
