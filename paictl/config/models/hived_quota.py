"""Cells against promises, chain by chain: what `cells/quota.py` needs to say whether quotas fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from paictl.cells.quota import Shortfall, shortfall, surplus
from paictl.cells.spec import LEAF_LEVEL
from paictl.config.models import per_document
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.hived_cells import Cell
from paictl.config.models.hived_promises import Promise
from paictl.config.models.hived_types import DeclaredChain
from paictl.config.reading.document import Document
from paictl.frozen import frozen
from paictl.i18n import joined, text


@frozen
class Balance:
    """One chain; the lists are indexed by level, with an unused entry 0.

    `declared` counts the top cells as if each were whole; `existing` what is really there once pinned cells are taken
    out: a cell that lacks children, or holds a pinned one, counts as those of its children that are whole.
    `quota` is what virtual clusters are promised without pinned cells, `pinned` their pinned cells.
    """

    chain: DeclaredChain
    declared: list[int]
    existing: list[int]
    quota: list[int]
    pinned: list[int]
    promises: tuple[Promise, ...]
    incomplete: int
    """Cells, of any level above the leaves, that list fewer children than their type has."""

    @property
    def room(self) -> list[int]:
        """Cells of each level that could be promised on top of what is; negative by what a level lacks.

        The surplus of a level says what is left once promises at and above it are kept; those below it must be kept
        too, so that the scarcest level below limits it.
        """
        room = surplus(self.existing, self.quota, self.chain.fanout)
        for level in range(LEAF_LEVEL + 1, self.chain.top + 1):
            if room[level] > 0:
                room[level] = max(0, min(room[level], room[level - 1] // self.chain.fanout[level]))
        return room

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


def whole_cells(tops: list[Cell], chain: DeclaredChain) -> list[int]:
    """Cells of each level that have all their children, promised or not, by level."""
    largest = [0] * (chain.top + 1)
    for top in tops:
        largest[top.level] += _count(top, largest, {}, set())[0]
    counts = [0] * (chain.top + 1)
    above = 0
    for level in range(chain.top, 0, -1):
        above = counts[level] = largest[level] + above
        above *= chain.fanout[level]
    return counts


def _balance(model: HivedConfig, chain: DeclaredChain) -> Balance:
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
        elif model.claimed.get(promise.pinned) is promise and model.claimed_around(promise.pinned) is None:
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


def shares(balance: Balance, level: int, *, pinned: bool = True, named: bool = False) -> str:
    """Who is promised how many cells of a level: `speech 1 + 1 pinned, vision 2`; empty for nobody."""
    kind = f" {balance.chain.types[level]}" if named else ""
    virtual: Counter[str] = Counter()
    fixed: Counter[str] = Counter()
    for promise in balance.promises:
        if promise.level == level and promise.number:
            (virtual if promise.pinned is None else fixed)[promise.vc] += promise.number
    words = []
    for vc in dict.fromkeys((*virtual, *(fixed if pinned else ()))):
        parts: list[str] = [str(virtual[vc])] if virtual[vc] else []
        parts += [text("{count} pinned", count=fixed[vc])] if pinned and fixed[vc] else []
        words.append(text("{vc} {number}{kind}", vc=vc, number=joined(" + ", parts), kind=kind))
    return joined(", ", words)


def breaking(balance: Balance, short: Shortfall, *, pinned: bool = True) -> Promise:
    """The promise of a level, in file order, that is the first beyond what is available."""
    total = 0
    counted = [p for p in balance.promises if p.level == short.level and (pinned or p.pinned is None)]
    for promise in counted:
        total += promise.number
        if total > short.available:
            return promise
    return counted[-1]
