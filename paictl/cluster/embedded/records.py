"""Small facts that the embedded cluster keeps between commands: events, versions, timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from paictl.cluster.interface import ConfigVersion, Event, EventKind, NodeChange
from paictl.frozen import frozen
from paictl.units import Millis, instant
from paictl.workload.lifecycle import PodChange, TaskRef

END: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""When time on a cluster's clock ends: calendars have no year 10,000, and dates near it cannot be computed with."""

TOLERATION: Final = Millis(300_000)
"""How long pods on a failed node are given, as Kubernetes tolerates an unreachable node by default."""

REPAIR_AFTER: Final = Millis(5_000)
"""How long a node has to be failed until members of gangs that allow repairs leave it."""


class HistoryKind(StrEnum):
    """What is kept for people to look back at, and a service can take with it when it is deleted."""

    JOBS = "jobs"
    """Jobs that ended."""
    CONFIGURATIONS = "configurations"
    """Versions of the configuration."""


class Timer(NamedTuple):
    """Something that will happen: a pod ends, a month begins, a minimum run time is over, a start promised for
    `detail` comes, pods of a failed node or of bad devices are given up (earlier those whose gangs are repaired), or
    a job that began at `detail` comes to its limit."""

    kind: str
    subject: str
    detail: int = 0


@frozen
class NewJob:
    """The job controller is to learn of a job that was submitted."""

    key: str


@frozen
class PodNews:
    """The job controller is to learn what happened to a pod of a job."""

    key: str
    ref: TaskRef
    what: PodChange


Notice: TypeAlias = NewJob | PodNews


ENDS: Final[Mapping[PodChange, EventKind]] = {
    PodChange.SUCCEEDED: EventKind.FINISHED,
    PodChange.PREEMPTED: EventKind.PREEMPTED,
    PodChange.LOST: EventKind.LOST,
}
"""How the end of a pod is told."""

NODE_CHANGES: Final[Mapping[NodeChange, Mapping[str, bool]]] = {
    NodeChange.CORDON: {"cordoned": True},
    NodeChange.UNCORDON: {"cordoned": False},
    NodeChange.FAIL: {"failed": True},
    NodeChange.HEAL: {"failed": False},
}

_NODE_WORDS: Final[Mapping[NodeChange, str]] = {
    NodeChange.CORDON: "no new pods",
    NodeChange.UNCORDON: "new pods again",
    NodeChange.FAIL: f"its pods are given up unless it is back within {TOLERATION // 60_000} minutes",
    NodeChange.HEAL: "back again",
}


def node_words(change: NodeChange, *, repairs: bool) -> str:
    """What a change of a node means; `repairs`: it fails under pods that are replaced alone (``restart: member``)."""
    more = f", those of jobs with restart: member within {REPAIR_AFTER // 1000} seconds" if repairs else ""
    return _NODE_WORDS[change] + more


@frozen
class Happened:
    """Something that happened, as `interface.Event`, at an instant of the cluster's clock."""

    number: int
    at: Millis
    kind: EventKind
    subject: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def event(self, epoch: datetime) -> Event:
        """The same with its date."""
        when = instant(epoch, self.at)
        return Event(self.number, when, self.kind, self.subject, self.message, self.data)


@frozen
class Pushed:
    """A version of the configuration, as `interface.ConfigVersion`, at an instant of the cluster's clock."""

    number: int
    at: Millis
    message: str
    files: Mapping[str, str]

    def version(self, epoch: datetime) -> ConfigVersion:
        """The same with its date."""
        return ConfigVersion(self.number, instant(epoch, self.at), self.message, self.files)
