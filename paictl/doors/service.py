"""The process: optional leader election, watching the configuration, serving HTTP, a clean shutdown."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Final

import uvicorn

from paictl.cluster.devices import support
from paictl.cluster.devices.directory import DRIVERS
from paictl.cluster.devices.pod_claims import ClaimOptions
from paictl.cluster.devices.support import DeviceMode
from paictl.cluster.pods import podgroups
from paictl.cluster.pods.labels import DEVICES, Rules
from paictl.doors import claims, configuration
from paictl.doors.callers import Guard, Reviewer
from paictl.doors.configuration import ExtenderConfiguration, digest_of
from paictl.doors.core import DoorOptions, NotServingError
from paictl.doors.metrics import DoorMetrics
from paictl.doors.pod_events import VITAL, PodEvent
from paictl.doors.routing import Routing
from paictl.doors.server import Api
from paictl.doors.term import LeaderTerm
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube.client import KubeClient
from paictl.remote.kube.events import EventRecorder, NewEvent, PodReference
from paictl.remote.kube.informer import InformerTimes
from paictl.remote.kube.leases import Leadership, LeaseTimes
from paictl.serving.connections import serving
from paictl.serving.ending import refuse_unserved, serve

POLL: Final = 1.0
"""Seconds between checks of the configuration file and of the engine's health."""
COLLECT: Final = (10_000, 50, 1000)
"""Thresholds of the garbage collector: there are hardly any reference cycles, and while thousands of pods are read,
walking them all again and again took more than half of the time of a restart."""


@frozen
class DoorSettings:
    """The settings from the command line."""

    config: Path
    sharing: Path | None = None
    """A file with the section `sharing`; None: the section of the configuration file, if it has one."""
    host: str = "0.0.0.0"  # noqa: S104 - kube-scheduler runs beside it, Prometheus elsewhere
    port: int = 30096
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None
    """The authority of kube-scheduler's client certificates; None: anyone may ask anything."""
    elect: bool = False
    lease: tuple[str, str] = ("paictl-system", "hivedscheduler-extender")
    pod: tuple[str, str] | None = None
    """Namespace and name of this pod, which carries the leader's label while it leads."""
    own_preemption: bool = True
    delete_after: float | None = None
    longest_grace: float = 300.0
    gang_deadline: float | None = None
    bad_device_deadline: float | None = None
    heal_after: float = 0.0
    deadline: float = 60.0
    devices: tuple[str, ...] = DEVICES
    require_grants: bool = False
    device_mode: DeviceMode = DeviceMode.ENVIRONMENT
    claims: ClaimOptions = field(default_factory=lambda: ClaimOptions(support.CLASSES, DRIVERS))
    """Which claims are for cells, unless the mode is `ENVIRONMENT`."""
    accounts: str = ""
    """Namespace in which accounts of device time are kept; empty: no accounts."""
    maintenance: str = ""
    """Namespace of the maintenance windows; empty: no windows."""
    events: bool = True
    dump: Path | None = None
    times: InformerTimes = field(default_factory=InformerTimes)
    terms: LeaseTimes = field(default_factory=LeaseTimes)

    def with_devices(
        self, mode: str, classes: Sequence[str] | None = None, drivers: Sequence[str] | None = None
    ) -> DoorSettings:
        """These settings with another way for pods to get their devices. Raises `PaictlError` if it is invalid."""
        chosen, claims = support.read_options(mode, classes, drivers)
        return replace(self, device_mode=chosen, claims=claims)


