"""What a problem report needs from Kubernetes: states, events and logs of paictl's own pods and of the control plane.

Pods of jobs are never looked at. Requests are few and bounded: a list of pods and one of events for each namespace, the
newest lines of each log. What is forbidden, late or too much is named and keeps nothing else away.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import unquote

from paictl.cluster.capabilities import ContainerLog, Diagnostics, LogLimits, Tell
from paictl.cluster.kubernetes.names import NAMESPACE, SERVICE
from paictl.config.secrets.cleaning import secret_values
from paictl.config.secrets.redaction import sounds_secret
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError, NoAnswerError
from paictl.remote.kube.objects import path_of
from paictl.remote.kube.pods import pod_path

CONTROL_PLANE: Final = "kube-system"
_NO_NAME: Final = 12
"""Characters of a text in JSON, under a key that does not sound secret, that is taken for one."""
_TOGETHER: Final = 6
"""Logs that are read at the same time."""
_READ: Final = 15.0
"""Seconds without a byte of a log, unless the time is up before."""
_MOST_READ: Final = 4 << 20
"""Bytes of a log after which fewer lines are asked for: a server's own limit would keep the oldest bytes."""
_PUBLIC: Final = frozenset({"namespace", "ca.crt", "tls.crt", "username", "user", "type", "name", "domain"})
"""Keys of Secrets whose values are none."""
_PASSWORD: Final = re.compile(r"://[^/\s:@]{0,200}:([^\s/@]{1,1000})@")
_HEADING: Final = re.compile(r"(?:- )?[\w.-]{1,40}:(?: .{0,12})?\Z|.{0,5}\Z")
"""A line of a file of configuration that is found in half of all files; its secrets are known by their keys."""
_NO_ACCOUNTS: Final = "!paictl.io/record"
"""Accounts and tokens are kept as hashes, and are many."""


@frozen
class _Wanted:
    """A log to read; `rank` orders them by what a reader looks at first."""

    rank: tuple[int, bool, bool, str]
    namespace: str
    pod: str
    container: str
    previous: bool

    @property
    def label(self) -> str:
        return f"log {self.namespace}/{self.pod}/{self.container}{' (previous)' if self.previous else ''}"


class _LateError(Exception):
    """The time is up."""


def read_diagnostics(client: KubeClient, limits: LogLimits, tell: Tell) -> Diagnostics:
    """States, events and logs of paictl's namespace and of the control plane; nothing is raised for what is missing."""
    missing: dict[str, str] = {}
    secrets: frozenset[str] = frozenset()
    with _noting(missing, "values of Secrets"):
        _in_time(limits)
        secrets = frozenset(_secrets(client))
    pods: list[Json] = []
    events: list[Json] = []
    for namespace in (NAMESPACE, CONTROL_PLANE):
        with _noting(missing, f"pods of {namespace}"):
            _in_time(limits)
            pods += _listed(client, namespace, "pods")
        with _noting(missing, f"events of {namespace}"):
            _in_time(limits)
            events += sorted(_listed(client, namespace, "events"), key=_when)[-limits.events :]
    targets: list[_Wanted] = []
    for container in _containers(pods):
        if isinstance(container, _Wanted):
            targets.append(container)
        else:
            missing[container[0]] = container[1]
    targets.sort(key=lambda target: target.rank)
    for extra in targets[limits.containers :]:
        missing[extra.label] = text("only the logs of {count} containers are collected", count=limits.containers)
    logs, unread = _Reader(client, limits, tell).read(targets[: limits.containers])
    return Diagnostics(
        [pod_state(pod) for pod in pods],
        [_event(event) for event in sorted(events, key=_when)],
        logs,
        missing | unread,
        secrets,
    )


