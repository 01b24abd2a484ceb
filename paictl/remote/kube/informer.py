"""List and watch: what a server has, object by object, and never a change lost.

Level-triggered: whoever listens is told what an object is now, or that it is gone, and must take the same news twice.
A watch that the server ends goes on where it was; one whose place the server no longer knows, that breaks off or falls
silent (bookmarks come every minute; a connection that died says nothing), or that has not been compared with a list
for `relist` seconds, starts with a new list, which is compared with what was told so far. So does one whose listener
failed; what it failed at is not told again until it changes.

The informer of the `kubernetes` library (37.0) is not used: it waits for ever on a silent connection, takes the
whole list at once, tries again without a pause while the server is down, and makes an object of every JSON value.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

import orjson

from paictl.frozen import frozen
from paictl.remote.kube.client import Json, KubeClient, KubeError, NoAnswerError

SILENCE: Final = 75.0
"""Seconds without a byte after which a watch counts as dead; the server sends a bookmark about every 60."""
WATCH: Final = 300
"""Seconds after which the server ends a watch by itself."""
RELIST: Final = 600.0
"""Seconds after which everything is listed and compared, even if the watch works."""
PAUSES: Final = (0.1, 5.0)
"""First and longest pause between attempts."""
_LOGGER = logging.getLogger("paictl.informer")


class ResourceEventHandler(Protocol):
    """Receives the changes. Calls come from one thread."""

    def changed(self, body: Json) -> None:
        """An object is like this now."""

    def gone(self, key: str, uid: str) -> None:
        """An object (``namespace/name`` or ``name``) is no longer there."""

    def synced(self) -> None:
        """All that a list held has been told."""


@frozen
class InformerTimes:
    """Seconds; tests make them short."""

    silence: float = SILENCE
    watch: float = WATCH
    relist: float = RELIST


class Informer:
    """Keeps one listener up to date about one collection (``/api/v1/pods``)."""

    def __init__(
        self,
        client: KubeClient,
        path: str,
        listener: ResourceEventHandler,
        *,
        query: Mapping[str, object] | None = None,
        times: InformerTimes | None = None,
    ) -> None:
        self.client = client
        self.path = path
        self.listener = listener
        self.query = dict(query or {})
        self.times = times or InformerTimes()
        self.known: dict[str, tuple[str, str]] = {}
        """Key to uid and resource version of what was told."""
        self.version = ""
        """The version from which the watch resumes; empty: start with a list."""
        self.problem = ""
        """Why the last attempt failed; empty while all is well."""
        self.heard = 0.0
        """When the server last said anything (monotonic)."""
        self.lists = 0
        self.ready = threading.Event()
        """Set once a whole list has been told."""
        self._listed = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"informer {path}", daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End at the next news; the thread is not waited for, since it may sit on a silent connection."""
        self._stop.set()

    def _run(self) -> None:
        pause = PAUSES[0]
        while not self._stop.is_set():
            try:
                if not self.version or time.monotonic() - self._listed > self.times.relist:
                    self._list()
                self._watch()
                self.problem, pause = "", PAUSES[0]
            except KubeError as error:
                if error.status == 410:  # the server no longer knows what came after our version
                    self.version = ""
                self.problem = str(error)
            except NoAnswerError as error:  # changes may have been missed
                self.version, self.problem = "", str(error)
            except Exception as error:  # a fault of the listener's: the others must not wait for what it stumbled over
                _LOGGER.exception("an update of %s could not be processed", self.path)
                self.version, self.problem = "", f"{type(error).__name__}: {error}"  # the list skips what was told
            else:
                continue
            self._stop.wait(pause * random.uniform(0.5, 1))  # noqa: S311 - only to spread attempts
            pause = min(pause * 2, PAUSES[1])

    def _list(self) -> None:
        """List everything, notify of what differs from what was told."""
        listed: set[str] = set()
        version = ""
        for of_list, bodies in self.client.list(self.path, self.query):
            version = of_list
            self.heard = time.monotonic()
            for body in bodies:
                listed.add(self._notify(body))
            if self._stop.is_set():
                return
        for key in [key for key in self.known if key not in listed]:
            self._forget(key)
        self.version, self._listed = version, time.monotonic()
        self.lists += 1
        self.problem = ""
        self.listener.synced()
        self.ready.set()

    def _watch(self) -> None:
        query = {
            **self.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            "timeoutSeconds": max(1, int(self.times.watch)),
        }
        due = self._listed + self.times.relist
        for line in self.client.open(self.path, query, self.times.silence).lines():
            self.heard = time.monotonic()
            self._handle(_parsed(line, self.client))
            if self._stop.is_set() or self.heard > due:
                return

    def _handle(self, change: Json) -> None:
        body: Json = change.get("object") or {}
        kind = change.get("type")
        if kind == "ERROR":
            status = int(body.get("code") or 500)
            raise KubeError(f"the watch of {self.path} ended: {body.get('message')}", status=status)
        about = body.get("metadata") or {}
        if kind in ("ADDED", "MODIFIED"):
            self._notify(body)
        elif kind == "DELETED":
            key = key_of(about)
            if self.known.get(key, ("", ""))[0] in ("", about.get("uid")):
                self._forget(key, str(about.get("uid", "")))
        self.version = str(about.get("resourceVersion") or self.version)

    def _notify(self, body: Json) -> str:
        about = body["metadata"]
        key, uid, version = key_of(about), str(about.get("uid", "")), str(about.get("resourceVersion", ""))
        cached = self.known.get(key)
        if cached is not None and cached[0] != uid:
            self._forget(key)
        if cached != (uid, version):
            self.known[key] = (uid, version)
            self.listener.changed(body)
        return key

    def _forget(self, key: str, uid: str = "") -> None:
        cached = self.known.pop(key, None)
        self.listener.gone(key, cached[0] if cached else uid)


def key_of(about: Mapping[str, Any]) -> str:
    """``namespace/name``, or ``name`` of what has no namespace."""
    space, name = about.get("namespace"), about.get("name", "")
    return f"{space}/{name}" if space else str(name)


def _parsed(line: bytes, client: KubeClient) -> Json:
    try:
        event: Json = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise NoAnswerError("the watch sent invalid JSON", where=client.where) from error
    return event
