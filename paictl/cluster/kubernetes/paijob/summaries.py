"""What is seen of a job's Jobs and pods, in few words: a cluster has tens of thousands of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import ATTEMPT, JOB, OWNER, RETRY, ROLE, TASK
from paictl.cluster.kubernetes.paijob.record import LastRun, Place
from paictl.cluster.pods.times import read_time
from paictl.frozen import frozen
from paictl.scheduler.wire import GATE, PREEMPTED_FOR, noted_devices, noted_instances
from paictl.workload.lifecycle import PodChange
from paictl.workload.pods import short_name

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_FAILED: Final = "batch.kubernetes.io/job-index-failure-count"
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_PREEMPTIONS: Final = frozenset({"PreemptionByScheduler", "EvictionByEvictionAPI"})
"""Reasons of the condition DisruptionTarget with which somebody else's pod takes the place; all others: it was lost."""
PREEMPTED_BY: Final = "preempted by "
"""What the reason of a pod begins with of which it is known for whom it was evicted; the job or pod follows."""
_STUCK: Final = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
    }
)
_REJECTIONS: Final = frozenset(
    {
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeUnschedulable",
        "TaintToleration",
        "UnexpectedAdmissionError",
        "TopologyAffinityError",
    }
)
"""Reasons beside ``OutOf...`` with which a kubelet does not admit a pod. It adds no condition DisruptionTarget."""
_CANCELED: Final = ": context canceled"
_MESSAGE: Final = 300
"""Characters of what others say about a pod."""


@frozen
class PodSummary:
    """A pod of a task: `retry` counts the pods that the task had in this attempt before."""

    name: str
    uid: str
    job: str
    owner: str
    """Uid of the `PaiJob`."""
    attempt: int
    role: str
    index: int
    retry: int
    failures: int
    """How many of those before ended by their own doing; the others were taken away."""
    phase: str
    node: str
    devices: tuple[int, ...]
    started: datetime | None
    ended: datetime | None
    reason: str
    """Why it ended; while it waits, why it cannot start."""
    disruption: str
    """Reason of the condition DisruptionTarget, empty if it was not disturbed."""
    deleting: datetime | None
    """By when it has to be gone."""
    rejected: bool = False
    """Whether its node's kubelet did not admit it, or died as it started: nothing of it has ever run."""
    isolation: str = ""
    """What its containers get where devices are MIG instances (`TaskView.isolation`)."""

    @property
    def place(self) -> Place:
        """The task."""
        return self.role, self.index

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def change(self) -> PodChange | None:
        """What has happened to it, for the state machine; None if it has not started."""
        match self.phase:
            case "Running":
                return PodChange.STARTED
            case "Succeeded":
                return PodChange.SUCCEEDED
            case "Failed" if self.disruption:
                return PodChange.PREEMPTED if self.disruption in _PREEMPTIONS else PodChange.LOST
            case "Failed":
                return PodChange.LOST if self.deleting or self.rejected else PodChange.FAILED
        return None

    @property
    def run(self) -> LastRun:
        """Where and when it ran."""
        return LastRun(self.node, self.devices, self.started, self.ended, self.reason, isolation=self.isolation)


def read_pod(pod: Mapping[str, Any]) -> PodSummary | None:
    """A pod of a job; None for one that is not ours, whatever its labels say."""
    about, status = pod["metadata"], pod.get("status") or {}
    labels, noted = about.get("labels") or {}, about.get("annotations") or {}
    try:
        failures, ignored = int(noted.get(_FAILED, 0)), int(noted.get(_IGNORED, 0))
        index = int(noted[TASK] if TASK in noted else noted[INDEX])
        retry = int(noted.get(RETRY, 0)) + failures + ignored
        job, attempt, role = str(labels[JOB]), int(labels[ATTEMPT]), str(noted[ROLE])
    except (KeyError, ValueError):
        return None
    conditions = {str(condition.get("type")): condition for condition in status.get("conditions") or ()}
    target = conditions.get("DisruptionTarget", {})
    disruption = str(target.get("reason") or "") if target.get("status") == "True" else ""
    if disruption in _PREEMPTIONS and noted.get(PREEMPTED_FOR):
        target = {**target, "message": f"{PREEMPTED_BY}{_who(str(noted[PREEMPTED_FOR]))}"}
    containers: list[Mapping[str, Any]] = status.get("containerStatuses") or []
    states = [container.get("state") or {} for container in containers]
    phase = str(status.get("phase", "Pending"))
    deleting = read_time(about.get("deletionTimestamp"))
    ended = _ended(states, target, deleting) if phase in ("Succeeded", "Failed") else None
    rejected = phase == "Failed" and _is_rejection(status, states)
    if rejected and ended is None:  # at once after its binding
        ended = read_time(conditions.get("PodScheduled", {}).get("lastTransitionTime"))
    return PodSummary(
        name=str(about["name"]),
        uid=str(about["uid"]),
        job=job,
        owner=str(noted.get(OWNER, "")),
        attempt=attempt,
        role=role,
        index=index,
        retry=retry,
        failures=failures,
        phase=phase,
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        devices=noted_devices(noted),
        started=read_time(status.get("startTime")),
        ended=ended,
        reason=_why(phase, status, states, target if disruption else {}, conditions.get("PodScheduled", {})),
        disruption=disruption,
        deleting=deleting,
        rejected=rejected,
        isolation=noted_instances(noted),
    )


