"""The interface of a cluster in ports, and the door to the values that cross it (made in `values`).

Kept honest for a real cluster, so that no caller relies on what only a cluster on this machine can promise:

* What was asked is acknowledged, not done. `submit` returns before a pod is bound, `set_service` before the service is
  ready, `push` before anybody has loaded the version; the view that comes back is what is known at that instant.
* State is a level, read back as often as needed, never an edge that could be missed: callers compare what they want
  with what they see. `events` are for people; an implementation may drop old ones.
* Two answers need not agree: each is right for some instant between the call and its return, and never older than
  what this object has answered or acknowledged before.
* Any call may meet a conflict (`ConflictError`: read again, decide again) or an absent server (`UnreachableError`: the
  request may have been done or not, so ask before asking again). Requests that set a level (`set_node`, `stop_job`,
  `set_service`, `wipe_service`, `remove_node`) can be repeated without harm until they are acknowledged.
* A request for several objects either takes effect for all of them or, where the docstring says so, may fail half way;
  then the error says how far it came.

Instants are aware datetimes of the cluster's own clock, which need not be that of this machine; spans are milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from paictl.cluster.movetotals import MovesNoted
from paictl.cluster.values import (
    FOREVER,
    About,
    ClusterError,
    ConfigVersion,
    ConflictError,
    DriverSource,
    Event,
    EventKind,
    JobRequest,
    JobState,
    JobView,
    MachineSpec,
    MaintenanceWindow,
    MemberRepair,
    NodeChange,
    NodeCondition,
    NodeDriver,
    NodeRole,
    NodeView,
    NoJobError,
    NotStartedError,
    Port,
    PromisedStart,
    Protection,
    ReservationView,
    ServiceView,
    SshAddress,
    StoreError,
    TaskPlace,
    TaskView,
    UnreachableError,
    UnsupportedError,
)
from paictl.frozen import frozen

if TYPE_CHECKING:
    import socket

    from paictl.cluster.accounts import Account, Token
    from paictl.cluster.defrag import DefragPlan, GangPods
    from paictl.cluster.maintenance import WindowRequest
    from paictl.cluster.picture import Picture
    from paictl.cluster.reservations import ReservationRequest
    from paictl.cluster.scheduling import Impact, JobExplanation
    from paictl.cluster.storages import Credentials, Storage
    from paictl.cluster.templates import TemplateLibrary
    from paictl.remote import Pipes
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.workload.lending import LendUse
    from paictl.workload.usage import UsageAmount

__all__ = [
    "FOREVER",
    "About",
    "Cluster",
    "ClusterError",
    "ConfigVersion",
    "Configuration",
    "ConflictError",
    "Defragmented",
    "DeviceTime",
    "DriverSource",
    "Event",
    "EventKind",
    "Identity",
    "JobRequest",
    "JobState",
    "JobView",
    "Jobs",
    "MachineSpec",
    "Maintained",
    "MaintenanceWindow",
    "MemberRepair",
    "Metered",
    "NoJobError",
    "NodeChange",
    "NodeCondition",
    "NodeDriver",
    "NodeRole",
    "NodeView",
    "Nodes",
    "NotStartedError",
    "Port",
    "PromisedStart",
    "Protection",
    "ReservationView",
    "Reserving",
    "Scheduling",
    "ServiceView",
    "Services",
    "SshAddress",
    "StoreError",
    "Stored",
    "TaskPlace",
    "TaskView",
    "UnreachableError",
    "UnsupportedError",
    "Users",
]


class Identity(Protocol):
    """Which cluster this is, and what time it is there."""

    @property
    def name(self) -> str:
        """The cluster's id, which destructive commands ask for."""

    @property
    def now(self) -> datetime:
        """The instant to which the answers of this object refer."""

    @property
    def epoch(self) -> datetime:
        """When the cluster came up, or when paictl first knew of it: nothing that it tells happened before."""

    @property
    def lacks(self) -> Mapping[Port, str]:
        """The ports that this kind of cluster does not answer yet, each with what to do instead; nothing is asked.

        Every method of such a port raises `UnsupportedError`.
        """

    def about(self) -> About:
        """What it is; raises `UnreachableError` if it does not answer."""


