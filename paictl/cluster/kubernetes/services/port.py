"""The port of services on a Kubernetes cluster."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from paictl import __version__
from paictl.cluster.doors import DOORS, scheduler_host
from paictl.cluster.kubernetes.connection import cluster_errors
from paictl.cluster.kubernetes.names import CONTROLLER, JOBS_NAMESPACE, NAMESPACE, SCHEDULER, VERSION
from paictl.cluster.kubernetes.rights import protections, uncounted
from paictl.cluster.kubernetes.services.applying import Applier, is_workload, refuse_rivals, workloads_first
from paictl.cluster.kubernetes.services.data import DataKeeper, lasts
from paictl.cluster.kubernetes.services.drift import drift_of
from paictl.cluster.kubernetes.services.kinds import NODE, Kinds, digest_of, marked
from paictl.cluster.kubernetes.services.nodes import drivers_of, systems_of
from paictl.cluster.kubernetes.services.record import Held, Item, Records, ServiceRecord, note_images, noted_images
from paictl.cluster.kubernetes.services.workloads import RUNNING, Observer, ending
from paictl.cluster.kubernetes.store import VersionStore
from paictl.cluster.manifests.certificates import (
    KEPT,
    CertificateSet,
    certificate_set,
    renewal_is_due,
    renewed,
)
from paictl.cluster.manifests.context import Renderer, RenderInputs, lacking
from paictl.cluster.manifests.templating import TemplateError
from paictl.cluster.pods.times import read_time
from paictl.cluster.values import ClusterError, ConfigVersion, NodeDriver, Protection, ServiceView, UnreachableError
from paictl.config.models.services import DRIVER
from paictl.errors import PaictlError
from paictl.i18n import did_you_mean, text
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.objects import find, path_of
from paictl.resources import resource_folder
from paictl.units import DurationError, Millis, parse_duration, rfc3339

_WAITED_FOR: Final = frozenset(group for group, _ in RUNNING)


class KubeServices:
    """Services of one cluster; `cluster_id` is asked when something is rendered."""

    def __init__(
        self, client: KubeClient, store: VersionStore, cluster_id: Callable[[], str], templates: Path | None = None
    ) -> None:
        self._client = client
        self._store = store
        self._cluster_id = cluster_id
        self._templates = templates or resource_folder("templates")
        kinds = Kinds(client)
        self._applier = Applier(client, kinds)
        self._records = Records(client)
        self._observer = Observer(client)
        self._data = DataKeeper(client, kinds, self._applier)

    # --- looking

    def services(self, *, closely: bool = False) -> Sequence[ServiceView]:
        """All services that are there, by name."""
        with cluster_errors():
            records = {name: record for name, record in sorted(self._records.all().items()) if record.since}
            workloads = self._observer.workloads() if records else {}
            head = self._store.head() if closely and records else None
            renderer = self._renderer(self._store.version()) if head is not None and head.newest else None
            return [self._view(record, workloads.get(name, []), renderer) for name, record in records.items()]

    def unrecorded(self) -> Sequence[ServiceView]:
        """Services that run and that nobody has started from here, by name: printed manifests were applied."""
        with cluster_errors():
            known = {name for name, record in self._records.all().items() if record.since}
            workloads = self._observer.applied()
            return [self._applied_view(name, workloads[name]) for name in sorted(workloads.keys() - known)]

    def _applied_view(self, name: str, workloads: Sequence[Json]) -> ServiceView:
        reason = self._observer.reason(name, workloads)
        about = [workload["metadata"] for workload in workloads]
        since = min(
            filter(None, (read_time(metadata.get("creationTimestamp")) for metadata in about)),
            default=datetime.now(UTC),
        )
        version = next((str(metadata["labels"][VERSION]) for metadata in about if VERSION in metadata["labels"]), "")
        return ServiceView(name, running=True, ready=not reason, since=since, reason=reason, version=version)

    def _view(self, record: ServiceRecord, workloads: Sequence[Json], renderer: Renderer | None) -> ServiceView:
        name, running, failed, reason = record.service, record.state == "running", False, ""
        if record.state == "applying":
            failed, reason = True, f"was applied only in part, by {record.holder.rpartition(' ')[0] or 'somebody'}"
        elif running:
            there = {Item.of(workload) for workload in workloads}
            missing = [item.label for item in record.items if item.group in _WAITED_FOR and item not in there]
            failed = bool(missing)
            reason = f"is gone: {', '.join(missing)}" if missing else self._observer.reason(name, workloads)
        else:
            left = ending(self._observer.pods(name)) if any(map(is_workload, record.items)) else []
            running = bool(left)
            reason = f"is stopping: {len(left)} pods are ending" if left else "stopped"
        changed, stale = self._compared(record, renderer) if renderer is not None else (None, ())
        since = read_time(record.since) or datetime.now(UTC)
        return ServiceView(
            name,
            running and not failed,
            not reason,
            since,
            reason,
            record.loaded,
            failed,
            record.version,
            changed,
            tuple(stale),
        )

    def _compared(self, record: ServiceRecord, renderer: Renderer) -> tuple[bool, Sequence[str]]:
        """Whether a service would be rendered otherwise now, and which of its objects would be too many."""
        try:
            bodies = [manifest.body for manifest in renderer.sealed(record.service)]
        except TemplateError:  # whoever refreshes it is told
            return True, ()
        changed = record.digest != digest_of(bodies, __version__) or self._renewal_is_due(record.service, renderer)
        if not changed:
            return False, ()
        wanted = {Item.of(body) for body in self._marked(bodies, record.service, "", "")}
        return True, [item.label for item in workloads_first(self._stale(record, wanted))]

    def drift(self, name: str) -> Sequence[str]:
        """What somebody has changed about the objects of a running service; a stopped one has none.

        What another paictl has applied is not compared: its templates may have said something else.
        """
        with cluster_errors():
            record = self._records.get(name)
            if record is None or record.state != "running" or record.version != __version__:
                return ()
            version = next((version for version in self._store.versions() if version.number == record.loaded), None)
            if version is None:
                return ()
            changes: list[str] = []
            certificates = self._kept_certificates() if name == SCHEDULER else None
            renderer = self._renderer(version, opened=True, certificates=certificates)
            for body in self._objects(name, renderer, record.restarted)[0]:
                live = self._applier.live(Item.of(body))
                if live is None and body["kind"] == NODE:
                    continue
                wanted = self._applier.dry(body) if live is not None else None
                changes += drift_of(live, wanted or {}, body)
            return changes

    def protections(self) -> Sequence[Protection]:
        """What protects tenants from each other, and whether it is in force."""
        with cluster_errors():
            return protections(self._client)

    def drivers(self) -> Sequence[NodeDriver]:
        """The GPU driver of each node, if the newest configuration switches the service `gpu-driver` on."""
        with cluster_errors():
            head = self._store.head()
            if head is None or not head.newest or not self.settings(DRIVER)["enabled"]:
                return ()
            return drivers_of(self._client)

    def is_stopped(self, name: str) -> bool:
        """Whether somebody has stopped a service; one that was never started may run by other means."""
        record = self._records.get(name)
        return record is not None and bool(record.since) and record.state == "stopped"

    def loaded(self, name: str) -> int | None:
        """The version of the configuration that a service was applied from; None if it never was."""
        record = self._records.get(name)
        return None if record is None else record.loaded

    def settings(self, name: str) -> Mapping[str, Any]:
        """What the newest configuration says about a service, over its defaults."""
        return self._renderer(self._store.version()).settings(name)

    def jobs_kept(self) -> Millis | None:
        """How long the job controller keeps jobs that have ended; raises `DurationError` for what is no duration."""
        try:
            seconds = parse_duration(str(self.settings(CONTROLLER).get("keep", "")))
        except DurationError as error:
            error.where = f"{CONTROLLER}.keep"
            raise
        return None if math.isinf(seconds) else Millis(round(seconds * 1000))

    def need(self, name: str) -> None:
        """Raise `UnreachableError` if somebody has stopped a service."""
        if self.is_stopped(name):
            raise UnreachableError(
                "is stopped", where=f"service {name}", hint=text("start it: paictl service start -n {name}", name=name)
            )

    # --- changing

    def set_service(self, name: str, *, running: bool, take_over: bool = False) -> ServiceView:
        """Apply a service from the newest configuration, or take its workloads away."""
        self._known(name)
        with cluster_errors():
            if running:
                self._apply(name, take_over=take_over)
            else:
                self._stop(name)
            record = self._records.get(name) or ServiceRecord(name)
            return self._view(record, self._observer.workloads().get(name, []), None)

    def refresh_service(self, name: str, *, take_over: bool = False) -> None:
        """Apply a service from the newest configuration; its pods are replaced only if something changed."""
        self._known(name)
        with cluster_errors():
            self._apply(name, take_over=take_over)

    def restart_services(self, names: Sequence[str], *, take_over: bool = False) -> None:
        """Apply services in order from the newest configuration, with new pods whether or not something changed."""
        for name in names:
            self._known(name)
        with cluster_errors():
            for name in names:
                self._apply(name, restart=True, take_over=take_over)

    def lacking(self) -> Mapping[str, Sequence[str]]:
        """Images that services of the newest configuration need and no machine can get, by service."""
        with cluster_errors():
            present = noted_images(self._client)
            head = self._store.head() if present is not None else None
            if present is None or head is None or not head.newest:
                return {}
            names = sorted(path.parent.name for path in self._templates.glob("*/service.yaml"))
            return lacking(self._renderer(self._store.version()), names, present)

    def note_images(self, images: Collection[str] | None) -> None:
        """Keep which images the machines have, None where they reach a registry."""
        with cluster_errors():
            note_images(self._client, images)

    def losses(self, name: str) -> Sequence[str] | None:
        """The data of a service, as lines for people."""
        self._known(name)
        with cluster_errors():
            return self._data.lines(self._records.get(name) or ServiceRecord(name))

    def wipe_service(self, name: str, *, with_data: bool = False) -> None:
        """Delete the objects of a service; its data only if told so, namespaces and nodes never."""
        self._known(name)
        with cluster_errors():
            if self._records.get(name) is None:
                return
            with self._records.held(name) as held:
                held.note(state="applying", since=held.record.since or self._now())
                items = {Item.of(body) for body in self._applier.ours(name, held.record.groups)}
                items |= {item for item in held.record.items if item.group[1] == NODE}
                kept = {item for item in self._data.kept(held.record) if not with_data or lasts(item)}
                self._remove((item for item in items if item not in kept), held)
                if with_data:
                    self._data.destroy(held.record)
                held.forget()

    # --- how

    def _apply(self, name: str, *, restart: bool = False, take_over: bool = False) -> None:
        self._newest()  # refused before anything is written
        with self._records.held(name) as held:
            # Read again under the lock: an administrator who had to wait would otherwise restore the configuration or
            # the certificates that the other one has just replaced.
            version = self._newest()
            renderer = self._renderer(version, opened=True, certificates=self._certificates(name, version))
            if name == SCHEDULER and renderer.settings(name)["door"] == "gates":
                self._check_gates()
            old, now = held.record, self._now()
            restarted = now if restart else old.restarted if old.state != "stopped" else ""
            objects, digest = self._objects(name, renderer, restarted)
            refuse_rivals(self._client, objects)
            self._applier.check(objects, held.alive, take_over=take_over)
            items = tuple(Item.of(body) for body in objects)
            since = old.since if old.state == "running" and old.since else now
            held.note(state="applying", since=since, items=tuple(dict.fromkeys([*old.items, *items])))
            self._applier.apply(objects, held.alive, take_over=take_over)
            self._remove(self._stale(held.record, set(items)), held)
            held.note(
                state="running",
                loaded=version.number,
                digest=digest,
                version=__version__,
                restarted=restarted,
                items=items,
                since=since,
            )

    def _check_gates(self) -> None:
        """Raise `ClusterError` if the placer, once it comes, would give away devices that pods hold."""
        if find(self._client, f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{DOORS['gates']}") is not None:
            return
        if spaces := uncounted(self._client):
            raise ClusterError(
                text(
                    "door gates: pods in {names} hold devices that the placer would not count; nothing was applied",
                    names=", ".join(spaces),
                ),
                hint=f"kubectl label namespace {' '.join(spaces)} paictl.io/cells=enabled",
            )

    def _stop(self, name: str) -> None:
        with self._records.held(name) as held:
            groups = {item.group for item in held.record.items if is_workload(item)}
            self._remove((Item.of(body) for body in self._applier.ours(name, groups)), held)
            if held.record.state != "stopped" or not held.record.since:
                held.note(state="stopped", since=self._now())

    def _stale(self, record: ServiceRecord, wanted: set[Item]) -> list[Item]:
        """The objects of a service that are there and not wanted; never data, which go only when told."""
        there = {Item.of(body) for body in self._applier.ours(record.service, record.groups)}
        there |= {item for item in record.items if item.group[1] == NODE}
        return [item for item in there - wanted if not self._data.is_data(item)]

    def _remove(self, items: Iterable[Item], held: Held) -> None:
        for item in workloads_first(items):
            held.alive()
            self._applier.remove(item)

    def _objects(self, name: str, renderer: Renderer, restarted: str) -> tuple[list[Json], str]:
        """The objects of a service as they are applied, and the hash of what they were rendered from."""
        digest = digest_of((manifest.body for manifest in renderer.sealed(name)), __version__)
        return self._marked([manifest.body for manifest in renderer.render(name)], name, digest, restarted), digest

    def _marked(self, bodies: Sequence[Json], name: str, digest: str, restarted: str) -> list[Json]:
        objects = []
        for body in bodies:
            resource = self._applier.resource(body, bodies)
            namespaced = _scope_of(body, bodies) if resource is None else resource.namespaced
            objects.append(marked(body, name, __version__, digest, namespaced=namespaced, restarted=restarted))
        return objects

    def _newest(self) -> ConfigVersion:
        head = self._store.head()
        if head is None or not head.newest:
            raise ClusterError("no configuration has been pushed yet", hint="push one first: paictl config push -p DIR")
        return self._store.version()

    def _certificates(self, name: str, version: ConfigVersion) -> CertificateSet | None:
        """The certificates of a service that has some: those of the cluster, renewed if they end soon."""
        if name != SCHEDULER:
            return None
        settings = self._renderer(version).settings(name)
        if not settings.get("tls"):
            return None
        return renewed(self._kept_certificates(), scheduler_host(NAMESPACE, settings["door"]), self._seconds())

    def _renewal_is_due(self, name: str, renderer: Renderer) -> bool:
        """Whether a service would get new certificates; what cannot be looked at is told to whoever refreshes it."""
        if name != SCHEDULER:
            return False
        settings = renderer.settings(name)
        if not settings.get("tls"):
            return False
        try:
            known = self._kept_certificates()
            return known is None or renewal_is_due(known, scheduler_host(NAMESPACE, settings["door"]), self._seconds())
        except PaictlError:
            return False

    def _seconds(self) -> float:
        return (self._client.date or datetime.now(UTC)).timestamp()

    def _kept_certificates(self) -> CertificateSet | None:
        data = (find(self._client, path_of(NAMESPACE, "secrets", KEPT)) or {}).get("data") or {}
        return certificate_set({key: base64.b64decode(value).decode() for key, value in data.items()})

    def _renderer(
        self, version: ConfigVersion, *, opened: bool = False, certificates: CertificateSet | None = None
    ) -> Renderer:
        secrets: Mapping[str, str] = self._store.secrets(version) if opened else {}
        inputs = RenderInputs(
            self._cluster_id(),
            NAMESPACE,
            JOBS_NAMESPACE,
            __version__,
            version.files,
            secrets,
            certificates,
            cache(lambda: systems_of(self._client)),
        )
        return Renderer(inputs, self._templates)

    def _known(self, name: str) -> None:
        names = [path.parent.name for path in self._templates.glob("*/service.yaml")]
        if name not in names:
            hint = did_you_mean(name, names) or "list them with: paictl service list"
            raise ClusterError(text("no service {name!r}", name=name), hint=hint)

    def _now(self) -> str:
        return rfc3339(self._client.date or datetime.now(UTC))


def _scope_of(body: Json, among: Sequence[Json]) -> bool:
    """Whether a custom resource is in a namespace, as the definition that comes with it says."""
    for other in among:
        spec = other.get("spec") or {}
        if other["kind"] == "CustomResourceDefinition" and (spec.get("names") or {}).get("kind") == body["kind"]:
            return spec.get("scope") == "Namespaced"
    return False
