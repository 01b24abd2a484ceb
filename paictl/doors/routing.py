"""Which replica the Service leads to: the leader's pod carries a label that the Service selects.

Standbys are Ready too, or else a disruption budget would count the leader as the only healthy pod and forbid for ever
to drain its node. Whoever begins to lead takes the label from all others: one that froze cannot do so itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from paictl.cluster.kubernetes.names import LEADER
from paictl.errors import PaictlError
from paictl.remote.kube import pods
from paictl.remote.kube.client import KubeClient

APP: Final = "app.kubernetes.io/name"
PERIOD: Final = 0.25
"""Seconds between looks at who leads."""
AGAIN: Final = 2.0
"""Seconds after an attempt that failed."""


class Routing:
    """Keeps the label where the leader is, in a thread of its own."""

    def __init__(self, client: KubeClient, pod: tuple[str, str], term: Callable[[], object | None]) -> None:
        self.client = client
        self.namespace, self.name = pod
        self.term = term
        """The term that answers now, None if this process does not lead or knows too little."""
        self.problem = ""
        self._labelled: object | None = None
        """The term for which the label was set."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="routing", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Leave the label alone: the pod is about to end, and the next leader takes it."""
        self._stop.set()

    def _run(self) -> None:
        pause = PERIOD
        while not self._stop.wait(pause):
            try:
                self.step()
                self.problem, pause = "", PERIOD
            except PaictlError as error:
                self.problem, pause = str(error), AGAIN

    def step(self) -> None:
        """Set or take the label if who leads has changed. Raises `PaictlError` if that cannot be done now."""
        term = self.term()
        if term is self._labelled:
            return
        own = pods.get(self.client, self.namespace, self.name)
        if own is None:
            return
        about = own["metadata"]
        if term is not None:
            selector = f"{APP}={(about.get('labels') or {}).get(APP, '')},{LEADER}=true"
            for _, page in self.client.list(f"/api/v1/namespaces/{self.namespace}/pods", {"labelSelector": selector}):
                for one in page:
                    other = one["metadata"]
                    if other["uid"] != about["uid"]:
                        pods.label(self.client, (self.namespace, other["name"], other["uid"]), {LEADER: None})
        pods.label(self.client, (self.namespace, self.name, about["uid"]), {LEADER: "true" if term else None})
        self._labelled = term
