"""Looks at a cluster as its scheduler sees it: reads what is needed once, and computes the rest here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.defrag import outrun, planned_moves, with_moves
from paictl.cluster.kubernetes.defrag import evict, gangs_of, scene_of
from paictl.cluster.kubernetes.jobs import JobStore
from paictl.cluster.kubernetes.jobviews import events_of
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, read_pod
from paictl.cluster.kubernetes.scheduling import ClusterSnapshot, explain_job, foresee_job, impact_of, picture_of
from paictl.cluster.kubernetes.sharing import (
    KubernetesReservations,
    ReservedScene,
    borrowed_devices,
    held_devices,
    month_used,
    used_lately,
)
from paictl.cluster.kubernetes.store import VersionStore
from paictl.cluster.kubernetes.windows import WindowStore
from paictl.cluster.maintenance import UNIX
from paictl.cluster.movetotals import with_move
from paictl.cluster.picture import Picture
from paictl.cluster.scheduling import Impact, JobExplanation
from paictl.cluster.values import JobRequest
from paictl.errors import PaictlError
from paictl.remote.kube.client import Json, KubeClient
from paictl.units import Millis, instant, millis_between
from paictl.workload.lending import lend_use
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.defrag import DefragPlan, DefragScene, GangPods
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.workload.budgets import Used
    from paictl.workload.lending import LendUse
    from paictl.workload.lentorder import RecentUse

_GOING_ON: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


class SchedulingReader:
    """Looks at one cluster, by the configuration that its scheduler has `loaded`, else by the newest."""

    def __init__(
        self,
        client: KubeClient,
        store: VersionStore,
        jobs: JobStore,
        loaded: Callable[[], int | None],
        windows: WindowStore,
    ) -> None:
        self._client = client
        self._store = store
        self._jobs = jobs
        self._loaded = loaded
        self._windows = windows
        self._snapshot: ConfigSnapshot | None = None
        """The configuration as it was read last: a version never changes, and takes longer to read than a cluster."""

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits."""
        pai, configuration = self._jobs.find(key), self._configuration()
        windows, now = self._ahead()
        scene = self._scene([pai])
        reservations = self._windows.reservations(instant(UNIX, now))
        month, lately = self._month(configuration), self._lately(configuration)
        explanation = explain_job(scene, configuration, pai, windows, now, month, reservations, lately)
        if explanation.scheduler is None:
            return explanation
        return with_moves(explanation, self._gang_scene, explanation.scheduler.request)

    def foresee(self, request: JobRequest) -> JobExplanation:
        """The explanation of a job as if it had been submitted now."""
        configuration = self._configuration()
        windows, now = self._ahead()
        return foresee_job(self._scene([]), configuration, request, windows, now, self._month(configuration))

    def held_devices(self) -> Mapping[tuple[str, str], int]:
        """Devices with a guarantee by (virtual cluster, user)."""
        scene = self._scene([])
        return held_devices(scene.recovered(self._configuration()).engine, scene.pods)

    def borrowed_devices(self) -> Mapping[str, int]:
        """Devices without a guarantee by virtual cluster."""
        return borrowed_devices(self._scene([]).recovered(self._configuration()).engine)

    def lend_use(self) -> LendUse | None:
        """How the promises stand."""
        return lend_use(self._scene([]).recovered(self._configuration()).engine.state)

    def _month(self, configuration: ConfigSnapshot) -> Used | None:
        return month_used(self._client, datetime.now(UTC)) if configuration.sharing.budgets else {}

    def _lately(self, configuration: ConfigSnapshot) -> RecentUse:
        return {} if configuration.sharing.order is None else used_lately(self._client, datetime.now(UTC))

    def picture(self, cluster: str, now: datetime, epoch: datetime, *, history: bool) -> Picture:
        """Everything at once."""
        jobs, summaries = self._jobs.everything()
        events = events_of(jobs, summaries) if history else None
        picture = picture_of(self._scene(jobs), self._newest(), cluster, now, epoch, events)
        reservations = self._windows.reservations(now)
        kept = self.reserving() if reservations else None
        reserved = () if kept is None else kept.shown(reservations)
        return replace(picture, windows=self._windows.shown(now), reservations=reserved)

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """Whom other files would harm."""
        jobs, _ = self._jobs.everything()
        return list(impact_of(self._scene(jobs), self._newest(), ConfigSnapshot(0, files)))

    def plan_moves(self, cluster: str, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room."""
        return planned_moves(cluster, self._gang_scene(), rooms)

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more."""
        return outrun(self._gang_scene(), room, kept, exactly=exactly) or ""

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""
        jobs, _ = self._jobs.everything()
        _, now = self._ahead()
        return gangs_of(self._scene(jobs), self._configuration(), now)

    def evict_gang(self, gang: GangPods) -> None:
        """Evict all pods of a gang."""
        evict(self._client, gang, self._all("/api/v1/pods", _GOING_ON))
        with suppress(PaictlError):  # its pods are on their way out: a total that is not written must not stop the move
            self._windows.change_moves(lambda totals: with_move(totals, gang))

    def _gang_scene(self) -> DefragScene:
        jobs, _ = self._jobs.everything()
        windows, now = self._ahead()
        lasting = Windows(tuple(window for window in windows if not window.hold))
        return scene_of(self._client, self._scene(jobs), self._configuration(), lasting, now)

    def _scene(self, jobs: Sequence[PaiJob]) -> ClusterSnapshot:
        nodes = self._all("/api/v1/nodes")
        pods = self._all("/api/v1/pods", _GOING_ON)
        summaries: dict[str, list[PodSummary]] = {}
        for pod in pods:
            job_pod = read_pod(pod) if pod["metadata"].get("namespace") == JOBS_NAMESPACE else None
            if job_pod is not None:
                summaries.setdefault(job_pod.job, []).append(job_pod)
        return ClusterSnapshot(nodes, pods, jobs, summaries)

    def reservations(self) -> KubernetesReservations:
        """The reservations, judged by what runs."""
        return KubernetesReservations(self.reserving, self._windows)

    def reserving(self) -> ReservedScene:
        """What runs, by the scheduler's configuration, with the reservations that are not over."""
        windows, now = self._ahead()
        configuration, scene = self._configuration(), self._scene([])
        reservations = self._windows.reservations(instant(UNIX, now))
        recovered = scene.recovered(configuration)
        return ReservedScene(scene.pods, scene.owners(recovered), recovered, configuration, windows, reservations, now)

    def _ahead(self) -> tuple[Windows, Millis]:
        """The windows, and what time it is."""
        self._client.get("/version")
        now = self._client.date or datetime.now(UTC)
        return self._windows.read(now), millis_between(UNIX, now)

    def _all(self, path: str, query: Mapping[str, object] | None = None) -> list[Json]:
        return [body for _, page in self._client.list(path, query) for body in page]

    def _configuration(self) -> ConfigSnapshot:
        loaded, head = self._loaded(), self._store.head()
        kept = {entry.number for entry in head.entries} if head is not None else set()
        version = self._store.version(loaded if loaded in kept else None)
        known = self._snapshot
        if known is None or known.files is not version.files:
            self._snapshot = known = ConfigSnapshot(version.number, version.files)
        return known

    def _newest(self) -> ConfigSnapshot | None:
        head = self._store.head()
        return self._configuration() if head is not None and head.newest else None
