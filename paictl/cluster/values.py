"""The values that cross the interface of a cluster, and the errors that it answers with; no rule about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis


class ClusterError(PaictlError):
    """The cluster refuses a request; nothing has changed."""


class StoreError(ClusterError):
    """What a cluster is kept in cannot be read or written: a full disk, missing rights, a damaged file."""


class ConflictError(ClusterError):
    """The cluster is not as the request supposes: somebody else was faster, or a name is taken."""


class NoJobError(ClusterError):
    """No job has the key that a request names."""


class NotStartedError(ClusterError):
    """What is asked about a task cannot be answered before it has started, which it may yet: ask again later."""


class UnreachableError(ClusterError):
    """What should answer does not: no cluster here, or a service that is stopped."""

    exit_code = ExitCode.UNREACHABLE


class Port(StrEnum):
    """The groups of requests that a cluster may answer; each is a protocol in `interface`."""

    NODES = "nodes"
    JOBS = "jobs"
    SCHEDULING = "scheduling"
    CONFIGURATION = "configuration"
    SERVICES = "services"


class UnsupportedError(ClusterError):
    """This kind of cluster cannot do it, or not yet; `hint` says what can be done instead. Asking again is no use."""

    exit_code = ExitCode.USAGE


@frozen
class About:
    """What a cluster is: its `kind`, `where` it is (folder, or server and context), the `version` of its software."""

    kind: str
    where: str
    version: str = ""
    devices: str = ""
    """How pods get their devices, and why; empty if nothing was set up for it."""


@frozen
class PromisedStart:
    """A waiting gang with a promised start: its `job` (or ``namespace/pod``), and the start that it was told last."""

    job: str
    at: datetime


class NodeRole(StrEnum):
    """What a machine is for."""

    MASTER = "master"
    WORKER = "worker"


@frozen
class MachineSpec:
    """A machine as its administrator describes it; `memory` in bytes, `devices` counts accelerators."""

    name: str
    address: str
    role: NodeRole
    sku: str = ""
    cpu: int = 0
    memory: int = 0
    device_type: str = ""
    devices: int = 0

    def check_devices(self, devices: Iterable[int]) -> None:
        """Raise `ClusterError` for a number that none of its devices has; they are counted from 0."""
        unknown = min((device for device in devices if not 0 <= device < self.devices), default=None)
        if unknown is not None:
            raise ClusterError(
                text("node {name} has no device {device}", name=self.name, device=unknown),
                hint=text("its devices are {first} to {last}", first=0, last=self.devices - 1)
                if self.devices
                else "it has none",
            )


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


@frozen
class NodeView:
    """A machine and its condition since some instant; `used` counts devices held by pods.

    `reason` says why no new pod can come here although the condition allows it.
    """

    machine: MachineSpec
    condition: NodeCondition
    since: datetime
    used: int = 0
    pods: tuple[str, ...] = ()
    reason: str = ""
    bad_devices: tuple[int, ...] = ()
    """Rising numbers of the devices that are broken; those of real machines are known to the scheduler only."""
    pods_at_risk: tuple[str, ...] = ()
    """Those of `pods` that run on a broken device."""
    software: Mapping[str, str] = field(default_factory=dict)
    """What the machine says of its software: ``os``, ``runtime``, ``driver``, ``cuda``, each if it is known."""
    instances: int = 0
    """MIG instances of each GPU where its devices are these, as far as its scheduler knows; 0 for whole GPUs."""

    def device_name(self, device: int) -> str:
        """A device as people read it: its number, or ``GPU:instance``."""
        return f"{device // self.instances}:{device % self.instances}" if self.instances else str(device)

    def device(self, word: str) -> int:
        """The number of a device by its name, or by its number; raises `ClusterError` if there is none of that name."""
        known = {self.device_name(device): device for device in range(self.machine.devices)}
        numbers = {str(device): device for device in known.values()}
        if (index := known.get(word, numbers.get(word))) is None:
            names = list(known)
            raise ClusterError(
                text("node {name} has no device {device}", name=self.machine.name, device=word),
                hint=text("its devices are {first} to {last}", first=names[0], last=names[-1])
                if names
                else "it has none",
            )
        return index


@frozen
class MaintenanceWindow:
    """A maintenance window; `active`: its nodes are out of service now; `notice` before it, who must leave is told."""

    name: str
    nodes: tuple[str, ...]
    start: datetime
    end: datetime
    notice: Millis
    reason: str = ""
    active: bool = False
    hold: bool = False
    """Whether it only keeps its nodes free of new pods."""


@frozen
class ReservationView:
    """A reservation; `start` and `end` are those of the occurrence that lasts or comes next.

    Cells of a promise: `cells` of `cell_type` of `vc`, of which jobs use `used`. The free pool: `nodes`.
    """

    name: str
    start: datetime
    end: datetime
    vc: str = ""
    cells: int = 0
    cell_type: str = ""
    nodes: tuple[str, ...] = ()
    repeat: str = "once"
    reason: str = ""
    active: bool = False
    used: int = 0
    size: str = ""
    """What is kept, in a few words."""
    short: int = 0
    """Cells that could not be had in time as things are now, since hardware failed or the configuration changed."""

    @property
    def kept(self) -> str:
        """What is kept, in words that can be said in every language."""
        if not self.vc:
            return self.size
        return text("{cells}x{type} of {vc}", cells=self.cells, type=self.cell_type, vc=self.vc)


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


@frozen
class TaskPlace:
    """A task of a job: its role and its number there, from 0."""

    role: str
    index: int = 0

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.role}:{self.index}"


def shown_devices(devices: tuple[int, ...], isolation: str = "") -> str:
    """Devices of a node as people read them, in ascending order: indices, or what `isolation` calls MIG instances.

    `isolation` is the pod's annotation `ISOLATION`, or what of it concerns MIG.
    """
    names = [name.strip() for name in isolation.split(",")] if ":" in isolation else []
    if len(names) != len(devices):
        names = [str(device) for device in devices]
    return ",".join(name for _, name in sorted(zip(devices, names, strict=True)))


@frozen
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
    isolation: str = ""
    """What its containers get instead where devices are MIG instances: ``GPU:instance`` of each."""

    @property
    def shown_devices(self) -> str:
        """Its devices as its containers know them."""
        return shown_devices(self.devices, self.isolation)


@frozen
class MemberRepair:
    """A task of a gang that was lost, and where it runs now; `back` is None while it waits for a place."""

    role: str
    index: int
    lost: datetime
    before: str
    """The node that it was lost with; empty if it had none."""
    reason: str
    back: datetime | None = None
    node: str = ""


@frozen
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
    pod: int = 0
    """Devices of each of its pods that has some; 0: they are not all alike, or it is not known."""
    attempt: int = 0
    preemptions: int = 0
    used: int = 0
    """Devices that its pods hold now."""
    reason: str = ""
    tasks: tuple[TaskView, ...] = ()
    max_run_time: Millis | None = None
    """How long an attempt runs at most; None: without a limit."""
    repairs: tuple[MemberRepair, ...] = ()
    """Tasks of its gang that were lost and replaced while the others kept running, the last ones."""
    tags: tuple[str, ...] = ()
    """By what people find it again (`workload.tags`)."""

    @property
    def ends_by(self) -> datetime | None:
        """When the present attempt ends at the latest; None while it does not run, or without a limit."""
        if self.started is None or self.ended is not None or self.max_run_time is None:
            return None
        return self.started + timedelta(milliseconds=self.max_run_time)


FOREVER = Millis(-1)
"""The duration of a task that ends only when it is stopped."""


@frozen
class JobRequest:
    """What is submitted: the protocol-v2 data and what the command line adds.

    `duration` of each task in milliseconds, or `FOREVER`; without one the job's commands tell.
    """

    user: str
    data: Mapping[str, object]
    vc: str | None = None
    priority: str | None = None
    duration: Millis | None = None
    ssh_keys: tuple[str, ...] = ()
    """Public keys of the user's account; the cluster fills them in where the job lets them in."""


