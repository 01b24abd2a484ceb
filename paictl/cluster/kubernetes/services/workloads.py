"""Whether what runs of a service does its work, and if not, why: read off workloads, their pods and events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from paictl.cluster.doors import DOORS
from paictl.cluster.kubernetes.names import INPUT_HASH, NAME, NAMESPACE, OURS, PART_OF, SCHEDULER, SERVICE
from paictl.cluster.kubernetes.services.kinds import Group
from paictl.config.models.services import DRIVER
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND

RUNNING: Final[tuple[tuple[Group, str], ...]] = (
    (("apps/v1", "Deployment"), "/apis/apps/v1/deployments"),
    (("apps/v1", "DaemonSet"), "/apis/apps/v1/daemonsets"),
    (("apps/v1", "StatefulSet"), "/apis/apps/v1/statefulsets"),
    (("batch/v1", "Job"), "/apis/batch/v1/jobs"),
)
"""The workloads that are waited for, and where all of them are listed."""

LOOK: Final = "look"
"""The init container of `gpu-driver`, which says in the pod's state what its machine refuses."""
LOG_LINES: Final = 5
_LOG_BYTES: Final = 4000
_MESSAGE: Final = 300
_NEED_DRIVERS: Final = (DRIVER, "device-plugin", "dra-driver")
"""Services that have a pod on each machine with GPUs and need a driver there."""
_NO_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_BAD_SETTING: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")

Log = Callable[[Json, str, bool], str]
"""The last lines of (pod, container), of the container before the present one if told so; empty if there are none."""