class DoorService:
    """The process from `start` to `stop`; `run` does both around the HTTP server. Doors override its parts' types."""

    component: str
    """The source component of pods' events."""
    prefix: str
    """The prefix of the metrics."""
    term_type: type[LeaderTerm] = LeaderTerm
    api_type: type[Api] = Api

    def __init__(self, client: KubeClient, settings: DoorSettings, log: Callable[[str], None]) -> None:
        self.client = client
        self.settings = settings
        self.log = log
        self.read = self._configuration()
        self.claims, reason = support.chosen(client, settings.device_mode, settings.claims)
        log(reason)
        self._pod_groups: str | None = None
        """The path where PodGroups are listed, empty if there is none; None until the API server has answered."""
        self._no_pod_groups = ""
        """What is missing to follow PodGroups, if the API server has them."""
        wants_claims = settings.device_mode is not DeviceMode.ENVIRONMENT
        self._no_claims = reason if wants_claims and self.claims is None else ""
        self.events = EventRecorder(client, self.component, enabled=settings.events)
        self.metrics = DoorMetrics(
            lambda: self.current.core if self.current and not self.current.problem else None, self.prefix
        )
        self.metrics.evicted = lambda: self._evicted + (self.current.reconciler.evicted if self.current else 0)
        self.metrics.device_time = self._device_time
        self.metrics.events = lambda: (self.events.dropped, self.events.waiting)
        self.current: LeaderTerm | None = None
        self.failed = ""
        """Why the process has to end."""
        self._refused = ""
        """Digest of a configuration that was rejected."""
        self._fault = ""
        """What is wrong with it."""
        lease = settings.lease if settings.elect else None
        self.leadership = Leadership(client, lease, self.begin, self.end, settings.terms)
        self.routing = Routing(client, settings.pod, self._answering) if settings.pod is not None else None
        self._evicted = 0
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._server: uvicorn.Server | None = None

    # --- terms

    def begin(self) -> None:
        """Start to lead, with a new core from new lists."""
        with self._lock:
            self.end()
            self._find_pod_groups()
            options = DoorOptions(
                own_preemption=self.settings.own_preemption,
                deadline=self.settings.deadline,
                rules=Rules.from_spec(self.settings.devices, self.read.spec),
                require_grants=self.settings.require_grants,
                claims=self.claims,
                no_claims=self._no_claims,
                longest_grace=self.settings.longest_grace,
                gang_deadline=self.settings.gang_deadline,
                bad_device_deadline=self.settings.bad_device_deadline,
                heal_after=self.settings.heal_after,
                sharing=self.read.sharing,
                pod_groups=self._pod_groups or "",
            )
            self.current = self.term_type(
                self.client,
                self.read.spec,
                options,
                self.record,
                remaining=self.leadership.remaining,
                delete_after=self.settings.delete_after,
                times=self.settings.times,
                accounts=self.settings.accounts,
                maintenance=self.settings.maintenance,
            )
            self.metrics.terms += 1
            self.current.start()
            with self.current.core.lock:  # to read the state may settle it
                nodes = len(self.current.core.book.engine.state.physical.nodes)
            self.log(f"leading: cells of {nodes} nodes")

    def _find_pod_groups(self) -> bool:
        """Ask where PodGroups are listed, unless that is known; whether this call found them."""
        if self._pod_groups is None:
            with suppress(PaictlError):  # the supervisor asks again
                self._pod_groups, self._no_pod_groups = podgroups.served(self.client)
                return bool(self._pod_groups)
        return False

    def end(self) -> None:
        """Stop leading."""
        with self._lock:
            if self.current is not None:
                self.current.stop()
                self.metrics.keep(self.current.core)
                self._evicted += self.current.reconciler.evicted
                self.current = None
                gc.unfreeze()  # what the term held can be collected

    def term(self) -> LeaderTerm | str:
        """The term that answers now, or why there is none."""
        current = self.current
        if current is not None:
            return current
        if self.leadership.problem:
            return f"this process does not lead: {self.leadership.problem}"
        holder = self.leadership.holder
        return f"this process does not lead{f', {holder} does' if holder else ''}"

    def _answering(self) -> LeaderTerm | None:
        current = self.current
        return None if current is None or current.problem else current

    def unfit(self) -> str:
        """Why this process neither answers nor could take over; empty if it answers or could."""
        term = self.term()
        if not isinstance(term, str):
            return term.problem
        if self.leadership.problem or not self.leadership.holder:
            return term
        return ""

    def record(self, event: PodEvent) -> None:
        """Record an event of a pod."""
        subject = PodReference(event.pod.namespace, event.pod.name, event.pod.uid)
        vital = event.reason in VITAL
        self.events.record(NewEvent(subject, event.reason, event.message, event.warning, vital, event.once))

    def _device_time(self) -> Counter[tuple[str, str]]:
        term = self._answering()
        with suppress(NotServingError):  # a broken core has been reported already
            return Counter() if term is None or term.accounts is None else term.accounts.in_use()
        return Counter()

    # --- the process

    def start(self) -> None:
        """Start everything but HTTP."""
        if self.settings.client_authority is None:
            self.log(
                "warning: every client that reaches this port gets answers; "
                "require kube-scheduler's certificate with --tls-client-ca"
            )
        if not self.settings.require_grants:
            self.log("warning: a pod of any namespace may use any virtual cluster; --require-grants asks for a grant")
        self.events.start()
        if self.routing is not None:
            self.routing.start()
        self.leadership.start()
        threading.Thread(target=self._supervise, name="supervisor", daemon=True).start()

    def stop(self) -> None:
        """Shut down cleanly: release the lease, send the waiting events."""
        self._stop.set()
        if self.routing is not None:
            self.routing.stop()
        self.leadership.stop()
        self.events.stop()

    def run(self) -> None:
        """Serve until stopped. Raises `PaictlError` if the engine broke or the address is in use."""
        gc.set_threshold(*COLLECT)
        # Shorter than Python's 5 ms, so that an answer waits less for the thread that reads a watch; longer than an
        # answer takes, since an interruption in the middle costs two more turns on busy processors.
        sys.setswitchinterval(0.003)
        self._server = uvicorn.Server(self._http())
        reason = serve(self._server, self.start, self.stop)
        if self.failed:
            raise PaictlError(self.failed, hint="this is a bug in paictl: report it with the dump")
        refuse_unserved(self._server, reason)

    def _http(self) -> uvicorn.Config:
        """The HTTP server's configuration. Raises `PaictlError` if the certificate or its key cannot be used."""
        settings = self.settings
        guard = None if settings.client_authority is None else Guard(Reviewer(self.client).refusal)
        context, door = self.client.context, self.component
        app = self.api_type(self.term, self.metrics, context, self.unfit, guard, self.warnings, door=door).app()
        try:
            return serving(
                app, settings.host, settings.port, settings.certificate, settings.key, settings.client_authority
            )
        except OSError as error:  # ssl's own error is one
            raise PaictlError(
                f"the certificate or its key cannot be used: {error.strerror or error}",
                where=", ".join(
                    str(path) for path in (settings.certificate, settings.key, settings.client_authority) if path
                ),
                hint="both have to be PEM and belong together",
            ) from None

    def _supervise(self) -> None:
        """Watch the configuration, the lease and the engine."""
        logged: dict[str, str] = {}
        while not self._stop.wait(POLL):
            for trouble, problem in self._troubles().items():
                if problem not in ("", logged.get(trouble)):
                    self.log(f"{trouble}: {problem}")
                logged[trouble] = problem
            term = self.current
            if term is not None and term.core.broken:
                self.failed = f"{term.core.broken}; {self._dumped(term)}"
                if self._server is not None:
                    self._server.should_exit = True
                return
            self._reread()
            if self.current is not None and self._find_pod_groups():
                self.begin()

    def _dumped(self, term: LeaderTerm) -> str:
        """Where the state of a broken engine is written."""
        try:
            return f"the state is in {term.dump(self.settings.dump)}"
        except Exception as error:  # too broken, or the disk is full: this process has to end all the same
            return f"the state could not be written: {type(error).__name__}: {error}"

    def warnings(self) -> list[str]:
        """Problems that do not keep this process from answering; one line each."""
        warnings = [
            f"{trouble}: {' '.join(problem.split())}" for trouble, problem in self._troubles().items() if problem
        ]
        if self._refused and self._digest() == self._refused:
            warnings.append(f"the changed configuration is not used: {' '.join(self._fault.split())}")
        return warnings

    def _troubles(self) -> dict[str, str]:
        """What keeps this process from its work, by subject; empty where nothing does."""
        term = self.current
        is_unreadable = not self._digest()
        return {
            "the lease cannot be acquired": self.leadership.problem,
            "the leader's label cannot be set": self.routing.problem if self.routing is not None else "",
            "nodes cannot be followed": _with_rights(term.nodes.problem) if term is not None else "",
            "pods cannot be followed": _with_rights(term.pods.problem) if term is not None else "",
            "namespaces cannot be followed": (
                _with_rights(term.namespaces.problem) if term is not None and term.namespaces is not None else ""
            ),
            "claims cannot be followed": (
                next((_with_rights(informer.problem) for informer in term.claim_informers if informer.problem), "")
                if term
                else ""
            ),
            "PodGroups cannot be followed": (
                f"{self._no_pod_groups}: apply the rights that `paictl extender config` or `placer config` prints"
                if self._no_pod_groups
                else ""
            ),
            "accounts cannot be kept": (
                _with_rights(term.accounts.problem) if term is not None and term.accounts is not None else ""
            ),
            "maintenance windows cannot be followed": (
                _with_rights(term.windows.problem or term.core.windows.problem)
                if term is not None and term.windows is not None
                else ""
            ),
            "devices": claims.summary(term.core) if term is not None else "",
            "two extenders": term.core.rival if term is not None and not self.settings.elect else "",
            "the configuration": f"{self.settings.config} cannot be read; its previous content stays in use"
            if is_unreadable
            else "",
        }

    def _digest(self) -> str:
        return digest_of(self.settings.config, self.settings.sharing)

    def _configuration(self) -> ExtenderConfiguration:
        """Read the configuration files. Raises `PaictlError` for files that cannot be used."""
        loaded = configuration.read(self.settings.config, self.settings.sharing)
        configuration.check_devices(loaded.spec, self.settings.device_mode, self.settings.config)
        needing = {"budgets": loaded.sharing.budgets, "opportunistic-order": loaded.sharing.order is not None}
        for name in (name for name, needs in needing.items() if needs and not self.settings.accounts):
            raise PaictlError(
                f"{name} need{'s' * (name != 'budgets')} accounts of device time",
                where=str(self.settings.sharing or self.settings.config),
                hint=f"serve with --accounts NAMESPACE, or remove {name}",
            )
        return loaded

    def _reread(self) -> None:
        """Apply a changed configuration, unless it is invalid."""
        digest = self._digest()
        if digest in ("", self.read.digest, self._refused):
            return
        try:
            loaded = self._configuration()
        except PaictlError as error:
            self._refused = digest
            self._fault = f"{getattr(error, 'report', '') or error}"
            self.log(f"the changed configuration is not used: {self._fault}")
            return
        is_unchanged = (loaded.text, loaded.shared) == (self.read.text, self.read.shared)
        if is_unchanged:  # only another service's part of services-configuration.yaml has changed
            self.read = loaded
            return
        self.log("the configuration has changed: restarting with it")
        with self._lock:
            self.read = loaded
            if self.current is not None:
                self.begin()


def _with_rights(problem: str) -> str:
    """A problem, with where to find the rights if missing rights are the cause."""
    is_forbidden = " is forbidden" in problem or "Unauthorized" in problem
    return f"{problem} (`paictl extender config` prints the account and its rights)" if is_forbidden else problem
