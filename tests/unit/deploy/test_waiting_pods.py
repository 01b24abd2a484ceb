"""Why a pod of `deploy verify` has not started: in the words of its newest warning, not `ContainerCreating`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from paictl.deploy.verifying import device_finding, explained, why

CREATING = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}
PULLING = {
    "phase": "Pending",
    "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}],
}
FULL = "Failed to create pod sandbox: no space left on device"
EVENTS = (
    {"message": FULL, "lastTimestamp": "2026-11-28T11:02:00Z"},
    {"message": "older", "lastTimestamp": "2026-11-28T11:01:00Z"},
)


class Api:
    """Events of a namespace."""

    def __init__(self, *events: Mapping[str, str]) -> None:
        self.events = events

    def list(self, path: str, query: Mapping[str, str]) -> list[tuple[str, list[Any]]]:
        assert path == "/api/v1/namespaces/trial/events"
        assert query == {"fieldSelector": "involvedObject.name=serve-0,type=Warning"}
        return [("1", list(self.events))]


@pytest.mark.parametrize(
    ("status", "events", "said"),
    [
        (CREATING, EVENTS, FULL),
        (CREATING, (), "ContainerCreating"),
        (PULLING, EVENTS, "ErrImagePull: no such image"),
        ({"phase": "Pending"}, (), "the kubelet does not start pods"),
        ({"phase": "Pending"}, EVENTS, FULL),
        ({"phase": "Failed", "message": "evicted"}, EVENTS, "evicted"),
    ],
)
def test_a_pod_that_waits_says_why(status: Any, events: Any, said: str) -> None:
    pod = {"metadata": {"name": "serve-0", "namespace": "trial"}, "status": status}
    shown: Any = explained(Api(*events), pod)  # type: ignore[arg-type]
    assert why(shown).startswith(said)
    assert device_finding("h3", ("nvidia.com/gpu", 1), shown).message.startswith(said)
