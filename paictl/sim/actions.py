"""What a policy can ask the engine for. All actions of one decision are applied as a whole, in their order, or none."""

from __future__ import annotations

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.sim.cluster import Devices
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis


class PolicyError(PaictlError):
    """A policy asked for what cannot be: a defect of the policy, and nothing was changed."""


@frozen
class Start:
    """Give a waiting job these devices, to itself; as many as it asked for, or as many as it is elastic."""

    job: JobView
    devices: Devices
    limit: int = ONE
    """How much of its rate it gets, in millionths."""


@frozen
class Colocate:
    """Give a waiting job these devices, whoever else is on them; one that runs: change its limit."""

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
    """End it for good, before its time."""

    job: JobView


@frozen
class Migrate:
    """Move a running job to as many other devices, free ones unless it was co-located."""

    job: JobView
    devices: Devices
    undone: Millis | None = None
    """Where it starts again there instead of moving with all its work: how long ago it saved its work."""


@frozen
class Resize:
    """Let a running elastic job run on another number of devices; all of them are told, kept ones too."""

    job: JobView
    devices: Devices
    limit: int = ONE


Action = Start | Colocate | Preempt | Stop | Migrate | Resize


@frozen
class Trigger:
    """Why the policy is asked: everything that happened at this instant."""

    now: Millis
    ended: tuple[JobView, ...]
    """Their devices are free already. Also those whose devices failed: their next attempts are among the arrived."""
    arrived: tuple[JobView, ...]
    """By (submission, row of the trace), those whose devices failed before them."""
    woken: bool
    """The time it asked to be woken at has come."""
    failed: Devices = ()
    """Devices that nobody can use from now on, free already."""
    repaired: Devices = ()
    """Devices that can be used again."""
