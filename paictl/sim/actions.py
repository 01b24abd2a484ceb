"""What a policy can ask of the engine. The actions of a decision are applied in order, and all of them or none."""

from __future__ import annotations

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.sim.cluster import Devices
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
