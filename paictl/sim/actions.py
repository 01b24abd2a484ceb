"""What a policy can ask of the engine, and what the engine requires of a policy.

The actions of a decision are applied in order, and all of them or none. Policies derive from `policies.base.Policy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.rates import Costs, Rates
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis


class PolicyError(PaictlError):
    """A policy asked for something impossible: a bug of the policy. Nothing was changed."""


@frozen
class Start:
    """Give a waiting job these devices exclusively: as many as it asked for, or within its elastic range."""

    job: JobView
    devices: Devices
    limit: int = ONE
    """How much of its rate it gets, in millionths."""


@frozen
class Colocate:
    """Give a waiting job these devices, even if they are in use; for a running job: change its limit."""

    job: JobView
    devices: Devices
    limit: int = ONE


@frozen
class Preempt:
    """Take its devices away; it waits again."""

    job: JobView
    keep: bool = True
    """False: its work is lost and it starts from the beginning."""


@frozen
class Stop:
    """End it early, for good."""

    job: JobView


@frozen
class Migrate:
    """Move a running job to as many other devices, free ones unless it was co-located."""

    job: JobView
    devices: Devices
    undone: Millis | None = None
    """If it restarts there instead of moving with all its work: how long ago it saved its work."""


@frozen
class Resize:
    """Let a running elastic job run on another number of devices; `devices` lists all of them, including kept ones."""

    job: JobView
    devices: Devices
    limit: int = ONE


Action = Start | Colocate | Preempt | Stop | Migrate | Resize


@frozen
class Trigger:
    """Why the policy is called: everything that happened at this instant."""

    now: Millis
    ended: tuple[JobView, ...]
    """Their devices are free already. Also those whose devices failed: their next attempts are among the arrived."""
    arrived: tuple[JobView, ...]
    """By (submission, row of the trace), those whose devices failed before them."""
    woken: bool
    """Whether the time at which it asked to be woken has come."""
    failed: Devices = ()
    """Devices that have failed and cannot be used from now on; they are free already."""
    repaired: Devices = ()
    """Devices that can be used again."""


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
