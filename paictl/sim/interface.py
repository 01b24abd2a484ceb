"""What the engine requires of a policy; policies derive from `policies.base.Policy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from paictl.sim.actions import Action, Trigger
from paictl.sim.knowledge import Knowledge
from paictl.sim.rates import Costs, Rates
from paictl.sim.view import JobView
from paictl.units import Millis


class Scheduler(Protocol):
    """A policy as the engine sees it. It gets views and returns actions, and cannot touch the engine's state."""

    knows: frozenset[Knowledge]
    costs: Costs
    rates: Rates
    transparent: bool
    """Whether any job may run on fewer devices than it asked for, without knowing it; else only elastic jobs may."""
    tunes: bool
    """Whether it chooses batch sizes: a job may have as many devices as its training profile allows."""

    def decide(self, moment: Trigger) -> Sequence[Action]:
        """What to do now; called once for each instant at which something happened."""

    def wake(self) -> Millis | None:
        """The next instant at which it wants to be called even if nothing happens, None if there is none.

        Read after each decision; must be later than it, or the run ends with a `PolicyError`.
        """

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """Values to show with the job in the results; called once, when the job has left."""

    def counted(self) -> Mapping[str, float]:
        """Its own counters for the results; called once, at the end."""
