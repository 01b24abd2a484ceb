"""Routes the Service to the leader: the leader's pod carries a label that the Service selects.

Standbys are Ready too; otherwise a disruption budget would count the leader as the only healthy pod, and its node could
never be drained. A new leader removes the label from all other pods: a frozen one cannot do so itself.
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
"""Seconds between checks for a change of leader."""
AGAIN: Final = 2.0
"""Seconds after a failed attempt."""


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
        """Start the thread."""
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
        """Set or remove the label if the leader has changed. Raises `PaictlError` if that is not possible now."""
        term = self.term()
        if term is self._labelled:
            return
        pod = pods.get(self.client, self.namespace, self.name)
        if pod is None:
            return
        metadata = pod["metadata"]
        if term is not None:
            selector = f"{APP}={(metadata.get('labels') or {}).get(APP, '')},{LEADER}=true"
            for _, page in self.client.list(f"/api/v1/namespaces/{self.namespace}/pods", {"labelSelector": selector}):
                for holder in page:
                    holder_metadata = holder["metadata"]
                    if holder_metadata["uid"] != metadata["uid"]:
                        pods.label(
                            self.client,
                            (self.namespace, holder_metadata["name"], holder_metadata["uid"]),
                            {LEADER: None},
                        )
        pods.label(self.client, (self.namespace, self.name, metadata["uid"]), {LEADER: "true" if term else None})
        self._labelled = term
