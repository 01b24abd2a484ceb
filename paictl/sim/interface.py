"""What the engine asks of a policy; `policies.base.Policy` is what policies are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from paictl.sim.actions import Action, Trigger
from paictl.sim.knowledge import Knowledge
from paictl.sim.rates import Costs, Rates
from paictl.sim.view import JobView
from paictl.units import Millis


class Scheduler(Protocol):
    """Who decides. It gets views and returns actions; it has no way to touch the engine's state."""

    knows: frozenset[Knowledge]
    costs: Costs
    rates: Rates
    transparent: bool
    """Any job may run on fewer devices than it asked for, without knowing it; else only those that are elastic."""
    tunes: bool
    """It chooses batch sizes: a job may have as many devices as its training profile allows."""

    def decide(self, moment: Trigger) -> Sequence[Action]:
        """What to do now; called once for each instant at which something happened."""

    def wake(self) -> Millis | None:
        """The next instant at which it wants to be asked even if nothing happens, None if there is none.

        Read after each decision; later than that decision, or the run ends with a `PolicyError`.
        """

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """What it wants to see beside the job in the results; asked once, when the job has left."""

    def counted(self) -> Mapping[str, float]:
        """Counters of its own for the results; asked once, at the end."""
