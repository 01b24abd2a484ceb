"""Ports that only some clusters have, beside those of `interface`, and the values that cross them: callers ask with
`isinstance`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from paictl.frozen import frozen
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.cluster.access import AccessRequest, AccessRole, GivenAccess, OtherRight
    from paictl.cluster.figures import ClusterFigures
    from paictl.cluster.values import Event, ServiceView


Tell = Callable[[str], object]
"""Reports progress to people: called with the step that begins."""

LINES: Final = 2000
SECONDS: Final = 120.0


@frozen
class LogLimits:
    """How much of logs is taken, and until when (on `time.monotonic`'s clock)."""

    until: float
    lines: int = LINES
    """The newest lines of each container, and of the one before it where it has restarted."""
    container_bytes: int = 256 << 10
    total_bytes: int = 32 << 20
    containers: int = 300
    events: int = 5000
    """The newest ones, of each namespace."""


@frozen
class ContainerLog:
    """The newest lines that a container has written, as they are: with any secret that is in them."""

    namespace: str
    pod: str
    container: str
    previous: bool
    """Whether this is the container before the present one."""
    text: str = field(repr=False)
    cut: bool
    """Whether the lines that were asked for were too many bytes."""


@frozen
class Diagnostics:
    """What was found; `missing` says what could not be read, and why.

    `secrets` are values that no text of a report may hold, as far as the caller may read them.
    """

    pods: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]
    logs: Sequence[ContainerLog]
    missing: Mapping[str, str]
    secrets: frozenset[str] = field(repr=False)


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
class GrantsNamespaces(Protocol):
    """A cluster in which pods of namespaces use the virtual clusters that were granted to these."""

    def granted_namespaces(self) -> Mapping[str, Sequence[str]]:
        """The virtual clusters granted to each namespace, as they are written there; those without any are left out."""


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
