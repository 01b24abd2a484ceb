"""What another configuration means to those who use the cluster: virtual clusters, services."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from paictl.cluster.interface import Identity, Port, Services
from paictl.config.pushing.compare import FileDifference
from paictl.config.pushing.configfile import Files, loaded
from paictl.config.quotas.capacity import Capacity, capacity, configuration
from paictl.config.quotas.diff import VcChange, compare
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.service.catalogue import load_catalogue
from paictl.service.live import readers_of


def vc_changes(before: Files, after: Files) -> tuple[VcChange, ...]:
    """What each virtual cluster gains and loses; nothing where one side has no configuration that can be counted."""
    old, new = _capacity(before), _capacity(after)
    if new is None:
        return ()
    return compare(old or Capacity((), ()), new).vcs


def _capacity(files: Files) -> Capacity | None:
    try:
        return capacity(configuration(loaded(files)))
    except PaictlError:
        return None


@frozen
class Readers:
    """The services that read what changed: those that run go on with what they have until they are refreshed."""

    to_refresh: tuple[str, ...] = ()
    to_start: tuple[str, ...] = ()


class EffectsPorts(Identity, Services, Protocol):
    """What is needed of a cluster to know who reads its configuration."""


def readers(cluster: EffectsPorts, differences: Iterable[FileDifference]) -> Readers:
    """Who has to load a change; nobody that is known where a cluster has no services of ours yet."""
    if Port.SERVICES in cluster.lacks:
        return Readers()
    running = {service.name: service.running for service in cluster.services()}
    names = [name for name in readers_of(differences, load_catalogue()) if name in running]
    return Readers(
        tuple(name for name in names if running[name]), tuple(name for name in names if not running[name])
    )  # fmt: skip
