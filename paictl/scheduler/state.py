"""The whole state of the scheduler: the trees, the ledgers and the journal that ties them together."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paictl.cells.quota import shortfall
from paictl.cells.spec import ClusterSpec, SpecError
from paictl.cells.tree import build_physical, build_virtual
from paictl.scheduler.binding import Binding
from paictl.scheduler.buddy import Buddy
from paictl.scheduler.doomed import Doomed
from paictl.scheduler.groups import Groups
from paictl.scheduler.health import Health
from paictl.scheduler.journal import Journal
from paictl.scheduler.ledger import Ledger
from paictl.scheduler.occupancy import Occupancy
from paictl.scheduler.views import Counts, NodeIndex, Views, VirtualIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paictl.cells.ids import ChainIndex


class Box(NamedTuple):
    """A mutable container of the state: a list, dict or bytearray, with immutable entries."""

    name: str
    values: Any
    bits: bool = False
    """Whether the entries are bit sets, that is, integers too long for decimal digits."""


_FLAT: Final = {
    "counts": ("opportunistic", "guaranteed", "used", "bad"),
    "binding": ("virtual", "physical", "children", "open_roots"),
    "occupancy": ("user", "reserver", "priority", "virtual_priority"),
    "buddy": ("free",),
    "doomed": ("cells",),
    "health": ("bad_children", "bad_nodes"),
    "groups": ("by_name", "slots", "waiting", "demoted"),
}
"""Containers by part of the state."""
_BY_CHAIN: Final = {
    "buddy": ("bits", "count"),
    "ledger": ("quota", "left"),
    "doomed": ("bad", "bad_count", "count"),
}
"""Lists by level, one for each chain, by part of the state."""
_BIT_SETS: Final = frozenset({"binding.open_roots", "doomed.cells", "doomed.bad", "buddy.bits"})
"""Those whose entries are bit sets."""


class State:
    """Everything that a decision depends on. Built with all nodes bad: they are healthy once reported so."""

    __slots__ = (
        "binding", "buddy", "chains_by_type", "counts", "doomed", "groups", "health", "journal", "ledger",
        "occupancy", "physical", "vcs", "views", "virtual",
    )  # fmt: skip

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
        self.counts = Counts(len(self.physical), len(self.virtual))
        self.views = Views(self.physical, self.virtual, self.counts, journal)
        self.buddy = Buddy(self.physical, journal, self.counts.bad, self.counts.opportunistic)
        self.ledger = Ledger(self.physical, self.virtual, self.buddy, journal)
        self._check_quotas()
        self.binding = Binding(self.physical, self.virtual, journal, self.views)
        self.occupancy = Occupancy(self.views, self.buddy, self.binding.physical, journal)
        self.doomed = Doomed(self.ledger, self.binding, self.counts, journal)
        self.health = Health(self.binding, self.doomed, journal)
        self.groups = Groups(journal)
        for root, top in self.virtual.preassigned.items():
            if top.pinned_id is not None:
                cell = self.physical.pinned[top.pinned_id]
                self.binding.pin(cell, root)
                self.doomed.take(cell, top.vc)
        self._check_quotas(" once the pinned cells are taken out")  # they split cells that counted as whole
        for name in self.physical.nodes:
            self.health.turn_bad(name)

    def _check_quotas(self, when: str = "") -> None:
        for index, chain in enumerate(self.physical.chains):
            short = shortfall(self.buddy.count[index], self.ledger.quota[index], chain.fanout)
            if short is not None:
                raise SpecError(
                    "virtualClusters",
                    f"chain {chain.name}: {short.needed} cells of {chain.types[short.level]} are assigned, "
                    f"{short.available} are there{when}",
                )

    def containers(self) -> Iterator[Box]:
        """Every container that changes after construction, in a fixed order; the digest and the snapshot read it.

        What the journal or the operation under way needs for itself is no state; all else is built from the
        specification and stays.
        """
        for part, names in _FLAT.items():
            for name in names:
                yield Box(f"{part}.{name}", getattr(getattr(self, part), name), f"{part}.{name}" in _BIT_SETS)
        for vc, by_chain in self.ledger.free.items():
            for index, levels in by_chain.items():
                yield Box(f"ledger.free/{vc}/{index}", levels)
        for index in self.physical.chain_indexes():
            for part, names in _BY_CHAIN.items():
                for name in names:
                    values = getattr(getattr(self, part), name)[index]
                    yield Box(f"{part}.{name}/{index}", values, f"{part}.{name}" in _BIT_SETS)
            for level, by_use in enumerate(self.buddy.open[index]):
                yield Box(f"buddy.open/{index}/{level}", by_use, bits=True)
        views: tuple[NodeIndex[Any], ...] = (
            *self.views.physical, *self.views.virtual.values(), *self.views.pinned.values(),
        )  # fmt: skip
        for number, view in enumerate(views):
            for row, columns in enumerate(view.rows):
                yield Box(f"views/{number}/{row}", columns, bits=True)
            if isinstance(view, VirtualIndex):  # its index by priority is a cache, filled when asked for
                yield Box(f"views/{number}/by_priority", view.by_priority)

    def contents(self) -> Iterator[object]:
        """All mutable state, in a canonical order; equal contents answer every request alike."""
        for name, values, bits in self.containers():
            yield name
            if name == "groups.by_name":
                yield sorted(map(_group_key, self.groups.by_name.values()))
            elif name == "doomed.cells":  # an empty set is as good as none
                yield sorted((key, hex(ranks)) for key, ranks in self.doomed.cells.items() if ranks)
            elif isinstance(values, dict):
                yield sorted((key, hex(value)) for key, value in values.items()) if bits else sorted(values.items())
            else:
                yield list(map(hex, values)) if bits else values

    def digest(self) -> str:
        """A hash of `contents`; walks the whole cluster, for tests and dumps only."""
        hashed = hashlib.sha256()
        for part in self.contents():
            hashed.update(repr(part).encode())
        return hashed.hexdigest()


def _group_key(group: object) -> str:
    """A canonical text of a group (its set of waiting pods has no order of its own)."""
    from dataclasses import fields

    return repr(
        [
            sorted(value) if isinstance(value, frozenset) else value
            for value in (getattr(group, item.name) for item in fields(group))  # type: ignore[arg-type]
        ]
    )
