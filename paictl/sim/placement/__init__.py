"""Which devices a job gets: the policy's own book of what is free.

A placement must never see the engine's state: it takes and gives back what the policy tells it to, so that a policy may
try things out; the engine checks the result against the truth.
"""

from __future__ import annotations

from paictl.sim.placement.consolidate import Consolidate
from paictl.sim.placement.count import Count

PLACEMENTS: dict[str, type[Count] | type[Consolidate]] = {kind.id: kind for kind in (Count, Consolidate)}
"""By name, the placements that need nothing but the cluster: the values of a policy's `placement=`."""
