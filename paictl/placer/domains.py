"""Topology constraints of PodGroups: all pods of a gang get nodes with one value of a label."""

from __future__ import annotations

from collections.abc import Iterator

from paictl.doors.table import PodEntry
from paictl.placer.core import PlacerCore


def outsides(core: PlacerCore, member: PodEntry) -> Iterator[dict[str, str]]:
    """For each domain that a gang may be in, the nodes outside of it with the reason; one empty one without constraint.

    The domain where the gang has a place, or waits for others to leave, comes first; one that has begun has no other.
    """
    named = core.table.pod_groups.known.get(member.pod_group)
    if named is None or not named.topology:
        yield {}
        return
    key = named.topology
    value = {name: node.facts.labels.get(key, "") for name, node in core.health.nodes.items() if node.facts is not None}
    held, begun = _held(core, member)
    own = {value[name] for name in held if value.get(name)}
    every = sorted({one for one in value.values() if one}, key=lambda one: (one not in own, one))
    for domain in every if not (begun and own) else sorted(own)[:1]:
        why = f"its PodGroup wants one {key} for all pods"
        yield {name: why for name in core.health.nodes if value.get(name) != domain}
    if not every:
        yield dict.fromkeys(
            core.health.nodes, f"it does not have the label {key}, of which its PodGroup wants one value"
        )


def _held(core: PlacerCore, member: PodEntry) -> tuple[set[str], bool]:
    """The nodes of what a PodGroup's pods hold or wait for, and whether some of them have their place already."""
    infos = (known.info for uid in core.table.pod_groups.members.get(member.pod_group, ())
             if (known := core.book.pods.get(uid)) is not None)  # fmt: skip
    nodes = {info.node for info in infos if info is not None}
    if nodes:
        return nodes, True
    reading = member.reading
    group = core.book.engine.state.groups.by_name.get(reading.request.group) if reading is not None else None
    leaves = group.leaves() if group is not None else ()
    return {core.book.engine.state.physical.node_name(leaf) for leaf in leaves}, False
