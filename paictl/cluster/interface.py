"""The interface of a cluster, and the values that cross it.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from paictl.errors import ExitCode, PaictlError
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.cluster.picture import Picture
    from paictl.scheduler.explain import Explanation


class ClusterError(PaictlError):
    """The cluster refuses a request; nothing has changed."""


class ConflictError(ClusterError):
    """The cluster is not as the request supposes: somebody else was faster, or a name is taken."""


class UnreachableError(ClusterError):
    """What should answer does not: no cluster here, or a service that is stopped."""

    exit_code = ExitCode.UNREACHABLE


class Role(StrEnum):
    """What a machine is for."""

    MASTER = "master"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as its administrator describes it; `memory` in bytes, `devices` counts accelerators."""

    name: str
    address: str
    role: Role
    sku: str = ""
    cpu: int = 0
    memory: int = 0
    device_type: str = ""
    devices: int = 0


class NodeCondition(StrEnum):
    """How a node is; only a ready one gets new pods, pods on a cordoned one go on."""

    READY = "Ready"
    CORDONED = "Cordoned"
    FAILED = "Failed"


class NodeChange(StrEnum):
    """What can be done to a node; the last two only where machines are imagined."""

    CORDON = "cordon"
    UNCORDON = "uncordon"
    FAIL = "fail"
    HEAL = "heal"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine and its condition since some instant; `used` counts devices held by pods.

    `reason` says why no new pod can come here although the condition allows it.
    """

    machine: Machine
    condition: NodeCondition
    since: datetime
    used: int = 0
    pods: tuple[str, ...] = ()
    reason: str = ""


class JobState(StrEnum):
    """Where a job is in its life."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED)


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task: `devices` are indices on `node` while a pod of it runs; `attempt` counts from 0."""

    role: str
    index: int
    state: str
    attempt: int = 0
    pod: str = ""
    node: str = ""
    devices: tuple[int, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobView:
    """A job: `devices` is what all its tasks ask for together; `preemptions` counts lost attempts of its tasks.

    `started` is when the present attempt first had a running task, None while none had: progress made before is lost.
    """

    key: str
    """``user~name``"""
    vc: str
    priority: str
    state: JobState
    submitted: datetime
    devices: int
    started: datetime | None = None
    ended: datetime | None = None
    number: int = 0
    """Its place in the order of submission, from 1."""
    attempt: int = 0
    preemptions: int = 0
    used: int = 0
    """Devices that its pods hold now."""
    reason: str = ""
    tasks: tuple[TaskView, ...] = ()


FOREVER = Millis(-1)
"""The duration of a task that ends only when it is stopped."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """What is submitted: the protocol-v2 data and what the command line adds.

    `duration` of each task in milliseconds, or `FOREVER`; without one the job's commands tell.
    """

    user: str
    data: Mapping[str, object]
    vc: str | None = None
    priority: str | None = None
    duration: Millis | None = None


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A service: `ready` says whether it does its work, `reason` why not; configuration by version."""

    name: str
    running: bool
    ready: bool
    since: datetime
    reason: str = ""
    loaded: int | None = None
    """Version of the configuration that it read when it started."""


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """One push: file name → text, secrets sealed."""

    number: int
    at: datetime
    message: str
    files: Mapping[str, str]


class EventKind(StrEnum):
    """What can happen; to which kind of object is said with each."""

    # to a node
    NODE_ADDED = "NodeAdded"
    NODE_REMOVED = "NodeRemoved"
    READY = "Ready"
    CORDONED = "Cordoned"
    # to a node, a task of a job (then the data say which), or a job
    FAILED = "Failed"
    # to a job
    SUBMITTED = "Submitted"
    DEMOTED = "Demoted"
    """It lost its guarantee and runs on."""
    RETRIED = "Retried"
    """It starts again from the beginning."""
    SUCCEEDED = "Succeeded"
    # to a task of a job
    FINISHED = "Finished"
    PREEMPTED = "Preempted"
    LOST = "Lost"
    """Its node went away."""
    KILLED = "Killed"
    # to a task of a job, or a service
    STARTED = "Started"
    # to a job, or a service
    STOPPED = "Stopped"
    # to the configuration, or a service
    PUSHED = "Pushed"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: `subject` is ``kind/name``, `data` what a machine may want to know."""

    number: int
    at: datetime
    kind: EventKind
    subject: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Situation(StrEnum):
    """Why a job is where it is."""

    NOT_WAITING = "not waiting"
    SERVICE_STOPPED = "service stopped"
    """A service stands between it and devices; `JobExplanation.service` says which."""
    NO_SCHEDULER = "no scheduler"
    UNKNOWN_TERMS = "unknown terms"
    """It asks for what the scheduler's configuration does not have; `JobExplanation.reason` says for what."""
    NO_ROOM = "no room"
    """The scheduler has looked; `JobExplanation.scheduler` says what it found."""


