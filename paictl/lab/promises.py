"""What a configuration promises to virtual clusters, for the checks that ask; few do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from paictl.cells.spec import ClusterSpec
from paictl.cells.tree import build_physical
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.frozen import frozen
from paictl.workload.supply import Supply


@frozen
class VcPromise:
    """What a VC is promised: so many devices, in the chains that `nodes` (sorted) belong to."""

    devices: int
    nodes: tuple[str, ...]


@lru_cache(maxsize=16)
def promises(files: tuple[tuple[str, str], ...]) -> Mapping[str, VcPromise]:
    """VC → what a configuration promises to it; read once, for it is asked after every command."""
    loaded = load_memory(dict(files))
    for document in loaded.documents:
        if document.kind is FileKind.HIVED and isinstance(document.data, dict):
            spec = ClusterSpec.from_mapping(document.data)
            tree = build_physical(spec)
            nodes: dict[str, set[str]] = {}
            for cell in tree.cells():
                chain = tree.chains[tree.chain[cell]]
                if tree.level[cell] == chain.node_level:
                    nodes.setdefault(chain.name, set()).add(tree.node_name(cell))
            return {
                vc: VcPromise(
                    sum(view.leaves for view in views),
                    tuple(sorted(set().union(*(nodes.get(view.chain, set()) for view in views)))),
                )
                for vc, views in Supply.from_spec(spec).vcs.items()
            }
    return {}
