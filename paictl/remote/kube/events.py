"""Events of pods that say something once: the same reason again is a higher count, sent ever less often.

One `Event` object a pod and reason, named after both, so that not even a restart makes a second one. What the server
does not take, or nobody hears because it is away, is tried again: the newest of a pod and reason, ever less often,
and what must be told (`vital`) until it is taken.
"""

from __future__ import annotations

import hashlib
import math
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError

FIRST_PAUSE: Final = 60.0
"""Seconds that an event rests at least before it is sent again; doubled each time."""
LONGEST_PAUSE: Final = 6 * 3600.0
CHANGED_PAUSE: Final = 3600.0
"""The longest pause of a message whose words change."""
AGAIN: Final = (1.0, 60.0)
"""First and longest pause before an event is tried again that was not taken; doubled each time."""
ATTEMPTS: Final = 6
"""Attempts for an event that is only useful."""
REMEMBERED: Final = 20_000
"""Events whose count is known; of those forgotten the server is asked."""
WAITING: Final = 10_000
"""Events to be sent, and as many to be tried again; more are dropped, those first that are only useful."""
MESSAGE: Final = 1000
"""Characters of a message; the server takes 1024 bytes of a note."""


@frozen
class PodReference:
    """The pod that an event is about."""

    namespace: str
    name: str
    uid: str


@frozen
class NewEvent:
    """What is to be said about a pod, and how bad it is."""

    subject: PodReference
    reason: str
    """One word in capitals, for machines: ``Waiting``."""
    message: str
    warning: bool = False
    vital: bool = False
    """Whether it is tried until it is taken."""
    once: bool = False
    """Whether an event of this pod and reason is enough, whoever has told it and in whatever words."""


@dataclass(slots=True)
class _Retry:
    event: NewEvent
    due: float
    pause: float = AGAIN[0]
    attempts: int = 0


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
        """Events that were dropped."""
        self.sent = 0
        self._known: OrderedDict[str, _Sent] = OrderedDict()
        self._retries: OrderedDict[str, _Retry] = OrderedDict()
        """What was not taken, by the event's name; only the newest of each."""
        self._away_until = -math.inf
        """The server did not answer; do not ask again before this time."""
        self._queue: queue.Queue[NewEvent | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    @property
    def waiting(self) -> int:
        """Events that are still to be told."""
        return self._queue.qsize() + len(self._retries)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self, seconds: float = 2.0) -> None:
        """Send what is waiting, for at most so long."""
        with suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        if self._thread.is_alive():
            self._thread.join(seconds)

    def record(self, event: NewEvent) -> None:
        """Have it sent if it is news."""
        if not self.enabled:
            return
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        while True:
            try:
                event = self._queue.get(timeout=self._pause())
            except queue.Empty:
                self.again()
                continue
            if event is None:
                break
            self.tell(event)
        self._away_until = -math.inf
        for retry in self._retries.values():  # the last chance
            retry.due = -math.inf
        self.again()

    def _pause(self) -> float | None:
        """Seconds until something is due again; None if nothing is."""
        if not self._retries:
            return None
        due = max(self._away_until, min(retry.due for retry in self._retries.values()))
        return max(0.01, due - self.clock())

    def tell(self, event: NewEvent) -> None:
        """Send an event; what cannot be sent now is kept for later."""
        name = event_name(event)
        retry = self._retries.get(name)
        if retry is not None:  # it has just failed: this one takes its place
            retry.event = event
        elif self.clock() < self._away_until:
            self._keep(name, _Retry(event, self._away_until))
        else:
            self._attempt(name, _Retry(event, 0.0))

    def again(self) -> None:
        """Try what is due again, until one shows that the server is still away."""
        now = self.clock()
        for name in [name for name, retry in self._retries.items() if retry.due <= now]:
            if now < self._away_until:
                return
            self._attempt(name, self._retries.pop(name))

    def _attempt(self, name: str, retry: _Retry) -> None:
        try:
            self.send(retry.event)
        except PaictlError as error:
            retry.due, retry.pause = self.clock() + retry.pause, min(2 * retry.pause, AGAIN[1])
            if not isinstance(error, KubeError):  # no answer: this does not count as an attempt, and other events wait
                self._away_until = retry.due
            else:
                retry.attempts += 1
                missing = error.status == 404  # its namespace is gone: nothing to report to
                if missing or (retry.attempts >= ATTEMPTS and not retry.event.vital):
                    self.dropped += 1
                    return
            self._keep(name, retry)

    def _keep(self, name: str, retry: _Retry) -> None:
        self._retries[name] = retry
        if len(self._retries) > WAITING:
            useful = next((other for other, pending in self._retries.items() if not pending.event.vital), None)
            self._retries.pop(useful if useful is not None else next(iter(self._retries)))
            self.dropped += 1

    def send(self, event: NewEvent) -> bool:
        """Send it unless the same has just been sent; whether it was."""
        name, now = event_name(event), self.clock()
        earlier = self._known.get(name)
        if earlier is not None:
            if event.once:
                return False
            self._known.move_to_end(name)
            count = earlier.count + earlier.unsent + 1
            longest = LONGEST_PAUSE if event.message == earlier.message else CHANGED_PAUSE
            if now - earlier.at < min(earlier.pause, longest):
                earlier.unsent += 1
                return False
            if self._again(event, name, count):
                earlier.count, earlier.unsent, earlier.at = count, 0, now
                earlier.message, earlier.pause = event.message, min(earlier.pause * 2, LONGEST_PAUSE)
                return True
        self._known[name] = _Sent(event.message, self._first(event, name), now)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return True

    def _first(self, event: NewEvent, name: str) -> int:
        """Make the event; if another run of ours has made it, count on. Returns the count."""
        now, subject = _now(), event.subject
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": subject.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
            },
            "reason": event.reason,
            "message": event.message[:MESSAGE],
            "type": "Warning" if event.warning else "Normal",
            "source": {"component": self.component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            self.client.request("POST", _path(subject.namespace), body)
        except KubeError as error:
            if error.status != 409:
                raise
            existing = self.client.get(f"{_path(subject.namespace)}/{name}")
            if event.once:
                return int(existing.get("count") or 1)
            count = int(existing.get("count") or 1) + 1
            self._again(event, name, count)
            return count
        self.sent += 1
        return 1

    def _again(self, event: NewEvent, name: str, count: int) -> bool:
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


def event_name(event: NewEvent) -> str:
    """The name of the one object for a pod and reason."""
    digest = hashlib.sha256(f"{event.subject.uid} {event.reason}".encode()).hexdigest()[:16]
    return f"{event.subject.name[:200]}.{digest}"


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/events"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
