"""What virtual clusters were granted, when they go: a new one of the same name is another tenant, and inherits nothing.

Grants are kept by the name of a virtual cluster, outside of the configuration. They end with the push that removes it;
what is left all the same (granted until the scheduler loaded that push, or removed by an earlier version of paictl)
ends before the push that brings the name back. Grants to users and to namespaces stay, and so do reservations and jobs
that have not ended, because the same tenant may be back: whoever pushes is told of them (here and by `granted_before`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Protocol

from paictl.cluster.capabilities import GrantsNamespaces
from paictl.cluster.interface import ClusterError, Jobs, Reserving, Stored, Templated
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import Text, counted, listed, text


class GrantPorts(Stored, Templated, Jobs, Reserving, Protocol):
    """What grants need of a cluster."""


@frozen
class Turnover:
    """The names of the virtual clusters that a push removes, and of those that it adds."""

    removed: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()


def grant_notes(cluster: GrantPorts, turnover: Turnover) -> tuple[Text, ...]:
    """A line for each grant that ends with a push, and for what new virtual clusters have of earlier ones all the same.

    Nothing is said of what cannot be read.
    """
    if not (turnover.removed or turnover.added):
        return ()
    notes: list[Text] = []
    for kind in (_storage_notes, _library_notes, _job_notes, _reservation_notes, _namespace_notes):
        with suppress(ClusterError):
            notes += kind(cluster, turnover)
    return tuple(notes)


def _storage_notes(cluster: GrantPorts, turnover: Turnover) -> Iterator[Text]:
    for storage in cluster.storages():
        for vc in storage.vcs:
            if vc in turnover.removed:
                yield text(
                    "storage {name} is no longer granted to {vc}, which is removed; if it is added again: "
                    "paictl storage grant {name} --vc {vc}",
                    name=storage.name,
                    vc=vc,
                )
            elif vc in turnover.added:
                yield text(
                    "storage {name} was granted to an earlier virtual cluster {vc}, not to the new one; to grant it: "
                    "paictl storage grant {name} --vc {vc}",
                    name=storage.name,
                    vc=vc,
                )


def _library_notes(cluster: GrantPorts, turnover: Turnover) -> Iterator[Text]:
    for library in cluster.template_libraries():
        for vc in library.vcs:
            if vc in turnover.removed:
                yield text(
                    "template library {name} is no longer granted to {vc}, which is removed; if it is added again: "
                    "paictl template sync {name} FOLDER --vc {vc}",
                    name=library.name,
                    vc=vc,
                )
            elif vc in turnover.added:
                yield text(
                    "template library {name} was granted to an earlier virtual cluster {vc}, not to the new one; to "
                    "grant it: paictl template sync {name} FOLDER --vc {vc}",
                    name=library.name,
                    vc=vc,
                )


def _job_notes(cluster: GrantPorts, turnover: Turnover) -> Iterator[Text]:
    jobs = [job for job in cluster.jobs(ended=False) if job.vc in turnover.added] if turnover.added else []
    for vc in sorted(turnover.added):
        keys = [job.key for job in jobs if job.vc == vc]
        if keys:
            yield counted(
                "{count} job of an earlier virtual cluster {vc} has not ended and will use the new one: {jobs}; to "
                "stop it: paictl job stop USER~NAME",
                "{count} jobs of an earlier virtual cluster {vc} have not ended and will use the new one: {jobs}; to "
                "stop one: paictl job stop USER~NAME",
                len(keys),
                vc=vc,
                jobs=listed(keys),
            )


def _reservation_notes(cluster: GrantPorts, turnover: Turnover) -> Iterator[Text]:
    for reservation in cluster.reservations() if turnover.added else ():
        if reservation.vc in turnover.added:
            yield text(
                "reservation {name} of an earlier virtual cluster {vc} will keep cells of the new one; to remove it: "
                "paictl reservation remove {name}",
                name=reservation.name,
                vc=reservation.vc,
            )


def _namespace_notes(cluster: GrantPorts, turnover: Turnover) -> Iterator[Text]:
    if not turnover.added or not isinstance(cluster, GrantsNamespaces):
        return
    from paictl.scheduler.wire import GRANTED  # late: few pushes add a virtual cluster

    granted = cluster.granted_namespaces()
    for vc in sorted(turnover.added):
        names = sorted(name for name, vcs in granted.items() if vc in vcs)
        if names:
            yield text(
                "an earlier virtual cluster {vc} was granted to namespaces whose pods can use the new one: {names}; to "
                "take that back: kubectl annotate namespace NAME --overwrite {annotation}=OTHER_VCS",
                vc=vc,
                names=listed(names),
                annotation=GRANTED,
            )


def end_grants(cluster: GrantPorts, vcs: Collection[str]) -> None:
    """Take from all storages and template libraries the grants to some virtual clusters.

    One that cannot be taken keeps no other: the first error is raised at the end.
    """
    if not vcs:
        return
    errors: list[PaictlError] = []
    with _noted(errors):
        for storage in cluster.storages():
            if ended := [vc for vc in storage.vcs if vc in vcs]:
                with _noted(errors):
                    cluster.grant_storage(storage.name, (), ended)
    with _noted(errors):
        for library in cluster.template_libraries():
            kept = tuple(vc for vc in library.vcs if vc not in vcs)
            if kept != library.vcs:
                with _noted(errors):
                    cluster.put_template_library(replace(library, vcs=kept), new=False)
    if errors:
        raise errors[0]


@contextmanager
def _noted(errors: list[PaictlError]) -> Iterator[None]:
    try:
        yield
    except PaictlError as error:
        errors.append(error)
