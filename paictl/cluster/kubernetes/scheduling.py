"""What the scheduler knows, seen from outside: by the pushed configuration, nodes and pods, as the extender does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from paictl.cluster.admission import admit
from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.jobwords import STATES
from paictl.cluster.kubernetes.jobviews import has_ended, view_of
from paictl.cluster.kubernetes.names import CONTROLLER, JOBS_NAMESPACE, run_limit, user_of
from paictl.cluster.kubernetes.nodes import views_of
from paictl.cluster.kubernetes.paijob.names import KEY
from paictl.cluster.kubernetes.sharing import ReservedScene, line_ahead, obstacle
from paictl.cluster.maintenance import UNIX
from paictl.cluster.picture import Picture, chain_pictures, vc_pictures
from paictl.cluster.pods import feasibility
from paictl.cluster.pods.lines import PodTimes, WaitingPod, end_of, group_times, lines
from paictl.cluster.pods.nodes import NodeUsage
from paictl.cluster.pods.recovering import Recovered, recovered
from paictl.cluster.pods.times import began_at, checkpoint_every, created_at
from paictl.cluster.reservations import waits_for_reservation
from paictl.cluster.scheduling import Impact, JobExplanation, JobImpact, JobSituation, harm_of_running
from paictl.cluster.timeline import timeline
from paictl.cluster.values import ClusterError, Event, JobRequest, JobState
from paictl.cluster.whywaits import explained, waits_for_shield, waits_for_windows, with_start, without_instants
from paictl.errors import PaictlError
from paictl.i18n import joined, text
from paictl.scheduler.decision import Bind, Preempt
from paictl.scheduler.explain import PodVerdict
from paictl.scheduler.freecells import free_cells
from paictl.scheduler.inspection import inspect
from paictl.scheduler.wire import pod_name, read_request
from paictl.units import Millis
from paictl.workload.backfill import LineGang
from paictl.workload.lifecycle import RunState
from paictl.workload.pods import plan_job
from paictl.workload.preemption import SparingRules
from paictl.workload.reservations import Reservations
from paictl.workload.startpromises import StartPromises
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.kubernetes.paijob.resource import PaiJob
    from paictl.cluster.kubernetes.paijob.summaries import PodSummary
    from paictl.scheduler.request import PodRequest
    from paictl.workload.budgets import Used
    from paictl.workload.lentorder import LineAhead, RecentUse
    from paictl.workload.sharing import Sharing

Json = dict[str, Any]
ROUNDS = 8
"""Places that are tried for a gang, as by the placer: a node that is too small for its pods is left out of the next."""


class ClusterSnapshot:
    """Everything that is looked at, read once: nodes, pods (as they are in the API), jobs with their own pods."""

    def __init__(
        self,
        nodes: Sequence[Json],
        pods: list[Json],
        jobs: Sequence[PaiJob],
        summaries: Mapping[str, Sequence[PodSummary]],
    ) -> None:
        self.nodes = nodes
        self.pods = pods
        self.jobs = jobs
        self.seen = summaries

    def recovered(self, configuration: ConfigSnapshot) -> Recovered:
        """What a scheduler would know that started now; raises `PaictlError` if there are no cells."""
        return recovered(configuration.spec, self.nodes, self.pods)

    def owners(self, recovery: Recovered) -> dict[str, str]:
        """The job of each group of which there are pods."""
        return {reading.request.group: key for reading, key in self._readings(recovery)}

    def groups(self, recovery: Recovered) -> dict[str, list[str]]:
        """The groups of each job of which there are pods."""
        groups: dict[str, dict[str, None]] = {}
        for reading, key in self._readings(recovery):
            groups.setdefault(key, {})[reading.request.group] = None
        return {key: list(names) for key, names in groups.items()}

    def _readings(self, recovery: Recovered) -> Iterator[tuple[Any, str]]:
        for pod in self.pods:
            about = pod["metadata"]
            key = (about.get("annotations") or {}).get(KEY)
            reading = recovery.readings.get(str(about["uid"]))
            if key and reading is not None and about.get("namespace") == JOBS_NAMESPACE:
                yield reading, str(key)


def picture_of(
    scene: ClusterSnapshot,
    configuration: ConfigSnapshot | None,
    cluster: str,
    now: datetime,
    epoch: datetime,
    events: Sequence[Event] | None = None,
) -> Picture:
    """The picture; with `events` ended jobs and the timeline, too."""
    recovery, note = _state(scene, configuration)
    views = [
        view_of(pai, scene.seen.get(pai.name, ()), place, tasks=False)
        for place, pai in enumerate(scene.jobs, 1)
        if events is not None or not has_ended(pai)  # of 10,000 jobs nearly all have, and their views take 200 ms
    ]
    waiting = Counter(view.vc for view in views if view.state is JobState.WAITING)
    inspection = inspect(recovery.engine.state, scene.owners(recovery)) if recovery is not None else None
    return Picture(
        cluster=cluster,
        now=now,
        epoch=epoch,
        chains=chain_pictures(inspection) if inspection else (),
        vcs=vc_pictures(inspection, waiting) if inspection else (),
        nodes=tuple(views_of(scene.nodes, [pod for pod in scene.pods if (pod.get("spec") or {}).get("nodeName")])),
        jobs=tuple(views),
        note=note,
        timeline=None if events is None else timeline(events, now),
        free=free_cells(recovery.engine.state) if recovery is not None else (),
    )


def _state(scene: ClusterSnapshot, configuration: ConfigSnapshot | None) -> tuple[Recovered | None, str]:
    if configuration is None:
        return None, "no configuration has been pushed yet, so there are no cells"
    try:
        recovery = scene.recovered(configuration)
    except PaictlError as error:
        return None, f"the newest configuration gives no cells: {error}"
    number = recovery.unaccounted
    return recovery, f"of {number} pods it is not known on which devices they run" if number else ""


def explain_job(
    scene: ClusterSnapshot,
    configuration: ConfigSnapshot,
    pai: PaiJob,
    windows: Windows,
    now: Millis,
    month: Used | None = None,
    reservations: Reservations | None = None,
    lately: RecentUse | None = None,
) -> JobExplanation:
    """What a job does, or why it waits and what would let it run.

    Windows and `now` count from 1970; `month` is what was used, `lately` what was used without a guarantee, where that
    is known.
    """
    record = pai.record
    if record is None:
        state = JobState.STOPPED if pai.stopped else JobState.WAITING
        return JobExplanation(pai.key, state, JobSituation.SERVICE_STOPPED, service=CONTROLLER)
    status = record.status
    waiting = [task for task in status.tasks if task.state is RunState.WAITING]
    explanation = JobExplanation(
        pai.key, STATES[status.state], JobSituation.NOT_WAITING, waiting=len(waiting), tasks=len(status.tasks)
    )
    if status.state.final or not waiting:
        return explanation
    recovery = scene.recovered(configuration)
    places = {(task.role, task.index) for task in waiting}
    pods = [pod for pod in scene.seen.get(pai.name, ()) if pod.place in places]
    if sum(bool(pod.node) and not pod.over for pod in pods) == len(waiting):
        reasons = [pod.reason for pod in pods if pod.reason]
        return replace(explanation, situation=JobSituation.STARTING, reason=reasons[0] if reasons else "")
    requests = [
        recovery.readings[pod.uid].request
        for pod in pods
        if not pod.over and not pod.node and pod.uid in recovery.readings
    ]
    request = requests[0] if requests else _request(pai, waiting[0].role, status.attempt)
    if why := obstacle(configuration.sharing, recovery.engine, scene.pods, request, pai.user, month):
        return replace(explanation, situation=JobSituation.HELD_BACK, reason=why)
    shielded = _spare(explanation, scene, recovery, configuration, request, now)
    if shielded is not None:
        return shielded
    if reservations or pai.job.reservation:
        seen = ReservedScene(
            scene.pods, scene.owners(recovery), recovery, configuration, windows, reservations or Reservations(), now
        )
        gang = LineGang(request, record.max_run_time)
        kept = waits_for_reservation(explanation, seen.kept, seen.foresight, gang, pai.job.reservation, UNIX)
        if kept is not None:
            return kept
        windows = seen.kept.windows(windows, now, pai.job.reservation)
    closed = waits_for_windows(explanation, recovery.engine, request, record.max_run_time, windows, now, UNIX)
    if closed is not None:
        return closed
    groups = scene.groups(recovery).get(pai.key, [])
    answer = explained(explanation, recovery.engine, request, groups or [request.group])
    if configuration.sharing.backfill.covers(request):
        answer = _with_start(answer, scene, recovery, configuration, request, record.max_run_time, windows, now)
    if configuration.sharing.orders:
        answer = replace(answer, ahead=_ahead(scene, recovery, configuration.sharing, request, pai.user, lately))
    if answer.scheduler is None or answer.scheduler.decision is not PodVerdict.BIND:
        return answer
    return _kept_out(explanation, scene, recovery, request, pods) or answer


def _kept_out(
    explanation: JobExplanation,
    scene: ClusterSnapshot,
    recovery: Recovered,
    request: PodRequest,
    pods: Sequence[PodSummary],
) -> JobExplanation | None:
    """What keeps a job out of its free devices: kube-scheduler, or nodes that none of its pods could use."""
    if refusal := _refusal(pod for pod in pods if not pod.node):
        return replace(explanation, situation=JobSituation.NOT_OFFERED, reason=refusal)
    if why := _exclusion(scene, recovery, request, {pod.uid for pod in pods}):
        return replace(explanation, situation=JobSituation.EXCLUDED, reason=why)
    return None


def _ahead(
    scene: ClusterSnapshot,
    recovery: Recovered,
    rules: Sharing,
    request: PodRequest,
    user: str,
    lately: RecentUse | None,
) -> LineAhead | None:
    """Whose opportunistic gangs are tried before one, by the pods that there are and what is written of their use."""
    pods = {str(pod["metadata"]["uid"]): pod for pod in scene.pods}
    waiting = (
        (user_of(pods[uid]), reading.request)
        for uid, reading in recovery.readings.items()
        if not (pods[uid].get("spec") or {}).get("nodeName") and not pods[uid]["metadata"].get("deletionTimestamp")
    )
    return line_ahead(rules, recovery.engine, scene.pods, request, user, waiting, lately or {})


def _spare(
    explanation: JobExplanation,
    scene: ClusterSnapshot,
    recovery: Recovered,
    configuration: ConfigSnapshot,
    request: PodRequest,
    now: Millis,
) -> JobExplanation | None:
    """Let the engine choose victims as the configuration says; what is known of a job that waits for their run time."""
    if not configuration.sharing.chooses_victims:
        return None
    pods = {str(pod["metadata"]["uid"]): pod for pod in scene.pods}

    def times(uid: str) -> PodTimes | None:
        pod = pods.get(uid)
        return None if pod is None else PodTimes(run_limit(pod), began_at(pod), checkpoint_every(pod))

    rules = configuration.sharing
    sparing = SparingRules(rules.preemption, lambda group: group_times(group, times), lambda: now, rules.departments)
    recovery.engine.sparing = sparing
    return waits_for_shield(explanation, recovery.engine, request, sparing, UNIX)


def _with_start(
    explanation: JobExplanation,
    scene: ClusterSnapshot,
    recovery: Recovered,
    configuration: ConfigSnapshot,
    request: PodRequest,
    limit: Millis | None,
    windows: Windows,
    now: Millis,
) -> JobExplanation:
    """When a job starts at the latest, or whom it would delay, by the pods that there are.

    A door remembers who was promised a start, which nobody else can know: the first in line here may be another for as
    long as a job waits that was restarted or held back before. Where each in line has a promise, no start is told, as
    it would often be another than the door's.
    """
    rules, sharing, placed = configuration.sharing.backfill, configuration.sharing, recovery.engine.state.groups.by_name
    pods = {str(pod["metadata"]["uid"]): pod for pod in scene.pods}
    waiting = {
        uid: WaitingPod(reading.request, run_limit(pods[uid]), created_at(pods[uid]))
        for uid, reading in recovery.readings.items()
        if not (pods[uid].get("spec") or {}).get("nodeName")
        and not pods[uid]["metadata"].get("deletionTimestamp")
        and reading.request.vc == request.vc
        and rules.covers(reading.request)
    }

    held = {
        pod.request.group: bool(obstacle(sharing, recovery.engine, scene.pods, pod.request, user_of(pods[uid]), None))
        for uid, pod in waiting.items()
        if sharing
    }

    def times(uid: str) -> PodTimes | None:
        return PodTimes(run_limit(pods[uid]), began_at(pods[uid])) if uid in pods else None

    free = [pod for pod in waiting.values() if not held.get(pod.request.group)]
    backfill = StartPromises(rules, lambda group: end_of(recovery.engine, group, times, now))
    line = lines(free, rules, placed).get(request.vc, [])[: rules.looked_at(request.vc)]
    starts = backfill.starts(recovery.engine, now, windows, request.vc, line)
    if starts is None:
        return explanation
    foresight = backfill.foresight(recovery.engine, now, windows)
    owners = scene.owners(recovery)
    gang = LineGang(request, limit)
    if starts.plan is not None or any(
        promise.place for promise in starts.promises
    ):  # each start follows from those that were promised before
        return without_instants(explanation, foresight, gang, starts, lambda group: owners.get(group, group))
    return with_start(explanation, foresight, gang, starts, UNIX, lambda group: owners.get(group, group))


def _refusal(pods: Iterable[PodSummary]) -> str:
    """What kube-scheduler said last of pods for which there are devices.

    Empty where it has said nothing, or repeats what the extender answered before the devices were free.
    """
    reasons = [pod.reason for pod in pods if pod.phase == "Pending" and " nodes are available" in pod.reason]
    return next((reason for reason in reasons if "pod waits" not in reason), "")


def _exclusion(scene: ClusterSnapshot, recovery: Recovered, request: PodRequest, uids: Collection[str]) -> str:
    """Why no nodes would take the pods of a gang for which there are devices: CPU, memory, labels, taints.

    Behind the gates kube-scheduler is not asked before there is a place that it would take, and so says nothing.
    Empty if some would, as far as can be known: a gang of which some pods run has its place already.
    """
    engine = recovery.engine
    gated = (pod for pod in scene.pods if (pod.get("spec") or {}).get("schedulingGates"))
    pod = next((candidate for candidate in gated if candidate["metadata"]["uid"] in uids), None)
    if pod is None or request.group in engine.state.groups.by_name:
        return ""
    demand, usage, tree = feasibility.pod_demand(pod), NodeUsage(), engine.state.physical
    for occupant in scene.pods:
        if node := str((occupant.get("spec") or {}).get("nodeName") or ""):
            usage.place(str(occupant["metadata"]["uid"]), node, feasibility.requests_of(occupant))
    facts = {str(node["metadata"]["name"]): feasibility.node_facts(node) for node in scene.nodes}

    def excluding(pods: Mapping[str, int]) -> dict[str, str]:
        obstacles = {
            name: feasibility.obstacle(demand, name, facts[name], usage.used(name), count)
            for name, count in pods.items()
            if name in facts
        }
        return {name: why for name, why in obstacles.items() if why}

    outside = excluding(dict.fromkeys(tree.nodes, 1))
    for _ in range(ROUNDS):
        decision = engine.plan(replace(request, ignore_suggested=False), tree.nodes.keys() - outside.keys())
        if not isinstance(decision, Bind):
            break
        leaves = (pod[0] for member in decision.placement.physical for pod in member)
        wrong = excluding(Counter(tree.node_name(leaf) for leaf in leaves))
        if not wrong:
            return ""
        outside |= wrong
    counts = Counter(outside.values()).most_common()
    if isinstance(decision, Preempt):
        return ""
    return joined("; ", (joined("", (why, f" ({number})")) for why, number in counts))


def _request(pai: PaiJob, role: str, attempt: int) -> PodRequest:
    """What a task's pod will ask for that is not there yet; raises `ClusterError` where its record does not say so."""
    assert pai.record is not None  # noqa: S101 - asked before
    name = pod_name(JOBS_NAMESPACE, pai.name)
    if role not in pai.record.scheduling:
        raise ClusterError(
            text("the record of job {job} does not say what its tasks ask for", job=pai.key),
            hint=text("stop it and submit it again: paictl job stop {job}", job=pai.key),
        )
    request = read_request(dict(pai.record.scheduling[role]), f"{pai.uid}/{role}", name)
    return replace(request, group=f"{request.group}#{attempt}") if attempt and request.group != name else request


