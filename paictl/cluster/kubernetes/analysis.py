"""Looks at a cluster as its scheduler sees it: reads what is needed once, and computes the rest here.

The gangs that run as defragmentation sees them, too, and their eviction by the API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.defrag import DefragScene, GangPods, outrun, planned_moves, weight, with_moves
from paictl.cluster.kubernetes.jobs import JobStore
from paictl.cluster.kubernetes.jobviews import events_of
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, job_of, run_limit, user_of
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
from paictl.cluster.pods.times import checkpoint_every, read_time
from paictl.cluster.scheduling import Impact, JobExplanation
from paictl.cluster.values import ClusterError, ConflictError, JobRequest
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.remote.kube import budgets, pods
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.pods import Eviction
from paictl.scheduler.defrag import RunningGang
from paictl.units import Millis, instant, millis_between
from paictl.workload.budgets import BudgetLevel
from paictl.workload.fields import JobError
from paictl.workload.lending import lend_use
from paictl.workload.preemption import lost_time
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.configured import ConfigSnapshot
    from paictl.cluster.defrag import DefragPlan, DefragScene, GangPods
    from paictl.cluster.kubernetes.paijob.resource import PaiJob
    from paictl.cluster.kubernetes.scheduling import ClusterSnapshot
    from paictl.cluster.pods.recovering import Recovered
    from paictl.remote.kube.client import KubeClient
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.scheduler.request import PodRequest
    from paictl.workload.budgets import Used
    from paictl.workload.lending import LendUse
    from paictl.workload.lentorder import RecentUse
    from paictl.workload.sharing import Sharing


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


# --- gangs as defragmentation sees them


def scene_of(
    client: KubeClient, snapshot: ClusterSnapshot, configuration: ConfigSnapshot, windows: Windows, now: Millis
) -> DefragScene:
    """What a plan is made from; `windows` and `now` count from 1970."""
    recovered = snapshot.recovered(configuration)
    rules = configuration.sharing
    used = month_used(client, datetime.now(UTC)) if rules.budgets else {}
    rows = []
    for gang, members in _gangs(snapshot, recovered, now):
        requests: dict[str, PodRequest] = {}
        for pod in members:
            request = recovered.readings[_uid(pod)].request
            requests.setdefault(request.group, request)
        fixed, near = _budget(rules, gang, members[0], used)
        if not gang.job and not all(map(_controlled, members)):
            fixed = text("its pods have no controller to recreate them")
        closed = windows.closed(now, run_limit(members[0]))
        rows.append(
            (
                RunningGang(
                    gang.key,
                    tuple(requests[name] for name in sorted(requests)),
                    weight(gang, near_budget=near),
                    fixed,
                    closed,
                ),
                gang,
            )
        )
    return DefragScene(recovered.engine, rows, windows.closed(now, None))


def gangs_of(snapshot: ClusterSnapshot, configuration: ConfigSnapshot, now: Millis) -> tuple[GangPods, ...]:
    """The gangs that run."""
    return tuple(gang for gang, _ in _gangs(snapshot, snapshot.recovered(configuration), now))


def _gangs(snapshot: ClusterSnapshot, recovered: Recovered, now: Millis) -> Iterator[tuple[GangPods, list[Json]]]:
    """What starts again together, with its pods that hold devices."""
    jobs = {job.key: job for job in snapshot.jobs}
    groups = recovered.engine.state.groups
    together: dict[str, list[Json]] = {}
    about: dict[str, tuple[str, str]] = {}
    for pod in snapshot.pods:
        uid = _uid(pod)
        if uid not in groups.slots or uid not in recovered.readings:
            continue
        group, job = groups.slots[uid][0], job_of(pod)
        whole_job = job in jobs and _is_gang(jobs[job])
        key = job if whole_job else group
        if job and not whole_job:
            summary = read_pod(pod)
            key = f"{job}/{summary.role}[{summary.index}]" if summary is not None and _is_single(groups, group) else key
        together.setdefault(key, []).append(pod)
        about[key] = job, "" if whole_job else group
    for key, members in together.items():
        job, group = about[key]
        yield _pods(recovered, key, job, group, members, jobs.get(job), now), members


def _is_single(groups: Any, name: str) -> bool:
    return bool(sum(pods for _, pods in groups.by_name[name].members) == 1)


def _pods(
    recovered: Recovered, key: str, job: str, group: str, members: Sequence[Json], pai: PaiJob | None, now: Millis
) -> GangPods:
    groups = recovered.engine.state.groups
    names = {groups.slots[_uid(pod)][0] for pod in members}
    held = [groups.by_name[name] for name in sorted(names)]
    began = min((_started(pod, now) for pod in members), default=now)
    number = sum(pods for group in held for _, pods in group.members)
    running = all((pod.get("status") or {}).get("phase") == "Running" and not _leaves(pod) for pod in members)
    return GangPods(
        key,
        job,
        group,
        held[0].vc,
        held[0].priority,
        any(group.virtual is not None for group in held),
        sum(leaves * pods for group in held for leaves, pods in group.members),
        lost_time(began, now, _checkpoint(pai, members[0])),
        tuple((_uid(pod), str(pod["spec"].get("nodeName", ""))) for pod in members),
        running and len(members) == number,
    )


def _uid(pod: Json) -> str:
    return str(pod["metadata"]["uid"])


def _leaves(pod: Json) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _is_gang(job: PaiJob) -> bool:
    try:
        return job.job.gang
    except JobError:
        return True


def _controlled(pod: Json) -> bool:
    """Whether somebody starts a pod again that is evicted."""
    return any(owner.get("controller") is True for owner in pod["metadata"].get("ownerReferences") or ())


def _started(pod: Json, now: Millis) -> Millis:
    at = read_time((pod.get("status") or {}).get("startTime"))
    return now if at is None else millis_between(UNIX, at)


def _checkpoint(job: PaiJob | None, pod: Json) -> Millis | None:
    """How often a gang saves its work, by its job or its pods' annotation; None: it does not say."""
    try:
        if job is not None:
            return job.job.checkpoints
        return checkpoint_every(pod)
    except PaictlError:
        return None


