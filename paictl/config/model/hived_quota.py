"""Cells against promises, chain by chain: what `cells/quota.py` needs to say whether quotas fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paictl.cells.quota import Shortfall, shortfall, surplus
from paictl.config.document import Document
from paictl.config.model import per_document
from paictl.config.model.hived import Hived, hived
from paictl.config.model.hived_cells import Cell
from paictl.config.model.hived_promises import Promise
from paictl.config.model.hived_types import LEAF_LEVEL, Chain


@dataclass(frozen=True, slots=True)
class Balance:
    """One chain; the lists are indexed by level, with an unused entry 0.

    `declared` counts the top cells as if each were whole; `existing` what is really there once pinned cells are taken
    out: a cell that lacks children, or holds a pinned one, counts as those of its children that are whole.
    `quota` is what virtual clusters are promised without pinned cells, `pinned` their pinned cells.
    """

    chain: Chain
    declared: list[int]
    existing: list[int]
    quota: list[int]
    pinned: list[int]
    promises: tuple[Promise, ...]
    incomplete: int
    """Cells, of any level above the leaves, that list fewer children than their type has."""

    @property
    def left(self) -> list[int]:
        """Cells of each level that could still be promised; negative where too much is."""
        return surplus(self.existing, self.quota, self.chain.fanout)

    def shortfalls(self) -> list[Shortfall]:
        """Levels at which more is promised than the cells give, if each were whole; from the top down."""
        wanted = [quota + pinned for quota, pinned in zip(self.quota, self.pinned, strict=True)]
        return list(_shortfalls(self.declared, wanted, self.chain.fanout))

    def unbacked(self) -> list[Shortfall]:
        """Levels at which more is promised than the cells that really exist give."""
        return list(_shortfalls(self.existing, self.quota, self.chain.fanout))


def _shortfalls(free: list[int], quota: list[int], fanout: tuple[int, ...]) -> Iterator[Shortfall]:
    """All shortfalls: each level is judged as if those above it were cut down to what there is."""
    quota = list(quota)
    while (short := shortfall(free, quota, fanout)) is not None:
        yield short
        quota[short.level] = short.available


@per_document
def balances(document: Document) -> list[Balance]:
    """The balance of each chain whose cells can be counted, in file order."""
    model = hived(document)
    return [_balance(model, chain) for chain in model.sound_chains if chain.countable]


def _balance(model: Hived, chain: Chain) -> Balance:
    size = chain.top + 1
    declared, existing, quota, pinned = ([0] * size for _ in range(4))
    tops = model.tops_by_chain[chain.name]
    declared[chain.top] = len(tops)
    split: set[Cell] = set()
    for cell in model.claimed:
        above = cell.parent
        while above is not None:
            split.add(above)
            above = above.parent
    incomplete = 0
    for top in tops:
        whole, short = _count(top, existing, model.claimed, split)
        existing[top.level] += whole
        incomplete += short
    promises = tuple(promise for promise in model.promises if promise.chain is chain and promise.level)
    for promise in promises:
        if promise.pinned is None:
            quota[promise.level] += promise.number
        elif model.claimed.get(promise.pinned) is promise:
            pinned[promise.level] += 1
    return Balance(chain, declared, existing, quota, pinned, promises, incomplete)


def _count(cell: Cell, existing: list[int], claimed: dict[Cell, Promise], split: set[Cell]) -> tuple[bool, int]:
    """Whether a cell is whole and free of pinned cells, and how many incomplete ones it holds.

    The free cells of one that is not are added to `existing`, as large as they come.
    """
    if cell in claimed:
        return False, 0
    if cell.level == LEAF_LEVEL or not cell.listed:
        return True, 0
    below = [_count(child, existing, claimed, split) for child in cell.children]
    incomplete = sum(count for _, count in below) + cell.is_short
    if incomplete or cell in split:
        existing[cell.level - 1] += sum(whole for whole, _ in below)
        return False, incomplete
    return True, 0
