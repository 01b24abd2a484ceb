"""Events of pods that say something once: the same reason again is a higher count, sent ever less often.

One `Event` object a pod and reason, named after both, so that not even a restart makes a second one.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from paictl.errors import PaictlError
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError

FIRST_PAUSE: Final = 60.0
"""Seconds that an event rests at least before it is sent again; doubled each time."""
LONGEST_PAUSE: Final = 6 * 3600.0
REMEMBERED: Final = 20_000
"""Events whose count is known; of those forgotten the server is asked."""
WAITING: Final = 10_000
"""Events to be sent; more are dropped rather than kept: they are for people."""
MESSAGE: Final = 1000
"""Characters of a message; the server takes 1024 bytes of a note."""


@dataclass(frozen=True, slots=True)
class PodReference:
    """The pod that an event is about."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be said about a pod, and how bad it is."""

    subject: PodReference
    reason: str
    """One word in capitals, for machines: ``Waiting``."""
    message: str
    warning: bool = False


@dataclass(slots=True)
class _Sent:
    message: str
    count: int
    at: float
    pause: float = FIRST_PAUSE
    unsent: int = 0


class EventRecorder:
    """Takes events from any thread without waiting; a thread of its own sends them."""

    def __init__(
        self, client: KubeClient, component: str, *, clock: Callable[[], float] = time.monotonic, enabled: bool = True
    ) -> None:
        self.client = client
        self.component = component
        self.clock = clock
        self.enabled = enabled
        self.dropped = 0
        self.sent = 0
        self._known: OrderedDict[str, _Sent] = OrderedDict()
        self._queue: queue.Queue[Event | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Send what is waiting, for at most so long."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)

    def record(self, event: Event) -> None:
        """Have it sent if it is news."""
        if not self.enabled:
            return
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            try:
                self.send(event)
            except PaictlError:  # an event is worth no second attempt, and never worth stopping for
                self.dropped += 1

    def send(self, event: Event) -> bool:
        """Send it unless the same has just been sent; whether it was."""
        name, now = event_name(event), self.clock()
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            known.unsent += 1
            if now - known.at < (known.pause if event.message == known.message else FIRST_PAUSE):
                return False
            if self._again(event, name, known.count + known.unsent):
                known.count, known.unsent, known.at = known.count + known.unsent, 0, now
                known.message, known.pause = event.message, min(known.pause * 2, LONGEST_PAUSE)
                return True
        self._known[name] = _Sent(event.message, self._first(event, name), now)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return True

    def _first(self, event: Event, name: str) -> int:
        """Make the event; if another run of ours has made it, count on. Returns the count."""
        now, subject = _now(), event.subject
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": subject.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod",
                "namespace": subject.namespace, "name": subject.name, "uid": subject.uid,
            },
            "reason": event.reason,
            "message": event.message[:MESSAGE],
            "type": "Warning" if event.warning else "Normal",
            "source": {"component": self.component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }  # fmt: skip
        try:
            self.client.request("POST", _path(subject.namespace), body)
        except KubeError as error:
            if error.status != 409:
                raise
            known = self.client.get(f"{_path(subject.namespace)}/{name}")
            count = int(known.get("count") or 1) + 1
            self._again(event, name, count)
            return count
        self.sent += 1
        return 1

    def _again(self, event: Event, name: str, count: int) -> bool:
        """Raise the count; False if the server has forgotten the event, as it does after an hour."""
        body = {"message": event.message[:MESSAGE], "lastTimestamp": _now(), "count": count}
        try:
            self.client.request("PATCH", f"{_path(event.subject.namespace)}/{name}", body, kind=MERGE)
        except KubeError as error:
            if error.status == 404:
                return False
            raise
        self.sent += 1
        return True


def event_name(event: Event) -> str:
    """The name of the one object for a pod and reason."""
    digest = hashlib.sha256(f"{event.subject.uid} {event.reason}".encode()).hexdigest()[:16]
    return f"{event.subject.name[:200]}.{digest}"


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/events"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