@frozen
class SshAddress:
    """Where a task is reached by SSH, and the public key by which its server is known."""

    host: str
    port: int
    host_key: str


NETWORK_POLICIES: Final = "network-policies"
"""The protection that only exists: whether the pod network enforces it, only a trial shows (`deploy verify`)."""


@frozen
class Protection:
    """Something that protects tenants from each other, and whether it is in force; `message` says why not."""

    name: str
    in_force: bool
    message: str = ""


class DriverSource(StrEnum):
    """Who has installed the GPU driver of a node."""

    SERVICE = "service"
    HOST = "host"
    NONE = "none"


@frozen
class NodeDriver:
    """The GPU driver of a node.

    `version` runs, as far as it is known; `wanted` is what the service `gpu-driver` would install there now, by its
    `pod`; `reason` says why there is no driver, or why another one stays.
    """

    node: str
    source: DriverSource
    version: str = ""
    wanted: str = ""
    reason: str = ""
    pod: str = ""

    @property
    def outdated(self) -> bool:
        """Whether the service has installed another version than it would now."""
        return self.source is DriverSource.SERVICE and bool(self.wanted) and self.version != self.wanted


@frozen
class ServiceView:
    """A service: `ready` says whether it does its work, `reason` why not; configuration by version."""

    name: str
    running: bool
    ready: bool
    since: datetime
    reason: str = ""
    loaded: int | None = None
    """Version of the configuration that it read when it started."""
    failed: bool = False
    """Whether it was left half done, so that it has to be started again."""
    version: str = ""
    """Version of paictl that it was applied by; empty where there is but one."""
    changed: bool | None = None
    """Whether what it is made of is not what it was made of, so that a refresh makes a difference; None: not looked."""
    stale: tuple[str, ...] = ()
    """Objects of it that the newest configuration has no more; the next start or refresh deletes them."""