def _budget(rules: Sharing, gang: GangPods, pod: Json, used: Used | None) -> tuple[str, bool]:
    """Why a budget would keep a gang from starting again, and whether one of its budgets is nearly used up."""
    if not rules.budgets or used is None:
        return "", False
    states = rules.budgets.concerning(gang.vc, user_of(pod), used)
    holding = next((state for state in states if state.holds), None)
    if holding is not None:
        return text("it would not start again: {reason}", reason=holding.reason(datetime.now(UTC))), False
    return "", any(state.level is not BudgetLevel.OK for state in states)


# --- eviction


def evict(client: KubeClient, gang: GangPods, members: Sequence[Json]) -> None:
    """Evict the pods of a gang, as a whole or, while a budget protects one of them, not at all.

    Raises `ConflictError` if other pods run by now, `ClusterError` with the server's words if it refuses.
    """
    wanted = {uid for uid, _ in gang.pods}
    targets = [
        (str(pod["metadata"].get("namespace", "default")), str(pod["metadata"]["name"]), _uid(pod))
        for pod in members
        if _uid(pod) in wanted and not _leaves(pod)
    ]
    if len(targets) < len(wanted):
        raise ConflictError(
            text("no pod of {gang} is running any more", gang=gang.key)
            if not targets
            else text("some pods of {gang} are gone", gang=gang.key),
            hint=text("the cluster has changed since; make a new plan"),
        )
    refused = {
        pod: why
        for pod in targets
        for answer, why in [pods.evict(client, *pod, only_ask=True)]
        if answer is Eviction.REFUSED
    }
    if not refused and len(targets) > 1:
        refused = budgets.overdrawn(client, targets)
    if refused:
        (space, name, _), why = next(iter(refused.items()))
        raise _protected(gang, f"{space}/{name}", why)
    for space, name, uid in targets:
        answer, why = pods.evict(client, space, name, uid)
        if answer is Eviction.REFUSED:
            raise _protected(gang, f"{space}/{name}", why)


def _protected(gang: GangPods, pod: str, why: str) -> ClusterError:
    return ClusterError(
        text("{gang} cannot be evicted now: pod {pod}: {reason}", gang=gang.key, pod=pod, reason=why),
        hint="wait until the budget allows it, and apply again",
    )