class Nodes(Protocol):
    """The machines of a cluster. Every method raises `ClusterError` with the reason when it refuses."""

    def nodes(self) -> Sequence[NodeView]:
        """All nodes by name."""

    def set_node(self, name: str, change: NodeChange) -> NodeView:
        """Change a node; a cluster of real machines refuses to let one fail or heal."""

    def set_devices(self, name: str, change: NodeChange, devices: Sequence[int]) -> NodeView:
        """Let devices of a node (counted from 0) fail, or heal; a cluster of real machines refuses."""

    def add_node(self, machine: MachineSpec) -> NodeView:
        """A machine joins; `ConflictError` if its name or address is taken."""

    def remove_node(self, name: str) -> None:
        """A machine leaves; its pods are lost, at once or when the cluster notices."""


class Jobs(Protocol):
    """The jobs of a cluster. Every method raises `ClusterError` with the reason when it refuses."""

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take jobs; `ConflictError` if a name is taken.

        All or none are refused for what is wrong with them. A server that takes jobs one by one may fail in between;
        it has then taken the first ones, and the error names the first that it has not.
        """

    def stop_job(self, key: str) -> None:
        """End a job; its pods may take a while to go. Nothing to do for one that has ended."""

    def tag_job(self, key: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Sequence[str]:
        """Change the tags of a job, ended or not; returns all of them. Nothing is scheduled by them.

        Raises `TagError` for a word that cannot be a tag, or too many of them.
        """

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """Jobs in order of submission, without tasks."""

    def job(self, key: str) -> JobView:
        """One job with its tasks."""

    def output(self, key: str, task: TaskPlace, *, follow: bool = False, lines: int | None = None) -> Iterator[bytes]:
        """What a task's newest pod has written, in pieces; also of one that has ended, while the cluster has it.

        With `follow` until it ends, `lines` only the last ones. Raises `ClusterError` for a task that is not there or
        has no pod any more, `NotStartedError` where its pod may yet come.
        """

    def execute(self, key: str, task: TaskPlace, command: Sequence[str], pipes: Pipes) -> int:
        """Run a command beside a running task, in its container, until it ends; its exit code.

        Raises `UnsupportedError` where pods are imagined, `ClusterError` for a task that does not run.
        """

    def ssh_address(self, key: str, task: TaskPlace) -> SshAddress | None:
        """Where a running task is reached by SSH; None if the job has no port for it.

        Raises `ClusterError` for a task that does not run.
        """

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """A connection to a port of a running task, also to what listens there on localhost only.

        It ends at once where nothing listens. Raises `UnsupportedError` where pods are imagined, `ClusterError` for a
        task that does not run.
        """

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """Events in order, of one object (``job/user~name``) or of all."""


class Scheduling(Protocol):
    """What the scheduler knows. Every method raises `ClusterError` with the reason when it refuses."""

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run."""

    def promised_starts(self) -> Sequence[PromisedStart]:
        """The gangs that wait and were promised a start, by that instant (`docs/backfill.md`)."""

    def foresee(self, request: JobRequest) -> JobExplanation:
        """The explanation of a job as if it had been submitted now; nothing is, and its name may be taken.

        Raises `ClusterError` or `JobError` for what would be refused.
        """

    def picture(self, *, history: bool = False) -> Picture:
        """Cells, virtual clusters, nodes and jobs at one instant; with `history` ended jobs and the timeline, too."""

    def held_devices(self) -> Mapping[tuple[str, str], int]:
        """Devices that gangs hold with a guarantee, by (virtual cluster, user)."""

    def borrowed_devices(self) -> Mapping[str, int]:
        """Devices that gangs hold without a guarantee, by virtual cluster."""

    def lend_use(self) -> LendUse | None:
        """How the promises stand, for lend limits; None without a scheduler."""

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off if the scheduler ran by other configuration files; changes nothing."""


class Configuration(Protocol):
    """The configuration that was pushed. Every method raises `ClusterError` with the reason when it refuses."""

    def configuration(self, number: int | None = None) -> ConfigVersion:
        """A version of the configuration, the newest without a number."""

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions that are kept, oldest first."""

    def push(
        self,
        files: Mapping[str, str],
        message: str,
        *,
        base: int | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> ConfigVersion:
        """Store a new version of all files together, whole or not at all; running services go on with what they loaded.

        `base` is the version that the files were made from, 0 for none: `ConflictError` if it is not the newest any
        more. None pushes over whatever is there. `secrets` are the values behind seals in `files` that the cluster may
        not know yet, as `config.secrets.sealing.values_behind` gives them; what it has no use for it forgets.
        """


class Services(Protocol):
    """The services of a cluster. Every method raises `ClusterError` with the reason when it refuses."""

    def services(self, *, closely: bool = False) -> Sequence[ServiceView]:
        """All services that are there, by name; a deleted one is not.

        With `closely` the views say `changed` and `stale` too, which takes longer.
        """

    def drift(self, name: str) -> Sequence[str]:
        """What somebody has changed about the objects of a service by hand: a line each, object and field."""

    def protections(self) -> Sequence[Protection]:
        """What protects tenants from each other, and whether it is in force; none without a scheduler."""

    def drivers(self) -> Sequence[NodeDriver]:
        """The GPU driver of each node with NVIDIA GPUs; none unless the service `gpu-driver` installs drivers."""

    def lacking(self) -> Mapping[str, Sequence[str]]:
        """By service the images that it needs and no machine can get; none where machines reach a registry."""

    def note_images(self, images: Collection[str] | None) -> None:
        """Keep which images the machines have, None where they reach a registry: `lacking` heeds it from then on."""

    def set_service(self, name: str, *, running: bool, take_over: bool = False) -> ServiceView:
        """Start (loading the newest configuration) or stop a service; what it needs is the caller's to see to.

        Raises `ConflictError` if somebody else has set what it would set, unless `take_over` makes that ours.
        """

    def refresh_service(self, name: str, *, take_over: bool = False) -> None:
        """Let a running service load the newest configuration."""

    def restart_services(self, names: Sequence[str], *, take_over: bool = False) -> None:
        """Stop services, the last first, and start them again in order with the newest configuration.

        One request: none of them is left stopped, whoever dies on the way.
        """

    def losses(self, name: str) -> Sequence[str] | None:
        """The data of a service now, as lines for people; None if only the service's description knows."""

    @property
    def keeps_data(self) -> bool:
        """Whether `wipe_service` can leave the data of a service; else they always go."""

    def wipe_service(self, name: str, *, with_data: bool = False) -> None:
        """Stop a service and delete it, its data only if told so or they cannot be kept.

        It may fail when some of it is gone, and can be asked again.
        """


class Users(Protocol):
    """Who may use the cluster over HTTP. Every method raises `ClusterError` with the reason when it refuses.

    A store of records: what an account may do, and what a token is worth, `operate.users` says. The one rule that only
    the store can keep is its own, because it needs the check and the write in one step: once there is an administrator,
    there is always one (`LastAdministratorError`), however many clients change accounts at once.
    """

    def accounts(self) -> Sequence[Account]:
        """All accounts by name."""

    def account(self, name: str) -> Account | None:
        """An account as it is now, None if there is none."""

    def put_account(self, account: Account) -> Account:
        """Make an account, or put it over the version that it names; it comes back with its new version.

        `ConflictError` if there is one of that name already, or if it is not that version any more;
        `LastAdministratorError` if no administrator would be left.
        """

    def remove_account(self, name: str, version: str = "") -> None:
        """Remove an account with its tokens, with `version` only that state of it; nothing to do if there is none.

        `LastAdministratorError` if no administrator would be left, `ConflictError` if it is another version or others
        change it all the time.
        """

    def tokens(self, user: str) -> Sequence[Token]:
        """The tokens of a user, oldest first, those that have expired among them."""

    def token(self, digest: str) -> Token | None:
        """A token by its SHA-256 in hexadecimal digits, None if there is none."""

    def add_token(self, token: Token) -> None:
        """Keep a token."""

    def remove_tokens(self, digests: Iterable[str]) -> int:
        """Take tokens away, and say how many were there: of clients that take one at once, one alone had it."""


@frozen
class DeviceTime:
    """The device time of a window up to `end`, which is not after the present."""

    amounts: tuple[UsageAmount, ...]
    end: datetime
    since: datetime
    """What ended before was not counted."""


class Metered(Protocol):
    """A cluster that keeps account of its devices (`docs/usage.md`)."""

    def usage(self, start: datetime, end: datetime) -> DeviceTime:
        """The device time of a window, up to the present."""


class Maintained(Protocol):
    """A cluster with maintenance windows (`docs/maintenance.md`)."""

    def windows(self) -> Sequence[MaintenanceWindow]:
        """The windows that have not ended, those that begin first in front."""

    def add_window(self, request: WindowRequest) -> MaintenanceWindow:
        """Add a window; raises `WindowError` for what is wrong with it, or overlaps another of the same node."""

    def remove_window(self, name: str) -> None:
        """Remove a window, its nodes are used again; raises `PaictlError` if there is none of that name."""


class Reserving(Protocol):
    """A cluster with reservations (`docs/reservations.md`)."""

    def reservations(self) -> Sequence[ReservationView]:
        """The reservations that are not over, those that begin first in front."""

    def add_reservation(self, request: ReservationRequest, *, dry_run: bool = False) -> ReservationView:
        """Add a reservation, or with `dry_run` only find out whether that would do.

        Raises `ReservationError` for what is wrong with it or could not be kept.
        """

    def remove_reservation(self, name: str) -> None:
        """Remove a reservation: its cells are free for others; raises `PaictlError` if there is none of that name."""


class Defragmented(MovesNoted, Protocol):
    """A cluster on which gangs can be moved to make room (`docs/defragmentation.md`)."""

    def plan_moves(self, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room; changes nothing. Raises `RoomError` for what can never be."""

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more; empty if they would.

        `kept` are the nodes of rooms that were made before; not `exactly`: other places than planned are as good.
        """

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""

    def evict_gang(self, gang: GangPods) -> None:
        """Evict all pods of a gang, or none where a disruption budget protects one of them (`ClusterError`)."""


@runtime_checkable
class Stored(Protocol):
    """A cluster with named storages (`docs/storage.md`). Every method raises `ClusterError` when it refuses."""

    def storages(self) -> Sequence[Storage]:
        """All storages by name."""

    def add_storage(self, storage: Storage, credentials: Credentials | None = None) -> None:
        """Add a storage, whole or not at all; `ConflictError` if its name is taken.

        The credentials of SMB are kept where only the cluster's administrators and its storage driver read them.
        """

    def grant_storage(self, name: str, add: Sequence[str], revoke: Sequence[str]) -> Storage:
        """Change which virtual clusters may use a storage; jobs that run keep it."""

    def remove_storage(self, name: str) -> None:
        """Remove a storage from the list, with its credentials; its data stay where they are."""


@runtime_checkable
class Templated(Protocol):
    """A cluster with job templates (`docs/templates.md`). Every method raises `ClusterError` when it refuses."""

    def template_libraries(self) -> Sequence[TemplateLibrary]:
        """All libraries by name."""

    def put_template_library(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library (`ConflictError` if its name is taken), or replace the one of its name; whole or not at all."""

    def remove_template_library(self, name: str) -> None:
        """Remove a library; jobs that were made from it are none of its business."""


class Cluster(
    Identity,
    Nodes,
    Jobs,
    Scheduling,
    Configuration,
    Services,
    Metered,
    Maintained,
    Reserving,
    Defragmented,
    Stored,
    Templated,
    Protocol,
):
    """All ports of a cluster together. A function asks for the ports that it uses, not for the whole."""

    @property
    def users(self) -> Users:
        """The port of users: a store of its own, which no other port reads."""
