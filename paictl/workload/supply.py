"""What a cluster and its virtual clusters offer to jobs: SKUs, and the views that a group may be placed in.

Built once from a specification and shared; depends on nothing that changes while jobs run. A *view* is what the
scheduler looks at as one: a VC's cells of one chain, one pinned cell, or a whole chain for opportunistic groups
(`paictl.scheduler.placement.search`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cells.chain import Chain, build_chains, pinned_levels, preassigned_levels
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import JobError, suggestion
from paictl.workload.sku import Sku, read_skus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paictl.cells.spec import ClusterSpec


@frozen
class View:
    """Cells that the pods of one group may share. `nodes` maps leaf cells of a node to the number of such nodes.

    A preassigned cell below node level is a node of its own.
    """

    chain: str
    leaf_type: str
    nodes: Mapping[int, int]
    pinned_id: str | None = None

    @property
    def leaves(self) -> int:
        """All leaf cells."""
        return sum(size * number for size, number in self.nodes.items())

    @property
    def largest(self) -> int:
        """Leaf cells of the largest node."""
        return max(self.nodes)

    @property
    def label(self) -> str:
        """How messages call it."""
        if self.pinned_id is None:
            return text("chain {name}", name=self.chain)
        return text("pinned cell {name}", name=self.pinned_id)


@frozen
class Supply:
    """A cluster as jobs see it."""

    skus: Mapping[str, Sku]
    """By leaf cell type."""
    chains: tuple[View, ...]
    """All cells of each chain, for opportunistic groups; in order of first appearance in `physicalCells`."""
    vcs: Mapping[str, tuple[View, ...]]
    """The cells of each VC, those of a chain first and then pinned ones."""

    @classmethod
    def from_spec(cls, spec: ClusterSpec) -> Supply:
        """Read a specification.

        Raises `paictl.cells.spec.SpecError` where cells contradict themselves, or a SKU's amount cannot be read.
        """
        chains = build_chains(spec)
        pinned = pinned_levels(spec, chains)
        tops = dict.fromkeys(chains, 0)
        for cell in spec.physical_cells:
            tops[cell.cell_type] += 1
        return cls(
            skus=read_skus(spec, [chain.leaf_type for chain in chains.values()]),
            chains=tuple(_view(chain, [chain.top] * tops[name]) for name, chain in chains.items()),
            vcs={
                vc.name: tuple(_views(chains, preassigned_levels(vc, chains, pinned))) for vc in spec.virtual_clusters
            },
        )

    def vc(self, name: str) -> tuple[View, ...]:
        """All views of a VC; raises `JobError` for an unknown VC."""
        if name not in self.vcs:
            hint = suggestion(name, self.vcs, "virtual clusters")
            raise JobError("defaults.virtualCluster", text("no virtual cluster {vc}", vc=name), hint=hint)
        return self.vcs[name]

    def views(self, vc: str, *, opportunistic: bool) -> tuple[View, ...]:
        """The views open to a group that names no pinned cell; may be empty."""
        own = self.vc(vc)
        return self.chains if opportunistic else tuple(view for view in own if view.pinned_id is None)

    def pinned(self, vc: str, pinned_id: str) -> View | None:
        """The view of a VC's pinned cell, None if the VC has no such cell."""
        return next((view for view in self.vc(vc) if view.pinned_id == pinned_id), None)

    def pins(self, vc: str) -> tuple[str, ...]:
        """Ids of a VC's pinned cells."""
        return tuple(view.pinned_id for view in self.vc(vc) if view.pinned_id is not None)


def leaf_types(views: Iterable[View]) -> dict[str, int]:
    """Leaf cells by leaf cell type, in order of first appearance."""
    counts: dict[str, int] = {}
    for view in views:
        counts[view.leaf_type] = counts.get(view.leaf_type, 0) + view.leaves
    return counts


def _view(chain: Chain, levels: list[int], pinned_id: str | None = None) -> View:
    nodes: dict[int, int] = {}
    for level in levels:
        size = chain.leaves[min(level, chain.node_level)]
        nodes[size] = nodes.get(size, 0) + chain.nodes(level)
    return View(chain.name, chain.leaf_type, nodes, pinned_id)


def _views(chains: Mapping[str, Chain], cells: list[tuple[str, int, str | None]]) -> Iterable[View]:
    for name, chain in chains.items():
        levels = [level for own, level, pinned_id in cells if own == name and pinned_id is None]
        if levels:
            yield _view(chain, levels)
    for name, level, pinned_id in cells:
        if pinned_id is not None:
            yield _view(chains[name], [level], pinned_id)