def tries_of(pods: Iterable[PodSummary], attempt: int) -> dict[Place, dict[int, PodSummary]]:
    """The pods of an attempt by task and retry; one that is over only where no other goes on with the try."""
    places: dict[Place, dict[int, PodSummary]] = {}
    for pod in pods:
        if pod.attempt == attempt:
            tries = places.setdefault(pod.place, {})
            if pod.retry not in tries or tries[pod.retry].over:
                tries[pod.retry] = pod
    return places


def newest_of(pods: Iterable[PodSummary], attempt: int) -> dict[Place, PodSummary]:
    """The newest pod of each task in an attempt."""
    return {place: tries[max(tries)] for place, tries in tries_of(pods, attempt).items()}


def _is_rejection(status: Mapping[str, Any], states: list[Any]) -> bool:
    """Whether a failed pod never ran: its kubelet did not admit it, or died while it started a container.

    The second is known by the end of containerd's message: the call that the dead kubelet made is canceled. A pod
    cannot forge it: what a program that ran says comes with another reason, and runc's message ends with its own words.
    """
    reason, ends = str(status.get("reason") or ""), [state["terminated"] for state in states if state.get("terminated")]
    if not ends:
        return reason.startswith("OutOf") or reason in _REJECTIONS
    return all(end.get("reason") == "StartError" and str(end.get("message")).endswith(_CANCELED) for end in ends)


def _who(group: str) -> str:
    """A group as people call it, whatever attempt of its job it belongs to."""
    return short_name(group.partition("#")[0].removeprefix(f"{JOBS_NAMESPACE}/"))


def _ended(states: list[Any], target: Mapping[str, Any], deleting: datetime | None) -> datetime | None:
    times = [read_time((state.get("terminated") or {}).get("finishedAt")) for state in states]
    instants = [at for at in (*times, read_time(target.get("lastTransitionTime")), deleting) if at is not None]
    return max(instants[: len(times)] or instants) if instants else None


def _why(
    phase: str, status: Mapping[str, Any], states: list[Any], target: Mapping[str, Any], scheduled: Mapping[str, Any]
) -> str:
    """Why a pod ended or cannot start, in one line; empty for one that runs or has succeeded."""
    if phase in ("Running", "Succeeded"):
        return ""
    if target:
        return _line(str(target.get("message") or target.get("reason")))
    if phase == "Failed":
        ends = [state["terminated"] for state in states if (state.get("terminated") or {}).get("exitCode")]
        if ends:
            word = str(ends[0].get("reason") or "Error")
            code = f"exit code {ends[0]['exitCode']}"
            return code if word == "Error" else f"{word} ({code})"
        return _line(str(status.get("message") or status.get("reason") or "it failed"))
    for state in states:
        waits = state.get("waiting") or {}
        if waits.get("reason") in _STUCK:
            return _line(f"{waits['reason']}: {waits.get('message') or 'no message'}")
    if scheduled.get("status") == "False":
        return _line(str(scheduled.get("message") or scheduled.get("reason") or ""))
    return ""


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE else f"{line[: _MESSAGE - 1]}…"


@frozen
class WorkSummary:
    """A Job: `index` and `retry` if it is that of a single task. `over`: it will make no pod any more."""

    name: str
    uid: str
    job: str
    owner: str
    attempt: int
    role: str
    index: int | None
    retry: int
    suspended: bool
    over: bool
    deleting: bool
    gated: bool
    """Whether its pods come to the scheduler by its gate."""
    active: int
    """Pods that it has made and that have not ended, as it has counted them."""
    succeeded: str
    failed: str
    """Indices of its own, as ranges."""


def _pod_spec(job: Mapping[str, Any]) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = (job.get("template") or {}).get("spec") or {}
    return spec


def read_work(body: Mapping[str, Any]) -> WorkSummary | None:
    """A Job of ours; None for any other."""
    about, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    labels, noted = about.get("labels") or {}, about.get("annotations") or {}
    try:
        job, attempt, role = str(labels[JOB]), int(labels[ATTEMPT]), str(noted[ROLE])
        index, retry = int(noted[TASK]) if TASK in noted else None, int(noted.get(RETRY, 0))
    except (KeyError, ValueError):
        return None
    conditions = {
        str(condition.get("type")) for condition in status.get("conditions") or () if condition.get("status") == "True"
    }
    return WorkSummary(
        name=str(about["name"]),
        uid=str(about["uid"]),
        job=job,
        owner=str(noted.get(OWNER, "")),
        attempt=attempt,
        role=role,
        index=index,
        retry=retry,
        suspended=bool(spec.get("suspend")),
        over=bool(conditions & {"Complete", "Failed"}),
        deleting=bool(about.get("deletionTimestamp")),
        gated=any(gate.get("name") == GATE for gate in _pod_spec(spec).get("schedulingGates") or ()),
        active=int(status.get("active") or 0),
        succeeded=str(status.get("completedIndexes") or ""),
        failed=str(status.get("failedIndexes") or ""),
    )