class _Reader:
    """Reads logs side by side, until there are too many bytes or the time is up."""

    def __init__(self, client: KubeClient, limits: LogLimits, tell: Tell) -> None:
        self._client = client
        self._limits = limits
        self._tell = tell
        self._lock = threading.Lock()
        self._bytes = self._done = 0
        self._missing: dict[str, str] = {}

    def read(self, targets: Sequence[_Wanted]) -> tuple[list[ContainerLog], dict[str, str]]:
        """The logs that came, in order, and why the others did not."""
        with ThreadPoolExecutor(_TOGETHER, "paictl-logs") as pool:
            logs = list(pool.map(lambda target: self._read_log(target, len(targets)), targets))
        return [log for log in logs if log is not None], self._missing

    def _read_log(self, wanted: _Wanted, count: int) -> ContainerLog | None:
        made: ContainerLog | None = None
        with _noting(self._missing, wanted.label):
            _in_time(self._limits)
            made = self._log(wanted)
        with self._lock:
            self._done += 1
            self._tell(text("reading logs: {done} of {count}", done=self._done, count=count))
        return made

    def _log(self, wanted: _Wanted) -> ContainerLog | None:
        most = self._limits.total_bytes
        if self._bytes < most:
            written, cut = self._newest(wanted)
            with self._lock:
                self._bytes += len(written)
                if self._bytes <= most:
                    content = written.decode(errors="replace")
                    return ContainerLog(wanted.namespace, wanted.pod, wanted.container, wanted.previous, content, cut)
        self._missing[wanted.label] = text("skipped: the {size} MiB log limit was reached", size=most >> 20)
        return None

    def _newest(self, wanted: _Wanted) -> tuple[bytes, bool]:
        """The newest lines, and whether some of those that were asked for are not among them."""
        lines, most = self._limits.lines, self._limits.container_bytes
        while True:
            data, size = self._tail(wanted, lines)
            if size < _MOST_READ or lines == 1:
                break
            lines = max(lines // 8, 1)
        cut = lines < self._limits.lines or size > most
        if size > most:
            data = data[-most:]
            data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""  # half a line may be half a secret
        return data, cut

    def _tail(self, wanted: _Wanted, lines: int) -> tuple[bytes, int]:
        """The end of what came, and how much came; never much more than `_MOST_READ`."""
        query: dict[str, object] = {"container": wanted.container, "tailLines": lines}
        if wanted.previous:
            query["previous"] = "true"
        left = max(self._limits.until - time.monotonic(), 1.0)
        stream = self._client.open(pod_path(wanted.namespace, wanted.pod, "log"), query, min(_READ, left))
        data, size = bytearray(), 0
        with contextlib.closing(stream.chunks()) as chunks:  # type: ignore[type-var] # it is a generator
            for chunk in chunks:
                _in_time(self._limits)
                size += len(chunk)
                data += chunk
                if len(data) > 4 * self._limits.container_bytes:
                    del data[: -2 * self._limits.container_bytes]
                if size >= _MOST_READ:
                    break
        return bytes(data), size


@contextlib.contextmanager
def _noting(missing: dict[str, str], name: str) -> Iterator[None]:
    """Write down why something could not be had."""
    try:
        yield
    except _LateError:
        missing[name] = text("timed out; raise --timeout")
    except NoAnswerError as error:
        missing[name] = text("does not answer: {message}", message=error.message)
    except KubeError as error:
        missing[name] = error.message


def _in_time(limits: LogLimits) -> None:
    if time.monotonic() >= limits.until:
        raise _LateError


def _listed(client: KubeClient, namespace: str, kind: str, query: dict[str, object] | None = None) -> list[Json]:
    return [body for _, page in client.list(path_of(namespace, kind), query) for body in page]


def _secrets(client: KubeClient) -> Iterator[str]:
    """What the Secrets of our namespace hold: passwords, keys, credentials of registries."""
    for secret in _listed(client, NAMESPACE, "secrets", {"labelSelector": _NO_ACCOUNTS}):
        for key, coded in (secret.get("data") or {}).items():
            if key in _PUBLIC:
                continue
            yield str(coded)
            value = base64.b64decode(str(coded)).decode(errors="replace")
            yield from _values_in(value.strip())
            yield from _values_in(value.strip().partition(":")[2])  # configuration is kept as TAG:VALUE


def _values_in(value: str) -> Iterator[str]:
    """What may be a secret in the value of a Secret: all of it, lines, texts of JSON, passwords of addresses."""
    yield value
    yield from (unquote(match[1]) for match in _PASSWORD.finditer(value))
    yield from (match[1] for match in _PASSWORD.finditer(value))
    yield from secret_values(value)
    try:
        parsed: Any = json.loads(value) if value[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        parsed = None
    if parsed is not None:
        yield from _texts(parsed)
    elif "\n" in value:
        yield from (line for line in map(str.strip, value.splitlines()) if not _HEADING.match(line))


def _is_no_word(value: str) -> bool:
    """Whether a text may be hidden everywhere: a name, such as that of a virtual cluster, is in half of all lines."""
    return len(value) >= _NO_NAME and not value.isalpha()


def _texts(data: Any, key: str = "") -> Iterator[str]:
    """The texts in a value of JSON; what opens a registry is a user and a password."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _texts(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value, key)
    elif isinstance(data, str) and key not in _PUBLIC and (sounds_secret(key) or _is_no_word(data)):
        yield data
        if key == "auth":
            with contextlib.suppress(ValueError):
                yield base64.b64decode(data).decode(errors="replace").partition(":")[2]


def _containers(pods: Iterable[Json]) -> Iterator[_Wanted | tuple[str, str]]:
    """The logs that there are, or what has none and why.

    One pod of each workload comes before the second of any, and of a workload first those in trouble: on a large
    cluster, a thousand pods of one DaemonSet must not be all that is read.
    """
    groups: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for pod in pods:
        groups[pod["metadata"]["namespace"], _workload_of(pod)].append(pod)
    for (namespace, _), group in groups.items():
        for place, pod in enumerate(sorted(group, key=lambda pod: (not _troubled(pod), pod["metadata"]["name"]))):
            name = str(pod["metadata"]["name"])
            rank = (place, not _troubled(pod), namespace != NAMESPACE, name)
            for status in _statuses(pod):
                container = str(status.get("name"))
                if status.get("containerID") or {"running", "terminated"} & set(status.get("state") or {}):
                    yield _Wanted(rank, namespace, name, container, previous=False)
                else:
                    waiting = (status.get("state") or {}).get("waiting") or {}
                    reason = ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
                    yield f"log {namespace}/{name}/{container}", text("has not started: {reason}", reason=reason or "-")
                if status.get("restartCount") and (status.get("lastState") or {}).get("terminated"):
                    yield _Wanted(rank, namespace, name, container, previous=True)


def _workload_of(pod: Json) -> str:
    about = pod["metadata"]
    component = (about.get("labels") or {}).get("component")  # static pods: each belongs to its node alone
    owner: Json = next(iter(about.get("ownerReferences") or ()), {})
    return str(component or owner.get("name") or about["name"])


def _statuses(pod: Json) -> list[Json]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _troubled(pod: Json) -> bool:
    """Whether a pod is not as it should be, or was not."""
    status = pod.get("status") or {}
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions") or ()
    )
    fine = ready or status.get("phase") == "Succeeded"
    return not fine or any(status.get("restartCount") for status in _statuses(pod))


def pod_state(pod: Json) -> Json:
    """What ``kubectl describe`` shows of a pod, without environment, commands and annotations."""
    about, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    owner: Json = next(iter(about.get("ownerReferences") or ()), {})
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    resources = {container["name"]: container.get("resources") for container in containers}
    return {
        "namespace": about["namespace"],
        "name": about["name"],
        "service": (about.get("labels") or {}).get(SERVICE),
        "owner": f"{owner['kind']}/{owner['name']}" if owner else None,
        "created": about.get("creationTimestamp"),
        "deleted": about.get("deletionTimestamp"),
        "node": spec.get("nodeName"),
        **{key: status.get(key) for key in ("phase", "reason", "message", "startTime", "qosClass")},
        "conditions": status.get("conditions") or [],
        "containers": [
            {
                "name": status.get("name"),
                "image": status.get("image"),
                "imageID": status.get("imageID"),
                "ready": status.get("ready"),
                "restarts": status.get("restartCount"),
                "state": status.get("state"),
                "last_state": status.get("lastState"),
                "resources": resources.get(status.get("name")),
            }
            for status in _statuses(pod)
        ],
    }


def _event(event: Json) -> Json:
    about: Json = event.get("involvedObject") or {}
    series = event.get("series") or {}
    return {
        "at": _when(event) or None,
        "type": event.get("type"),
        "reason": event.get("reason"),
        "namespace": about.get("namespace"),
        "object": f"{about.get('kind')}/{about.get('name')}",
        "message": event.get("message"),
        "count": series.get("count") or event.get("count"),
        "source": event.get("reportingComponent") or (event.get("source") or {}).get("component"),
    }


def _when(event: Json) -> str:
    """When an event was seen last, as text that sorts."""
    series: dict[str, Any] = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    created = (event.get("metadata") or {}).get("creationTimestamp")
    return next((str(instant) for instant in (*times, created) if instant), "")
