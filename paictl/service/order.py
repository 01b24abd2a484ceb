"""Dependency order: who starts first, who stops first, and what makes either impossible.

A graph maps a service to the services that it needs. Ties are broken by name, so that two runs give the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush

from paictl.errors import PaictlError
from paictl.i18n import did_you_mean, text

Graph = Mapping[str, Collection[str]]


class ServiceError(PaictlError):
    """Services are described or named in a way that no order can satisfy."""


def start_order(graph: Graph) -> tuple[str, ...]:
    """All services, each behind all that it needs; of several that could come next, the first by name.

    Stopping takes the reverse.

    Raises `ServiceError` for a prerequisite that is not in the graph, or services that need each other.
    """
    _refuse_dangling(graph)
    missing = {name: len(set(needs)) for name, needs in graph.items()}
    users = _users(graph)
    free = [name for name, count in missing.items() if not count]
    heapify(free)
    order: list[str] = []
    while free:
        name = heappop(free)
        order.append(name)
        for user in users[name]:
            missing[user] -= 1
            if not missing[user]:
                heappush(free, user)
    if len(order) < len(graph):
        chain = _cycle(graph, set(graph) - set(order))
        raise ServiceError(
            text("services depend on each other: {chain}", chain=" > ".join(chain)),
            hint=text("remove a prerequisite, e.g. {need} from service.yaml of {name}", need=chain[1], name=chain[0]),
        )
    return tuple(order)


def needed_by(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """What services need, directly or through others; without the services themselves unless they need each other."""
    return _reachable(graph, names)


def users_of(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    """Who needs services, directly or through others."""
    return _reachable(_users(graph), names)


def _refuse_dangling(graph: Graph) -> None:
    for name in sorted(graph):
        for need in sorted(graph[name]):
            if need not in graph:
                advice = did_you_mean(need, graph) or text("describe {need} too, or remove the prerequisite", need=need)
                message = text("{name} needs {need}, but no service has that name", name=name, need=need)
                raise ServiceError(message, hint=advice)


def _users(graph: Graph) -> dict[str, list[str]]:
    users: dict[str, list[str]] = {name: [] for name in graph}
    for name, needs in graph.items():
        for need in set(needs):
            users[need].append(name)
    return users


def _reachable(graph: Graph, names: Iterable[str]) -> frozenset[str]:
    reachable: set[str] = set()
    waiting = list(names)
    while waiting:
        fresh = set(graph[waiting.pop()]) - reachable
        reachable |= fresh
        waiting.extend(fresh)
    return frozenset(reachable)


def _cycle(graph: Graph, left: set[str]) -> list[str]:
    """A chain of services that comes back to its start; every service in `left` needs another one in it."""
    chain = [min(left)]
    while True:
        need = min(set(graph[chain[-1]]) & left)
        if need in chain:
            return [*chain[chain.index(need) :], need]
        chain.append(need)
