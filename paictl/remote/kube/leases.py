"""One leader among replicas, by a Lease.

Whoever holds the lease renews it; others take it once it has not changed for its whole duration as *they* saw it, on
their own clock, so that clocks need not agree. The holder counts its own time from before it asked, and so stops
earlier than anybody else may begin.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.remote.kube.client import Json, KubeClient, KubeError

REQUEST: Final = 2.0
"""Seconds that a request about the lease may take."""


@frozen
class LeaseTimes:
    """Seconds: how long a lease is good for, and between attempts."""

    duration: int = 8
    retry: float = 1.5


class LeaderElector:
    """Takes part in the election from `start` until `stop`.

    `gained` and `lost` are called from the elector's thread; `lost` also when the time has run out without an answer.
    """

    def __init__(
        self,
        client: KubeClient,
        lease: tuple[str, str],
        identity: str,
        *,
        gained: Callable[[], None],
        lost: Callable[[], None],
        terms: LeaseTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.namespace, self.name = lease
        self.identity = identity
        self.gained = gained
        self.lost = lost
        self.terms = terms or LeaseTimes()
        self.clock = clock
        self.problem = ""
        self.holder = ""
        """Who holds it, as last seen."""
        self._until = 0.0
        self._leads = False
        self._aside = 0.0
        """Until when it takes no part, since it could not begin to lead: the lease expires, and another may take it."""
        self._seen: tuple[str, float] = ("", 0.0)
        """Resource version of the lease as last seen, and when it was new."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)

    @property
    def remaining(self) -> float:
        """Seconds for which no other process may lead; 0 or less if we do not lead."""
        return self._until - self.clock()

    def start(self) -> None:
        """Take part."""
        self._thread.start()

    def stop(self) -> None:
        """Leave; a lease that we hold is given back so that another takes it at once."""
        self._stop.set()
        self._thread.join(2 * REQUEST)
        if self.remaining > 0:
            self._until = 0.0
            try:
                lease = self._get()
                if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self.identity:
                    lease["spec"].update(holderIdentity="", leaseDurationSeconds=1, renewTime=_now())
                    self._put(lease)
            except PaictlError as error:
                self.problem = str(error)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.step()
            self._stop.wait(self.terms.retry)

    def step(self) -> None:
        """One attempt; `gained` or `lost` is called if that has changed who leads."""
        began = self.clock()
        if began < self._aside:
            return
        try:
            if self.attempt():
                self._until = began + self.terms.duration
            self.problem = ""
        except PaictlError as error:
            self.problem = str(error)
        leads = self.remaining > 0
        if leads == self._leads:
            return
        self._leads = leads
        try:
            (self.gained if leads else self.lost)()
        except Exception as error:  # without this thread the process would never lead again: a later step tries again
            self._leads = False
            if leads and not isinstance(error, PaictlError):  # a fault of this process: another may be able to lead
                self._until, self._aside = 0.0, self.clock() + 2 * self.terms.duration
                with suppress(Exception):
                    self.lost()  # whatever has begun
            self.problem = f"cannot {'begin' if leads else 'cease'} to lead: {type(error).__name__}: {error}"

    def attempt(self) -> bool:
        """Take or renew the lease; whether we hold it now."""
        lease = self._get()
        if lease is None:
            return self._make()
        spec, version = lease.get("spec") or {}, str(lease["metadata"].get("resourceVersion"))
        self.holder = str(spec.get("holderIdentity") or "")
        if version != self._seen[0]:
            self._seen = (version, self.clock())
        if self.holder != self.identity:
            if self._until:
                self._until = 0.0
            duration = float(spec.get("leaseDurationSeconds") or self.terms.duration)
            if self.holder and self.clock() - self._seen[1] < duration:
                return False
            changes = int(spec.get("leaseTransitions") or 0) + 1
            spec.update(acquireTime=_now(), leaseTransitions=changes)
        spec.update(holderIdentity=self.identity, leaseDurationSeconds=self.terms.duration, renewTime=_now())
        lease["spec"] = spec
        return self._put(lease)

    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{quote(self.namespace, safe='')}/leases"

    def _get(self) -> Json | None:
        try:
            return self.client.get(f"{self._path()}/{quote(self.name, safe='')}", timeout=REQUEST)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def _put(self, lease: Json) -> bool:
        """Write the lease over the version that was read; False if another was faster."""
        try:
            answer = self.client.request("PUT", f"{self._path()}/{quote(self.name, safe='')}", lease, timeout=REQUEST)
        except KubeError as error:
            if error.status == 409:
                return False
            raise
        self._seen = (str(answer["metadata"].get("resourceVersion")), self.clock())
        self.holder = self.identity
        return True

    def _make(self) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self.terms.duration,
                "acquireTime": _now(),
                "renewTime": _now(),
                "leaseTransitions": 0,
            },
        }
        try:
            self.client.request("POST", self._path(), body, timeout=REQUEST)
        except KubeError as error:
            if error.status == 409:
                return False
            raise
        self.holder = self.identity
        return True


class Leadership:
    """A process's part in leading: by election if there is a `lease`, else alone from `start` to `stop`.

    `begin` is called when it leads and `end` when it does no longer; `end` may come without a `begin`.
    """

    def __init__(
        self,
        client: KubeClient,
        lease: tuple[str, str] | None,
        begin: Callable[[], None],
        end: Callable[[], None],
        terms: LeaseTimes | None = None,
    ) -> None:
        self._begin = begin
        self._end = end
        self._elector: LeaderElector | None = None
        if lease is not None:
            # A container that starts again has the host name and number of the one that was killed, but must not
            # inherit its lease: what that one has sent last may not have been carried out yet.
            identity = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            self._elector = LeaderElector(client, lease, identity, gained=begin, lost=end, terms=terms)

    def remaining(self) -> float:
        """Seconds for which this process leads for sure."""
        return self._elector.remaining if self._elector is not None else math.inf

    @property
    def problem(self) -> str:
        """Why the lease cannot be acquired; empty if nothing is wrong, or without a lease."""
        return self._elector.problem if self._elector is not None else ""

    @property
    def holder(self) -> str:
        """Who holds the lease, as last seen; empty if no process does, or without a lease."""
        return self._elector.holder if self._elector is not None else ""

    def start(self) -> None:
        """Take part, or lead at once."""
        if self._elector is not None:
            self._elector.start()
        else:
            self._begin()

    def stop(self) -> None:
        """Lead no longer, and give a lease back."""
        self._end()
        if self._elector is not None:
            self._elector.stop()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