@dataclass(frozen=True, slots=True)
class JobExplanation:
    """Why a job is where it is, as data; `paictl.operate.explaining` makes text of it.

    `waiting` of its `tasks` wait.
    """

    job: str
    state: JobState
    situation: Situation
    service: str = ""
    reason: str = ""
    waiting: int = 0
    tasks: int = 0
    scheduler: Explanation | None = None


class Harm(StrEnum):
    """What another configuration would do to a job once the scheduler loads it."""

    NO_GUARANTEE = "runs on without its guarantee"
    NO_CELL = "runs on devices of which the scheduler knows nothing"
    NO_VC = "waits for a virtual cluster that is gone"
    NEVER = "waits and can never run"


@dataclass(frozen=True, slots=True)
class Impact:
    """A job that another configuration would harm."""

    job: str
    vc: str
    harm: Harm


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


class Nodes(Protocol):
    """The machines of a cluster. Every method raises `ClusterError` with the reason when it refuses."""

    def nodes(self) -> Sequence[NodeView]:
        """All nodes by name."""

    def set_node(self, name: str, change: NodeChange) -> NodeView:
        """Change a node; a cluster of real machines refuses to let one fail or heal."""

    def add_node(self, machine: Machine) -> NodeView:
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

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """Jobs in order of submission, without tasks."""

    def job(self, key: str) -> JobView:
        """One job with its tasks."""

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """Events in order, of one object (``job/user~name``) or of all."""


class Scheduling(Protocol):
    """What the scheduler knows. Every method raises `ClusterError` with the reason when it refuses."""

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run."""

    def picture(self, *, history: bool = False) -> Picture:
        """Cells, virtual clusters, nodes and jobs at one instant; with `history` ended jobs and the timeline, too."""

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off if the scheduler ran by other configuration files; changes nothing."""


class Configuration(Protocol):
    """The configuration that was pushed. Every method raises `ClusterError` with the reason when it refuses."""

    def configuration(self, number: int | None = None) -> ConfigVersion:
        """A version of the configuration, the newest without a number."""

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions, oldest first."""

    def push(self, files: Mapping[str, str], message: str, *, base: int | None = None) -> ConfigVersion:
        """Store a new version of all files together; running services go on with what they loaded.

        `base` is the version that the files were made from, 0 for none: `ConflictError` if it is not the newest any
        more. None pushes over whatever is there.
        """


class Services(Protocol):
    """The services of a cluster. Every method raises `ClusterError` with the reason when it refuses."""

    def services(self) -> Sequence[ServiceView]:
        """All services that are there, by name; a deleted one is not."""

    def set_service(self, name: str, *, running: bool) -> ServiceView:
        """Start (loading the newest configuration) or stop a service; what it needs is the caller's to see to."""

    def restart_services(self, names: Sequence[str]) -> None:
        """Stop services, the last first, and start them again in order with the newest configuration.

        One request: none of them is left stopped, whoever dies on the way.
        """

    def losses(self, name: str) -> Sequence[str] | None:
        """What `wipe_service` would destroy now, as lines for people; None if only the service's description knows."""

    def wipe_service(self, name: str) -> None:
        """Stop a service and destroy its data; it may fail when some of it is gone, and can be asked again."""


class Cluster(Identity, Nodes, Jobs, Scheduling, Configuration, Services, Protocol):
    """All ports of a cluster together. A function asks for the ports that it uses, not for the whole."""


@runtime_checkable
class HandClock(Protocol):
    """A cluster whose time can be advanced by hand; a real one has no such port."""

    @property
    def pace(self) -> float | None:
        """How many times faster than the wall clock it goes; None: until nothing more happens, after every command."""

    def tick(self, span: Millis | None) -> datetime:
        """Let a span pass, or (None) everything that will happen; the new instant."""
