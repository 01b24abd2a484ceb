"""What a cluster has and to whom it is promised: the cells of each chain, and the share of each virtual cluster.

Works on any hivedscheduler configuration that can be read, also on one with mistakes: then it counts what is clear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import location
from paictl.config.models.hived_promises import Promise
from paictl.config.models.hived_quota import Balance, balances, whole_cells
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text


@frozen
class LevelCapacity:
    """The cells of one level of a chain.

    `devices` is per cell; `cells` counts the whole ones; `promised` those that virtual clusters own as such, pinned
    ones included; `left` those that could be promised on top, with all promises kept (parts of larger cells
    included); it is negative where too much is promised.
    """

    level: int
    type: str
    is_node: bool
    devices: int
    cells: int
    promised: int
    left: int


@frozen
class ChainCapacity:
    """One chain: `levels` from the top down, `nodes` by name in file order, `left` devices that nobody is promised."""

    name: str
    device: str
    devices: int
    left: int
    nodes: tuple[str, ...]
    levels: tuple[LevelCapacity, ...]


@frozen
class CellShare:
    """Cells of one type that a virtual cluster is promised, or one pinned cell (`pinned` is its id, `at` its place)."""

    type: str
    number: int
    devices: int
    pinned: str | None = None
    at: str | None = None


@frozen
class VcShare:
    """What a virtual cluster is promised in one chain.

    `largest_pod` and `largest_gang` count leaf cells: of one pod, which runs on one node, and of all pods of one
    affinity group, which runs either in the cells promised by type or in one pinned cell.
    """

    chain: str
    device: str
    cells: tuple[CellShare, ...]
    devices: int
    largest_pod: int
    largest_gang: int


@frozen
class VcCapacity:
    """One virtual cluster: its `devices` over all chains, and its share of each."""

    name: str
    devices: int
    shares: tuple[VcShare, ...]


@frozen
class Capacity:
    """A whole configuration, in file order."""

    chains: tuple[ChainCapacity, ...]
    vcs: tuple[VcCapacity, ...]


def configuration(loaded: Loaded) -> Document:
    """The one hivedscheduler configuration among the files that were read.

    Raises `PaictlError` if a file could not be read, or if there is no such configuration, or more than one.
    """
    for failure in loaded.failures:
        raise failure
    documents = [document for document in loaded.documents if document.kind is FileKind.HIVED]
    names = ", ".join(bundle.name for bundle in loaded.bundles)
    if not documents:
        hint = "name a hivedscheduler.yaml, a services-configuration.yaml with hivedscheduler.config, or their folder"
        raise PaictlError("no hivedscheduler configuration here", where=names, hint=hint)
    if len(documents) > 1:
        paths = ", ".join(document.path for document in documents)
        raise PaictlError(
            text("more than one hivedscheduler configuration: {paths}", paths=paths), where=names, hint="give one file"
        )
    if documents[0].fatal:
        hint = text("see: paictl config validate {path}", path=documents[0].path)
        raise PaictlError("the hivedscheduler configuration cannot be read", where=documents[0].path, hint=hint)
    return documents[0]


def capacity(document: Document) -> Capacity:
    """The capacity that a hivedscheduler configuration describes; chains that cannot be counted are left out."""
    known = balances(document)
    return Capacity(
        tuple(_chain(document, balance) for balance in known),
        tuple(_vc(name, promises) for name, promises in _promises(document, known).items()),
    )


def _chain(document: Document, balance: Balance) -> ChainCapacity:
    model, chain = hived(document), balance.chain
    whole = whole_cells(model.tops_by_chain[chain.name], chain)
    left = balance.room
    levels = [
        LevelCapacity(
            level,
            chain.types[level],
            level == chain.node_level,
            chain.leaves[level],
            whole[level],
            balance.quota[level] + balance.pinned[level],
            left[level],
        )
        for level in range(chain.top, 0, -1)
    ]
    nodes = tuple(cell.name for cell in model.nodes if cell.chain is chain)
    return ChainCapacity(chain.name, chain.leaf_type, whole[LEAF_LEVEL], left[LEAF_LEVEL], nodes, tuple(levels))


def _promises(document: Document, known: Iterable[Balance]) -> dict[str, list[Promise]]:
    """The promises of each virtual cluster that lead to cells which can be counted."""
    countable = {balance.chain.name for balance in known}
    return {
        vc.name: [
            promise
            for promise in vc.promises
            if promise.chain is not None and promise.chain.name in countable and promise.level and promise.number
        ]
        for vc in hived(document).vcs
    }


def _vc(name: str, promises: list[Promise]) -> VcCapacity:
    by_chain: dict[str, list[Promise]] = defaultdict(list)
    for promise in promises:
        if promise.chain is not None:
            by_chain[promise.chain.name].append(promise)
    shares = tuple(_share(chosen) for chosen in by_chain.values())
    return VcCapacity(name, sum(share.devices for share in shares), shares)


def _share(promises: list[Promise]) -> VcShare:
    chain = promises[0].chain
    assert chain is not None  # noqa: S101 - narrows the type
    cells: dict[tuple[str, str | None], CellShare] = {}
    for promise in promises:
        pinned = promise.pinned.pin.text if promise.pinned is not None and promise.pinned.pin is not None else None
        at = location(promise.pinned) if promise.pinned is not None else None
        before = cells.get((promise.type, pinned))
        number = promise.number + (before.number if before is not None and pinned is None else 0)
        devices = number * chain.leaves[promise.level]
        cells[promise.type, pinned] = CellShare(promise.type, number, devices, pinned, at)
    shared = sum(cell.devices for cell in cells.values() if cell.pinned is None)
    gangs = [shared, *(cell.devices for cell in cells.values() if cell.pinned is not None)]
    pods = (chain.pod(promise.level) for promise in promises)
    return VcShare(chain.name, chain.leaf_type, tuple(cells.values()), sum(gangs), max(pods), max(gangs))