def foresee_job(
    scene: ClusterSnapshot,
    configuration: ConfigSnapshot,
    request: JobRequest,
    windows: Windows,
    now: Millis,
    month: Used | None = None,
) -> JobExplanation:
    """What would happen to a job that was submitted now; raises as `admission.admit` does for one that never is."""
    plan = admit(request, configuration)
    number = plan.tasks
    explanation = JobExplanation(plan.key, JobState.WAITING, JobSituation.NO_ROOM, waiting=number, tasks=number)
    recovery, first = scene.recovered(configuration), plan.request(plan.roles[0].pod())
    if why := obstacle(configuration.sharing, recovery.engine, scene.pods, first, request.user, month):
        return replace(explanation, situation=JobSituation.HELD_BACK, reason=why)
    shielded = _spare(explanation, scene, recovery, configuration, first, now)
    if shielded is not None:
        return shielded
    closed = waits_for_windows(explanation, recovery.engine, first, plan.job.max_run_time, windows, now, UNIX)
    return closed or explained(explanation, recovery.engine, first, [group.name for group, _ in plan.groups])


def impact_of(scene: ClusterSnapshot, now: ConfigSnapshot | None, then: ConfigSnapshot) -> Iterator[Impact]:
    """The jobs that would be worse off, in order of submission; files with which no scheduler starts harm nobody."""
    try:
        after = scene.recovered(then)
    except PaictlError:
        return
    try:
        before = scene.recovered(now).engine if now is not None else None
    except PaictlError:
        before = None
    groups = scene.groups(after)
    for pai in scene.jobs:
        if pai.record is not None and pai.record.status.state.final:
            continue
        runs = any(pod.node and not pod.over for pod in scene.seen.get(pai.name, ()))
        harm = harm_of_running(groups.get(pai.key, ()), before, after.engine) if runs else _of_waiting(pai, then)
        if harm is not None:
            yield Impact(pai.key, pai.vc, harm)


def _of_waiting(pai: PaiJob, then: ConfigSnapshot) -> JobImpact | None:
    if pai.vc not in then.supply.vcs:
        return JobImpact.NO_VC
    try:
        plan = plan_job(pai.job, then.supply, pai.user)
    except PaictlError:
        return JobImpact.NEVER
    return JobImpact.NEVER if then.judge.refusal(plan) is not None else None
