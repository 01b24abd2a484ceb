"""A Kubernetes cluster behind the interface."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from paictl.cluster.admission import with_account_keys
from paictl.cluster.capabilities import OpenPaiLeft
from paictl.cluster.devices.support import described
from paictl.cluster.interface import DeviceTime
from paictl.cluster.kubernetes.access import KubernetesAccess
from paictl.cluster.kubernetes.connection import client_of, cluster_errors, own_client
from paictl.cluster.kubernetes.diagnostics import read_diagnostics
from paictl.cluster.kubernetes.jobs import JobStore, WatchedJobs
from paictl.cluster.kubernetes.jobviews import events_of
from paictl.cluster.kubernetes.names import API, CONTROLLER, NAMESPACE, SCHEDULER
from paictl.cluster.kubernetes.nodes import cordoned, view_of, views_of
from paictl.cluster.kubernetes.pushing import Pusher
from paictl.cluster.kubernetes.rights import granted
from paictl.cluster.kubernetes.services.port import KubeServices
from paictl.cluster.kubernetes.storages import StorageStore, TemplateStore, read_storages
from paictl.cluster.kubernetes.store import VersionStore, left_by_openpai, openpai_id
from paictl.cluster.kubernetes.users import KubernetesUsers
from paictl.cluster.kubernetes.windows import WindowStore
from paictl.cluster.maintenance import UNIX, WindowRequest
from paictl.cluster.movetotals import with_failure, with_plan
from paictl.cluster.picture import Picture
from paictl.cluster.pods.times import read_time
from paictl.cluster.registry import Pinned
from paictl.cluster.reservations import ReservationRequest
from paictl.cluster.scheduling import Impact, JobExplanation, JobSituation
from paictl.cluster.storages import Credentials, Storage, refuse_extras
from paictl.cluster.templates import TemplateLibrary
from paictl.cluster.usagebooks import UsageStore
from paictl.cluster.values import (
    About,
    ClusterError,
    ConfigVersion,
    Event,
    JobRequest,
    JobView,
    MachineSpec,
    MaintenanceWindow,
    NodeChange,
    NodeDriver,
    NodeView,
    Port,
    PromisedStart,
    Protection,
    ReservationView,
    ServiceView,
    SshAddress,
    TaskPlace,
    UnreachableError,
    UnsupportedError,
)
from paictl.i18n import text
from paictl.remote import Pipes
from paictl.remote.kube.client import Json, KubeClient
from paictl.units import Millis, millis_between

if TYPE_CHECKING:
    from paictl.cluster.capabilities import Diagnostics, LogLimits, Tell
    from paictl.cluster.defrag import DefragPlan, GangPods
    from paictl.cluster.kubernetes.analysis import SchedulingReader
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.workload.lending import LendUse

_RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"


class KubernetesCluster:
    """One API server, reached by a client that `connection` has checked; `known_as` is the name in the registry."""

    def __init__(self, client: KubeClient, known_as: str) -> None:
        self._client = client
        self._known_as = known_as
        self._store = VersionStore(client)
        self._pusher = Pusher(client, self._store)
        self._services = KubeServices(client, self._store, lambda: self.name)
        self._users = KubernetesUsers(client)
        self._jobs = JobStore(client)
        self._windows = WindowStore(client)
        self._storages = StorageStore(client)
        self._templates = TemplateStore(client)

    @cached_property
    def _looker(self) -> SchedulingReader:
        from paictl.cluster.kubernetes.analysis import SchedulingReader  # late: most commands ask no scheduler

        return SchedulingReader(
            self._client, self._store, self._jobs, lambda: self._services.loaded(SCHEDULER), self._windows
        )

    def follow_jobs(self) -> None:
        """Watch jobs from now on and answer from that, for a process that asks again and again, from many threads."""
        watched = WatchedJobs(self._client)
        watched.mirror.start()
        self._jobs.watched = watched

    # --- identity

    @cached_property
    def name(self) -> str:
        """The cluster's id: what the first push has fixed, else what OpenPAI had, else the name it was added by."""
        with cluster_errors():
            head = self._store.head()
            return head.cluster_id if head else openpai_id(self._client) or self._known_as

    @property
    def now(self) -> datetime:
        """The instant on the server's clock, in whole seconds."""
        with cluster_errors():
            self._client.get("/version")
        if self._client.date is None:
            raise UnreachableError("the server did not report the time", where=self._client.where)
        return self._client.date

    @cached_property
    def epoch(self) -> datetime:
        """When the cluster came up: its namespace `kube-system` is as old as it is."""
        with cluster_errors():
            namespace = self._client.get("/api/v1/namespaces/kube-system")
        at = read_time(namespace["metadata"].get("creationTimestamp"))
        if at is None:
            raise ClusterError("the server did not report its version", where=self._client.where)
        return at

    @property
    def lacks(self) -> Mapping[Port, str]:
        """Nothing."""
        return {}

    def about(self) -> About:
        """Server, context, the version of Kubernetes, and how pods get their devices."""
        with cluster_errors():
            version = str(self._client.get("/version").get("gitVersion", ""))
            return About("kubernetes", self._client.where, version, described(self._client, NAMESPACE))

    # --- nodes

    def nodes(self) -> Sequence[NodeView]:
        """All nodes by name, with the devices that pods hold there."""
        with cluster_errors():
            nodes = self._all("/api/v1/nodes")
            return views_of(nodes, self._all("/api/v1/pods", f"spec.nodeName!=,{_RUNNING}"))

    def set_node(self, name: str, change: NodeChange) -> NodeView:
        """Cordon or uncordon a node; raises `UnsupportedError` to let a real machine fail or heal."""
        if change not in (NodeChange.CORDON, NodeChange.UNCORDON):
            raise UnsupportedError(
                text("paictl cannot make a real node {what}", what=change.value),
                hint=text("to keep new pods away: paictl node cordon {name}", name=name),
            )
        with cluster_errors():
            node = cordoned(self._client, name, on=change is NodeChange.CORDON)
            return view_of(node, self._all("/api/v1/pods", f"spec.nodeName={name},{_RUNNING}"))

    def set_devices(self, name: str, change: NodeChange, devices: Sequence[int]) -> NodeView:  # noqa: ARG002
        """Raises `UnsupportedError`: how a real device is, its driver says."""
        raise UnsupportedError(
            text("a device of the real node {name} cannot be made to {what}", name=name, what=change.value),
            hint="to take one away from pods, taint it in its driver's ResourceSlice (docs/devices.md)",
        )

    def add_node(self, machine: MachineSpec) -> NodeView:
        """Not through Kubernetes: a machine joins by its own kubelet."""
        raise UnsupportedError(
            text("{name} must be added on its own", name=machine.name),
            hint="give the host lists: -m master.csv -w worker.csv -c config.yaml (docs/nodes.md)",
        )

    def remove_node(self, name: str) -> None:
        """Not through Kubernetes alone: a machine that is only struck off the list comes back."""
        raise UnsupportedError(
            text("{name} must be cleaned as well", name=name),
            hint="give the host lists: -m master.csv -w worker.csv -c config.yaml (docs/nodes.md)",
        )

    def _all(self, path: str, fields: str = "") -> list[Json]:
        query = {"fieldSelector": fields} if fields else None
        return [body for _, page in self._client.list(path, query) for body in page]

    # --- maintenance

    def windows(self) -> Sequence[MaintenanceWindow]:
        """The maintenance windows that have not ended."""
        with cluster_errors():
            return self._windows.shown(self.now)

    def add_window(self, request: WindowRequest) -> MaintenanceWindow:
        """Add a maintenance window."""
        with cluster_errors():
            names = {str(node["metadata"]["name"]) for node in self._all("/api/v1/nodes")}
            return self._windows.add(request, self.now, names)

    def remove_window(self, name: str) -> None:
        """Remove a maintenance window."""
        with cluster_errors():
            self._windows.remove(name, self.now)

    # --- reservations

    def reservations(self) -> Sequence[ReservationView]:
        """The reservations that are not over."""
        with cluster_errors():
            return self._looker.reservations().shown()

    def add_reservation(self, request: ReservationRequest, *, dry_run: bool = False) -> ReservationView:
        """Add a reservation, or only find out whether that would do."""
        with cluster_errors():
            return self._looker.reservations().add(request, dry_run=dry_run)

    def remove_reservation(self, name: str) -> None:
        """Remove a reservation."""
        with cluster_errors():
            self._windows.remove_reservation(name, self.now)

    # --- storages

    def storages(self) -> Sequence[Storage]:
        """All storages by name."""
        with cluster_errors():
            return read_storages(self._client)

    def add_storage(self, storage: Storage, credentials: Credentials | None = None) -> None:
        """Add a storage, with the volume and claim that its pods need."""
        with cluster_errors():
            self._storages.add(storage, credentials)

    def grant_storage(self, name: str, add: Sequence[str], revoke: Sequence[str]) -> Storage:
        """Change which virtual clusters may use a storage."""
        with cluster_errors():
            return self._storages.grant(name, add, revoke)

    def remove_storage(self, name: str) -> None:
        """Remove a storage, with the volume and claim that were made for it."""
        with cluster_errors():
            self._storages.remove(name)

    # --- accounts

    def usage(self, start: datetime, end: datetime) -> DeviceTime:
        """The device time of whole months, as far as it is written down."""
        with cluster_errors():
            store = UsageStore(self._client, NAMESPACE)
            books = store.of_months(start, end)
            known = books or store.of_month(self.now)
        if not known:
            raise ClusterError(
                "no accounts are written yet",
                hint="the first are written about a minute after the service hivedscheduler starts",
            )
        amounts = tuple(amount for book in books for amount in book.amounts())
        until = datetime.fromtimestamp(books[-1].until / 1000, UTC) if books else start
        since = datetime.fromtimestamp(known[0].ledger.since / 1000, UTC)
        return DeviceTime(amounts, min(end, until), since)

    # --- jobs

    def template_libraries(self) -> Sequence[TemplateLibrary]:
        """All libraries of job templates by name."""
        with cluster_errors():
            return self._templates.read()

    def put_template_library(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library, or replace the one of its name."""
        with cluster_errors():
            self._templates.put(library, new=new)

    def remove_template_library(self, name: str) -> None:
        """Remove a library."""
        with cluster_errors():
            self._templates.remove(name)

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take jobs by the newest configuration; secrets go into a Secret of each job."""
        from paictl.cluster.kubernetes.submitting import JobTaker  # late: most commands take no jobs

        with cluster_errors():
            self._services.need(API)
            refuse_extras(requests, lambda: read_storages(self._client))
            version = self._store.version()
            requests = with_account_keys(requests, self._users)
            taker = JobTaker(self._client, self._jobs, lambda: self._looker.reservations())
            return taker.submit(requests, version, self.now)

    def stop_job(self, key: str) -> None:
        """Have the job controller end a job."""
        with cluster_errors():
            self._services.need(API)
            self._jobs.stop(key)

    def tag_job(self, key: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Sequence[str]:
        """Change the tags of a job, which are an annotation of its object."""
        with cluster_errors():
            return self._jobs.tag(key, add, remove)

    def job_data(self, key: str) -> Mapping[str, object]:
        """What a job was submitted with, secrets masked."""
        with cluster_errors():
            return self._jobs.find(key).data

    def jobs_kept(self) -> Millis | None:
        """How long the job controller keeps jobs that have ended."""
        with cluster_errors():
            return self._services.jobs_kept()

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """Jobs in order of submission, without tasks."""
        with cluster_errors():
            return self._jobs.jobs(ended=ended)

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        with cluster_errors():
            return self._jobs.job(key)

    def output(self, key: str, task: TaskPlace, *, follow: bool = False, lines: int | None = None) -> Iterator[bytes]:
        """What a task's newest pod has written, as its kubelet keeps it."""
        with cluster_errors():
            yield from self._jobs.output(key, task, follow=follow, lines=lines)

    def execute(self, key: str, task: TaskPlace, command: Sequence[str], pipes: Pipes) -> int:
        """Run a command in the container of a task."""
        with cluster_errors():
            return self._jobs.execute(key, task, command, pipes)

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """A connection to a port of a running task, by the API server."""
        with cluster_errors():
            return self._jobs.dial(key, task, port)

    def ssh_address(self, key: str, task: TaskPlace) -> SshAddress | None:
        """The port on the task's node that leads to its SSH server."""
        with cluster_errors():
            return self._jobs.ssh_address(key, task)

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """The life of jobs; of other objects Kubernetes tells (``kubectl get events``)."""
        with cluster_errors():
            events = events_of(*self._jobs.everything(subject))
        return [event for event in events if subject in (None, event.subject) and event.number > after]

    # --- scheduling

    def scheduler_files(self) -> Mapping[str, bytes]:
        """Records of decisions, metrics and complaints of the doors that lead, through their pods' ports."""
        from paictl.cluster.kubernetes.decisions import read_doors  # late: few commands reach into a pod

        with cluster_errors():
            return read_doors(self._client)

    def diagnostics(self, limits: LogLimits, tell: Tell) -> Diagnostics:
        """States, events and logs of the services and the control plane."""
        return read_diagnostics(self._client, limits, tell)

    def unrecorded_services(self) -> Sequence[ServiceView]:
        """Services that Helm, kustomize or kubectl have applied."""
        return self._services.unrecorded()

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run, by the newest configuration."""
        with cluster_errors():
            explanation = self._looker.explain(key)
            if explanation.waiting and explanation.situation is not JobSituation.SERVICE_STOPPED:
                stopped = next(filter(self._services.is_stopped, (CONTROLLER, SCHEDULER)), None)
                if stopped is not None:
                    return replace(explanation, situation=JobSituation.SERVICE_STOPPED, service=stopped, scheduler=None)
            return explanation

    def promised_starts(self) -> Sequence[PromisedStart]:
        """The gangs that wait and were promised a start, as the scheduler wrote into their pods."""
        with cluster_errors():
            return self._jobs.promised_starts()

    def foresee(self, request: JobRequest) -> JobExplanation:
        """The explanation of a job as if it had been submitted now."""
        with cluster_errors():
            refuse_extras([request], lambda: read_storages(self._client))
            return self._looker.foresee(request)

    def picture(self, *, history: bool = False) -> Picture:
        """Cells, virtual clusters, nodes and jobs as they are now, by the newest configuration."""
        with cluster_errors():
            return self._looker.picture(self.name, self.now, self.epoch, history=history)

    def held_devices(self) -> Mapping[tuple[str, str], int]:
        """Devices with a guarantee by (virtual cluster, user), by the configuration that the scheduler has loaded."""
        with cluster_errors():
            return self._looker.held_devices()

    def borrowed_devices(self) -> Mapping[str, int]:
        """Devices that gangs hold without a guarantee, by virtual cluster."""
        with cluster_errors():
            return self._looker.borrowed_devices()

    def lend_use(self) -> LendUse | None:
        """How the promises stand, for lend limits."""
        with cluster_errors():
            return self._looker.lend_use()

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off by other configuration files."""
        with cluster_errors():
            return self._looker.impact(files)

    # --- defragmentation

    def plan_moves(self, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room, by the configuration that the scheduler has loaded."""
        with cluster_errors():
            return self._looker.plan_moves(self.name, rooms)

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more."""
        with cluster_errors():
            return self._looker.outrun(room, kept, exactly=exactly)

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""
        with cluster_errors():
            return self._looker.gangs()

    def evict_gang(self, gang: GangPods) -> None:
        """Evict all pods of a gang by the Eviction API, which knows disruption budgets."""
        with cluster_errors():
            self._looker.evict_gang(gang)

    def note_plan(self, weights: Mapping[str, int], span: Millis) -> None:
        """Keep the weight of the plan that is carried out beside the windows, where the scheduler reads it."""
        with cluster_errors():
            until = Millis(millis_between(UNIX, self.now) + span)
            self._windows.change_moves(lambda totals: with_plan(totals, weights, until))

    def note_failure(self, vc: str) -> None:
        """Count a gang that was evicted and has not come back in time."""
        with cluster_errors():
            self._windows.change_moves(lambda totals: with_failure(totals, vc))

    # --- configuration

    def configuration(self, number: int | None = None) -> ConfigVersion:
        """A version of the configuration, the newest without a number."""
        with cluster_errors():
            return self._store.version(number)

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions that are kept, oldest first."""
        with cluster_errors():
            return self._store.versions()

    def push(
        self,
        files: Mapping[str, str],
        message: str,
        *,
        base: int | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> ConfigVersion:
        """Store a new version, secrets in a Secret of its own; as the port says."""
        with cluster_errors():
            return self._pusher.push(files, message, self.name, base=base, secrets=secrets or {})

    def granted_namespaces(self) -> Mapping[str, Sequence[str]]:
        """The virtual clusters granted to each namespace by its annotation."""
        with cluster_errors():
            return granted(self._all("/api/v1/namespaces"))

    @property
    def users(self) -> KubernetesUsers:
        """Accounts and tokens, in Secrets."""
        return self._users

    @property
    def access(self) -> KubernetesAccess:
        """People who have a kubeconfig of their own."""
        return KubernetesAccess(self._client, self._known_as)

    # --- services

    def services(self, *, closely: bool = False) -> Sequence[ServiceView]:
        """All services that are there, by name; as the port says."""
        return self._services.services(closely=closely)

    def drift(self, name: str) -> Sequence[str]:
        """What somebody has changed about the objects of a service by hand."""
        return self._services.drift(name)

    def protections(self) -> Sequence[Protection]:
        """What protects tenants from each other, and whether it is in force."""
        return self._services.protections()

    def drivers(self) -> Sequence[NodeDriver]:
        """The GPU driver of each node, if the service `gpu-driver` installs drivers."""
        return self._services.drivers()

    def lacking(self) -> Mapping[str, Sequence[str]]:
        """Images that services need and the machines cannot get, as whoever has deployed them has noted."""
        return self._services.lacking()

    def note_images(self, images: Collection[str] | None) -> None:
        """Keep which images the machines have, None where they reach a registry."""
        self._services.note_images(images)

    def set_service(self, name: str, *, running: bool, take_over: bool = False) -> ServiceView:
        """Apply a service from the newest configuration, or take its workloads away."""
        return self._services.set_service(name, running=running, take_over=take_over)

    def refresh_service(self, name: str, *, take_over: bool = False) -> None:
        """Apply a service from the newest configuration."""
        self._services.refresh_service(name, take_over=take_over)

    def restart_services(self, names: Sequence[str], *, take_over: bool = False) -> None:
        """Apply services from the newest configuration, with new pods."""
        self._services.restart_services(names, take_over=take_over)

    def losses(self, name: str) -> Sequence[str] | None:
        """The data of a service."""
        return self._services.losses(name)

    @property
    def keeps_data(self) -> bool:
        """Yes: they are objects of their own."""
        return True

    def wipe_service(self, name: str, *, with_data: bool = False) -> None:
        """Delete the objects of a service, its data only if told so."""
        self._services.wipe_service(name, with_data=with_data)

    def left_by_openpai(self) -> OpenPaiLeft:
        """What OpenPAI's own `config push` has stored."""
        with cluster_errors():
            return left_by_openpai(self._client)


def open_pinned(pinned: Pinned) -> KubernetesCluster:
    """The cluster that was added; raises `ClusterError` if its context leads elsewhere today."""
    return KubernetesCluster(client_of(pinned), pinned.name)


def open_own() -> KubernetesCluster:
    """The cluster in one of whose pods this runs; raises `ClusterError` where there is none."""
    return KubernetesCluster(own_client(), "pai")
