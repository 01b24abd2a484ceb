"""Tiresias-L: least attained service, and consolidation only for those whom it helps."""

from __future__ import annotations

from typing import Literal

from paictl.frozen import frozen
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.base import Placer
from paictl.sim.placement.consolidate import Skew
from paictl.sim.policies.las import Las, LasParameters
from paictl.sim.policies.parameters import parameter


@frozen
class TiresiasParameters(LasParameters):
    """As `las`, and who must be consolidated."""

    placement: Literal["skew", "count", "consolidate"] = parameter(  # type: ignore[assignment] # one more
        "skew", "skew (consolidates models above packlimit; others fill fragments), count, consolidate"
    )
    packlimit: float = parameter(0.4, "skew (largest tensor by model size) above which a job is consolidated", most=1)


class Tiresias(Las):
    """`las` with placement by the skew of the model, which a profiler measures. Example: `tiresias:packlimit=0.3`."""

    id = "tiresias"
    title = "least attained service, models with one large tensor consolidated"
    paper = "Tiresias (NSDI'19) §3.2, §3.3"
    knows = frozenset({Knowledge.SKEW})
    choices = (
        *Las.choices,
        "packlimit is 0.4: any value between 0.15 and 0.6 divides the paper's models in the same way",
        "a job without a place is skipped, and no job is preempted for it in vain",
    )
    Parameters = TiresiasParameters

    def make_placement(self) -> Placer:
        """By skew unless told otherwise."""
        if self.p.placement == "skew":
            return Skew(self.cluster, self.p.packlimit)
        return super().make_placement()
