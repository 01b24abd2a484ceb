"""The whole state of the scheduler: the trees, the ledgers and the journal that ties them together."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import TYPE_CHECKING

from paictl.cells.quota import shortfall
from paictl.cells.spec import ClusterSpec, SpecError
from paictl.cells.tree import build_physical, build_virtual
from paictl.scheduler.binding import CellBinding
from paictl.scheduler.buddy import Buddy
from paictl.scheduler.doomed import Doomed
from paictl.scheduler.groups import Groups
from paictl.scheduler.health import Health
from paictl.scheduler.journal import Journal
from paictl.scheduler.ledger import Ledger
from paictl.scheduler.occupancy import Occupancy
from paictl.scheduler.views import Counts, Views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paictl.cells.ids import ChainIndex
    from paictl.scheduler.journal import Table


class State:
    """Everything that a decision depends on. Built with all nodes bad: they are healthy once reported so."""

    __slots__ = (
        "binding",
        "buddy",
        "chains_by_type",
        "counts",
        "doomed",
        "groups",
        "health",
        "journal",
        "ledger",
        "occupancy",
        "physical",
        "vcs",
        "views",
        "virtual",
    )

    def __init__(self, spec: ClusterSpec) -> None:
        """The state of an empty cluster; raises `SpecError` if the specification is unsound or quotas do not fit."""
        self.journal = journal = Journal()
        self.physical = build_physical(spec)
        self.virtual = build_virtual(spec, self.physical)
        self.vcs = {vc.name for vc in spec.virtual_clusters}
        self.chains_by_type: dict[str, list[ChainIndex]] = {}
        """Chains of each leaf cell type, both in order of first appearance."""
        for index, chain in zip(self.physical.chain_indexes(), self.physical.chains, strict=True):
            self.chains_by_type.setdefault(chain.leaf_type, []).append(index)
        self.counts = Counts(len(self.physical), len(self.virtual), journal)
        self.views = Views(self.physical, self.virtual, self.counts, journal)
        self.buddy = Buddy(self.physical, journal, self.counts.bad, self.counts.dead, self.counts.opportunistic)
        self.ledger = Ledger(self.physical, self.virtual, self.buddy, journal)
        self._check_quotas()
        self.binding = CellBinding(self.physical, self.virtual, journal, self.views)
        self.occupancy = Occupancy(self.views, self.buddy, self.binding.physical, journal)
        self.doomed = Doomed(self.ledger, self.binding, self.counts, journal)
        self.health = Health(self.doomed, journal)
        self.groups = Groups(journal)
        for root, top in self.virtual.preassigned.items():
            if top.pinned_id is not None:
                cell = self.physical.pinned[top.pinned_id]
                self.binding.pin(cell, root)
                self.doomed.take(cell, top.vc)
        self._check_quotas(" once the pinned cells are taken out")  # they split cells that counted as whole
        for name in self.physical.nodes:
            self.health.turn_bad(name)
        self.doomed.settle()

    def _check_quotas(self, when: str = "") -> None:
        for index, chain in enumerate(self.physical.chains):
            short = shortfall(self.buddy.count[index], self.ledger.quota[index], chain.fanout)
            if short is not None:
                raise SpecError(
                    "virtualClusters",
                    f"cells of {chain.types[short.level]} in chain {chain.name}: {short.needed} assigned, "
                    f"{short.available} there{when}",
                )

    def contents(self) -> Iterator[object]:
        """All mutable state, in a canonical order; equal contents answer every request alike."""
        return contents_of(self.journal.tables)

    def digest(self) -> str:
        """A hash of `contents`; walks the whole cluster, for tests and dumps only."""
        return digest_of(self.journal.tables)


def contents_of(tables: Iterable[Table]) -> Iterator[object]:
    """The contents of all tables of a state, or of copies of them, in a canonical order."""
    for name, values, bits in tables:
        yield name
        if name == "groups.by_name":
            yield sorted(map(_group_key, values.values()))
        elif name == "doomed.cells":  # an empty set is the same as a missing one
            yield sorted((key, hex(ranks)) for key, ranks in values.items() if ranks)
        elif isinstance(values, dict):
            yield sorted((key, hex(value)) for key, value in values.items()) if bits else sorted(values.items())
        else:
            yield list(map(hex, values)) if bits else values


def digest_of(tables: Iterable[Table]) -> str:
    """A hash of `contents_of`."""
    hashed = hashlib.sha256()
    for part in contents_of(tables):
        hashed.update(repr(part).encode())
    return hashed.hexdigest()


def _group_key(group: object) -> str:
    """A canonical text of a group (its set of waiting pods has no order of its own)."""
    return repr(
        [
            sorted(value) if isinstance(value, frozenset) else value
            for value in (getattr(group, item.name) for item in fields(group))  # type: ignore[arg-type]
        ]
    )