class Observer:
    """Looks at the workloads of services, and where one is not ready at its pods and events."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def workloads(self) -> dict[str, list[Json]]:
        """All workloads of ours, by service."""
        by_service: dict[str, list[Json]] = {}
        for (version, kind), path in RUNNING:
            for workload in self._all(path, {"labelSelector": SERVICE}):
                service = workload["metadata"]["labels"][SERVICE]
                by_service.setdefault(service, []).append({**workload, "apiVersion": version, "kind": kind})
        return by_service

    def applied(self) -> dict[str, list[Json]]:
        """Workloads of ours in our namespace, by service, whoever has applied them; a scheduler alone has no label."""
        by_service: dict[str, list[Json]] = {}
        for (version, kind), path in RUNNING:
            if version != "apps/v1":
                continue  # Jobs do their work once
            space = f"{path.removesuffix(kind.lower() + 's')}namespaces/{NAMESPACE}/{kind.lower()}s"
            for workload in self._all(space, {"labelSelector": f"{PART_OF}={OURS}"}):
                labels = workload["metadata"]["labels"]
                name = str(labels.get(NAME) or workload["metadata"]["name"])
                service = str(labels.get(SERVICE) or (SCHEDULER if name in DOORS.values() else name))
                by_service.setdefault(service, []).append({**workload, "apiVersion": version, "kind": kind})
        return by_service

    def pods(self, service: str | None = None) -> list[Json]:
        """The pods of a service, or of all."""
        return self._all("/api/v1/pods", {"labelSelector": f"{SERVICE}={service}" if service else SERVICE})

    def reason(self, service: str, workloads: Sequence[Json]) -> str:
        """Why some of its workloads are not ready, each in a few words; empty if all are.

        A machine that refuses the driver holds nothing up: only an administrator can help there, and
        `service status -n gpu-driver` names it.
        """
        late = [workload for workload in workloads if not is_ready(workload)]
        if not late:
            return ""
        pods = self.pods(service)
        if service in _NEED_DRIVERS:
            nodes = refusing_nodes(pods if service == DRIVER else self.pods(DRIVER))
            late = [
                workload
                for workload in late
                if not is_ready(workload, excused=_waiting_on(nodes, _own(workload, pods)))
            ]
        return "; ".join(
            f"{_label(workload)}: {why(workload, pods, self._events(workload, pods), self._log)}" for workload in late
        )

    def _events(self, workload: Json, pods: Sequence[Json]) -> list[Json]:
        """Warnings about a workload and its pods, the newest last."""
        space = str(workload["metadata"].get("namespace") or NAMESPACE)
        about = {str(workload["metadata"]["uid"]), *(str(pod["metadata"]["uid"]) for pod in _own(workload, pods))}
        events = self._all(f"/api/v1/namespaces/{space}/events", {"fieldSelector": "type=Warning"})
        mine = [event for event in events if (event.get("involvedObject") or {}).get("uid") in about]
        return sorted(mine, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))

    def _log(self, pod: Json, container: str, before: bool) -> str:
        about = pod["metadata"]
        query = {"container": container, "tailLines": LOG_LINES, "limitBytes": _LOG_BYTES}
        query |= {"previous": "true"} if before else {}
        try:
            return self._client.text(f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}/log", query)
        except KubeError:  # the kubelet has it no more, or there is none
            return ""

    def _all(self, path: str, query: dict[str, Any]) -> list[Json]:
        try:
            return [body for _, page in self._client.list(path, query) for body in page]
        except KubeError as error:
            if error.status == NOT_FOUND:
                return []
            raise


def refusing_nodes(pods: Iterable[Json]) -> set[str]:
    """Nodes on which pods of `gpu-driver` have decided to install nothing until an administrator has done something."""
    return {str(pod["spec"].get("nodeName")) for pod in pods if _refuses(pod)}


def _refuses(pod: Json) -> bool:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    look: Json = next((status for status in statuses if status.get("name") == LOOK), {})
    now = (look.get("state") or {}).get("terminated")
    ended = now or (look.get("lastState") or {}).get("terminated") or {}
    return ended.get("exitCode") == 1 and bool(ended.get("message"))


def _waiting_on(nodes: Collection[str], pods: Iterable[Json]) -> int:
    """How many pods are on some nodes and not ready."""
    return sum(pod["spec"].get("nodeName") in nodes and not _is_pod_ready(pod) for pod in pods)


def _is_pod_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_ready(workload: Json, *, excused: int = 0) -> bool:
    """Whether a workload is as its specification wants it: everything new, nothing old, all of it available.

    Of a DaemonSet, `excused` pods need not be available.
    """
    about, spec, status = workload["metadata"], workload.get("spec") or {}, workload.get("status") or {}
    if about.get("deletionTimestamp"):
        return False
    if workload["kind"] == "Job":
        return any(
            condition["type"] == "Complete" and condition["status"] == "True"
            for condition in status.get("conditions") or ()
        )
    if int(status.get("observedGeneration") or 0) < int(about.get("generation") or 0):
        return False
    if workload["kind"] == "DaemonSet":
        wanted = int(status.get("desiredNumberScheduled") or 0)
        fresh = wanted if _by_hand(workload) else _count(status, "updatedNumberScheduled")
        return wanted == fresh and _count(status, "numberAvailable") + excused >= wanted
    wanted = int(spec.get("replicas", 1))
    if workload["kind"] == "StatefulSet" and status.get("updateRevision") != status.get("currentRevision") and wanted:
        return False
    fresh = _count(status, "updatedReplicas") if workload["kind"] == "Deployment" else wanted
    return fresh >= wanted and _count(status, "availableReplicas") >= wanted == _count(status, "replicas")


def _by_hand(workload: Json) -> bool:
    """Whether old pods of a DaemonSet stay until somebody deletes them: they are as good as new ones."""
    return ((workload.get("spec") or {}).get("updateStrategy") or {}).get("type") == "OnDelete"


def why(workload: Json, pods: Sequence[Json], events: Sequence[Json], log: Log) -> str:
    """Why a workload is not ready, the nearest cause first."""
    status = workload.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] in ("ReplicaFailure", "Failed") and condition["status"] == "True":
            message = _refused(str(condition.get("message") or condition.get("reason")))
            causes = [reason for reason in (_pod_reason(pod, events, log) for pod in _own(workload, pods)) if reason]
            return f"{message}; {causes[0]}" if causes and condition["type"] == "Failed" else message
    own = _own(workload, pods)
    newest = [pod for pod in own if _hash_of(pod) == _hash_of(workload) or _by_hand(workload)] or own
    reasons = [reason for reason in (_pod_reason(pod, events, log) for pod in newest) if reason]
    if reasons:
        return sorted(reasons, key=_weight)[0]
    made = [event for event in events if event.get("reason") in ("FailedCreate", "FailedCreatePodSandBox")]
    if made:
        return _refused(str(made[-1].get("message")))
    return _counts(workload, own)


def _weight(reason: str) -> int:
    """What will not mend itself first."""
    words = ("cannot be pulled", "crashes", "is missing", "no node", "ended")
    return next((place for place, word in enumerate(words) if word in reason), len(words))


def _refused(message: str) -> str:
    short = _short(message)
    if "exceeded quota" in short:
        return f"no quota: {short}"
    return f"its pods are refused: {short}" if "forbidden" in short or "denied" in short else short


def _own(workload: Json, pods: Iterable[Json]) -> list[Json]:
    """The pods that a workload's selector chooses."""
    wanted = ((workload.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    space = workload["metadata"].get("namespace")
    return [
        pod
        for pod in pods
        if wanted
        and pod["metadata"].get("namespace") == space
        and wanted.items() <= (pod["metadata"].get("labels") or {}).items()
    ]


def _pod_reason(pod: Json, events: Sequence[Json], log: Log) -> str:
    """Why a pod is not ready; empty if it is, or is only young."""
    status = pod.get("status") or {}
    spec = pod.get("spec") or {}
    scheduled = next(
        (condition for condition in status.get("conditions") or () if condition["type"] == "PodScheduled"), None
    )
    if scheduled is not None and scheduled["status"] == "False":
        return f"no node can take its pod: {_short(str(scheduled.get('message') or scheduled.get('reason')))}"
    if scheduled is None and not spec.get("nodeName") and status.get("phase") == "Pending":
        return f"no scheduler has looked at its pod yet: does {spec.get('schedulerName') or 'default-scheduler'} run?"
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    reason = next((cause for cause in (_container_reason(pod, each, log) for each in containers) if cause), "")
    if reason:
        return reason
    uid = pod["metadata"].get("uid")
    mine = [event for event in events if (event.get("involvedObject") or {}).get("uid") == uid]
    mounts = [event for event in mine if event.get("reason") in ("FailedMount", "FailedAttachVolume")]
    if mounts and status.get("phase") == "Pending":
        return f"something is missing: {_short(str(mounts[-1].get('message')))}"
    if status.get("phase") == "Failed":
        return f"its pod ended: {_short(str(status.get('message') or status.get('reason') or 'Failed'))}"
    probes = [event for event in mine if event.get("reason") == "Unhealthy"]
    if probes and any(not container_status.get("ready") for container_status in status.get("containerStatuses") or ()):
        return f"it runs but is not ready: {_short(str(probes[-1].get('message')))}"
    return ""


def _container_reason(pod: Json, container: Json, log: Log) -> str:
    name, state = str(container.get("name")), container.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), _short(str(waiting.get("message") or ""))
    if reason in _NO_IMAGE:
        return f"image {container.get('image')} cannot be pulled: {message or reason}"
    if reason in _BAD_SETTING:
        return f"something is missing: {message or reason}"
    last = (container.get("lastState") or {}).get("terminated") or state.get("terminated") or {}
    crashed = bool(last) and last.get("exitCode", 0) != 0
    if reason == "CrashLoopBackOff" or (crashed and not container.get("ready")):
        times = int(container.get("restartCount") or 0)
        crash = f"container {name} crashes ({_ended(last)}, {times} restarts)"
        lines = log(pod, name, not state.get("terminated")).strip() or str(last.get("message") or "").strip()
        return f"{crash}: {_lines(lines)}" if lines else crash
    return ""


def _ended(last: Json) -> str:
    if last.get("reason") == "OOMKilled":
        return "out of memory"
    return f"exit code {last.get('exitCode', '?')}"


def _lines(text: str) -> str:
    """The last lines of a log in one."""
    lines = (_printable(line).strip() for line in text.splitlines()[-LOG_LINES:])
    return " | ".join(filter(None, lines))[-_MESSAGE:]


def _printable(text: str) -> str:
    """A text of a program that nobody knows, without what would move the cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _counts(workload: Json, pods: Sequence[Json]) -> str:
    status = workload.get("status") or {}
    if workload["kind"] == "Job":
        return f"{_count(status, 'active')} pods run, {_count(status, 'failed')} failed"
    if workload["kind"] == "DaemonSet":
        wanted, ready = _count(status, "desiredNumberScheduled"), _count(status, "numberReady")
    else:
        wanted, ready = int((workload.get("spec") or {}).get("replicas", 1)), _count(status, "readyReplicas")
    young = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Pending"]
    return f"{ready} of {wanted} pods are ready" + (f", {len(young)} are being made" if young else "")


def ending(pods: Iterable[Json]) -> list[str]:
    """Names of pods that are still there."""
    return sorted(_names(pods))


def _names(pods: Iterable[Json]) -> Iterator[str]:
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            yield str(pod["metadata"]["name"])


def _hash_of(body: Json) -> str:
    return str((body["metadata"].get("annotations") or {}).get(INPUT_HASH, ""))


def _count(status: Json, key: str) -> int:
    return int(status.get(key) or 0)


def _label(workload: Json) -> str:
    return f"{workload['kind']} {workload['metadata']['name']}"


def _short(message: str) -> str:
    words = " ".join(_printable(message).split())
    return words if len(words) <= _MESSAGE else f"{words[: _MESSAGE - 1]}…"
