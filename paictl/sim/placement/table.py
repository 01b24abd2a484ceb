"""The placements that a policy can name; those with parameters of their own are made by their policies."""

from __future__ import annotations

from paictl.sim.placement.consolidate import Consolidate
from paictl.sim.placement.count import Count

PLACEMENTS: dict[str, type[Count] | type[Consolidate]] = {kind.id: kind for kind in (Count, Consolidate)}
"""By name, the placements that need nothing but the cluster: the values of a policy's `placement=`."""
