"""Gangs of a Kubernetes cluster as defragmentation sees them, and their eviction by the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from paictl.cluster.defrag import DefragScene, GangPods, weight
from paictl.cluster.kubernetes.names import job_of, run_limit, user_of
from paictl.cluster.kubernetes.paijob.summaries import read_pod
from paictl.cluster.kubernetes.sharing import month_used
from paictl.cluster.maintenance import UNIX
from paictl.cluster.pods.times import checkpoint_every, read_time
from paictl.cluster.values import ClusterError, ConflictError
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.remote.kube import budgets, pods
from paictl.remote.kube.pods import Eviction
from paictl.scheduler.defrag import RunningGang
from paictl.units import Millis, millis_between
from paictl.workload.budgets import BudgetLevel
from paictl.workload.fields import JobError
from paictl.workload.preemption import lost_time
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.configured import ConfigSnapshot
    from paictl.cluster.kubernetes.paijob.resource import PaiJob
    from paictl.cluster.kubernetes.scheduling import ClusterSnapshot
    from paictl.cluster.pods.recovering import Recovered
    from paictl.remote.kube.client import KubeClient
    from paictl.scheduler.request import PodRequest
    from paictl.workload.budgets import Used
    from paictl.workload.sharing import Sharing

Json = Mapping[str, Any]


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
