"""What only some clusters can do, beside the ports of `interface`: callers ask with `isinstance`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from paictl.frozen import frozen
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.cluster.access import AccessRequest, AccessRole, GivenAccess, OtherRight
    from paictl.cluster.diagnostics import Diagnostics, LogLimits, Tell
    from paictl.cluster.figures import ClusterFigures
    from paictl.cluster.values import Event, ServiceView


@runtime_checkable
class HandClock(Protocol):
    """A cluster whose time can be advanced by hand; a real one has no such port."""

    @property
    def pace(self) -> float | None:
        """How many times faster than the wall clock it goes; None: until nothing more happens, after every command."""

    def tick(self, span: Millis | None) -> datetime:
        """Let a span pass, or (None) everything that will happen; the new instant."""


@runtime_checkable
class Recorded(Protocol):
    """A cluster that keeps a log of everything that changed it, from which all else can be computed again."""

    @property
    def epoch(self) -> datetime:
        """When it began."""

    @property
    def present(self) -> Millis:
        """The present on its own clock."""

    def log(self) -> Sequence[tuple[Millis, Mapping[str, Any]]]:
        """(instant, command) of everything that changed it, in order."""

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """What happened."""


@runtime_checkable
class SchedulerShown(Protocol):
    """A cluster whose scheduler is a program of its own, which keeps a record of its newest decisions."""

    def scheduler_files(self) -> Mapping[str, bytes]:
        """What it shows of itself, as files; ``NAME/decisions.json`` is what `scheduler.record.encode` makes.

        Empty if nothing schedules; raises `ClusterError` if what does shows nothing.
        """


@runtime_checkable
class Measured(Protocol):
    """A cluster whose scheduler is not a separate program that Prometheus could scrape."""

    def figures(self) -> ClusterFigures:
        """What its scheduler knows now; the figures of all virtual clusters and users."""


class AccessStore(Protocol):
    """The access of people to an API server. Every method raises `ClusterError` with the reason when it refuses."""

    def accesses(self) -> Sequence[GivenAccess]:
        """What was given, by user, role and namespace."""

    def modified_bindings(self) -> Sequence[str]:
        """Bindings made for access that were changed by hand since."""

    def other_rights(self, user: str, groups: Sequence[str] = (), accounts_of: str = "") -> Sequence[OtherRight]:
        """What others have bound to a user, these groups, or the service accounts of a namespace."""

    def give_access(
        self, request: AccessRequest, deliver: Callable[[str], object], timeout: float = ...
    ) -> GivenAccess:
        """Sign a certificate, bind its user to a role, and hand the kubeconfig to `deliver`; all of it or nothing."""

    def remove_access(self, user: str, role: AccessRole | None = None, namespace: str = "") -> Sequence[GivenAccess]:
        """Remove what a user was given, of one role or in one namespace if named; what was removed."""


@runtime_checkable
class PersonalAccess(Protocol):
    """A cluster with an API server, to which people have access of their own."""

    @property
    def access(self) -> AccessStore:
        """The access of people."""


@runtime_checkable
class Diagnosed(Protocol):
    """A cluster whose services are programs, with logs."""

    def diagnostics(self, limits: LogLimits, tell: Tell) -> Diagnostics:
        """States, events and logs of the services and the control plane; never of jobs. What is missing is named."""

    def unrecorded_services(self) -> Sequence[ServiceView]:
        """Services that run although nobody has started them by this port: others have applied their objects."""


@frozen
class OpenPaiLeft:
    """What OpenPAI's own tool left in a cluster: the id, empty for none, and its files with their secrets in clear."""

    cluster_id: str
    files: Mapping[str, str] = field(repr=False)


@runtime_checkable
class OpenPaiStore(Protocol):
    """A cluster in which OpenPAI may have left its configuration."""

    def left_by_openpai(self) -> OpenPaiLeft:
        """What is there; raises `ClusterError` if nothing is."""