@frozen
class ConfigVersion:
    """One push: file name → text, secrets sealed."""

    number: int
    at: datetime
    message: str
    files: Mapping[str, str]
    author: str = ""
    """The user who pushed, as the API server knows them; empty on this machine, and for versions of older paictl."""


class EventKind(StrEnum):
    """What can happen; to which kind of object is said with each."""

    # to a node
    NODE_ADDED = "NodeAdded"
    NODE_REMOVED = "NodeRemoved"
    READY = "Ready"
    CORDONED = "Cordoned"
    DEVICE_FAILED = "DeviceFailed"
    DEVICE_HEALED = "DeviceHealed"
    MAINTENANCE_STARTED = "MaintenanceStarted"
    MAINTENANCE_ENDED = "MaintenanceEnded"
    # to a reservation
    RESERVATION_ADDED = "ReservationAdded"
    RESERVATION_STARTED = "ReservationStarted"
    RESERVATION_SHORT = "ReservationShort"
    """It began with fewer cells than it has, as hardware failed or the configuration changed."""
    RESERVATION_ENDED = "ReservationEnded"
    # to a node, or a job that has to leave it
    MAINTENANCE_PLANNED = "MaintenancePlanned"
    # to a node, a task of a job (then the data say which), or a job
    FAILED = "Failed"
    # to a job
    SUBMITTED = "Submitted"
    DEMOTED = "Demoted"
    """It lost its guarantee and runs on."""
    START_PROMISED = "StartPromised"
    START_DELAYED = "StartDelayed"
    """Its promised start does not hold."""
    RETRIED = "Retried"
    """It starts again from the beginning."""
    SUCCEEDED = "Succeeded"
    # to a task of a job
    FINISHED = "Finished"
    PREEMPTED = "Preempted"
    LOST = "Lost"
    """Its node went away."""
    REPAIRED = "Repaired"
    """It was lost and runs again, while the others of its gang kept running."""
    KILLED = "Killed"
    # to a task of a job, or a service
    STARTED = "Started"
    # to a job, or a service
    STOPPED = "Stopped"
    # to a virtual cluster, a user, or the cluster
    BUDGET_WARNING = "BudgetWarning"
    BUDGET_SPENT = "BudgetSpent"
    # to the configuration, or a service
    PUSHED = "Pushed"
    DELETED = "Deleted"


class AttemptOutcome(StrEnum):
    """How an attempt of a task ended."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    PREEMPTED = "preempted"
    LOST = "lost"
    """Its node went away."""
    STOPPED = "stopped"
    """Its job was stopped, or over without it."""


ENDS: Final[Mapping[EventKind, AttemptOutcome]] = {
    EventKind.FINISHED: AttemptOutcome.FINISHED,
    EventKind.FAILED: AttemptOutcome.FAILED,
    EventKind.PREEMPTED: AttemptOutcome.PREEMPTED,
    EventKind.LOST: AttemptOutcome.LOST,
    EventKind.KILLED: AttemptOutcome.STOPPED,
}
"""How an attempt ended, by the kind of the event that says so."""


@frozen
class Event:
    """Something that happened: `subject` is ``kind/name``, `data` what a machine may want to know."""

    number: int
    at: datetime
    kind: EventKind
    subject: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)
