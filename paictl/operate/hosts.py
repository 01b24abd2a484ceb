"""The machines behind the nodes of a cluster, as hosts that can be signed in to."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from paictl.cluster.interface import Nodes
from paictl.errors import PaictlError
from paictl.i18n import did_you_mean, text
from paictl.remote.inventory import Host, Inventory, Login


def hosts_of_cluster(cluster: Nodes, login: Login, user: str, port: int = 22) -> Inventory:
    """All nodes of a cluster by their addresses; raises `PaictlError` where there is none."""
    hosts = tuple(Host(one.machine.name, one.machine.address, user, port) for one in cluster.nodes())
    if not hosts:
        raise PaictlError("the cluster has no nodes")
    return Inventory(hosts, login)


def chosen(inventory: Inventory, patterns: Sequence[str]) -> Inventory:
    """The hosts that names or patterns (``gpu-*``) say, in the order of the inventory; all of them without any.

    Raises `PaictlError` for a word that means no host.
    """
    names = [host.name for host in inventory]
    wanted: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            hint = did_you_mean(pattern, names) or text("known hosts: {names}", names=", ".join(names[:8]))
            raise PaictlError(text("no host {name!r}", name=pattern), hint=hint)
        wanted |= found
    return inventory.only([name for name in names if name in wanted]) if patterns else inventory
