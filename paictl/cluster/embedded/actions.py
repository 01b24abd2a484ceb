"""What passes between the dispatcher and its cluster: pods that run, that must go, and what a scheduler finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from paictl.frozen import frozen
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.events import GroupChange, Outcome, RunningPod
from paictl.scheduler.groups import GroupState


@frozen
class Bound:
    """A pod runs now."""

    uid: str
    info: BindInfo


@frozen
class Evicted:
    """Pods that must go, so that another group can run."""

    uids: tuple[str, ...]
    preemptor: str


@frozen
class Demoted:
    """A group lost its guarantee (lazy preemption) and runs on."""

    group: str
    preemptor: str


Action: TypeAlias = Bound | Evicted | Demoted


@frozen
class Survivors:
    """What a scheduler finds when it starts."""

    healthy: Sequence[str]
    """Names of the nodes that may be used."""
    bad_devices: Sequence[tuple[str, int]]
    """(node, number) of devices that are broken, those of nodes that may not be used, too."""
    running: Sequence[RunningPod]
    """The pods that run, with their places."""


def demotions(outcomes: Iterable[Outcome]) -> Iterator[Demoted]:
    """Groups that lost their guarantee and run on; one whose devices are taken as well does not."""
    for outcome in outcomes:
        match outcome:
            case GroupChange(name, before, after) if before and after and before.virtual and not after.virtual:
                if after.state is not GroupState.BEING_PREEMPTED:
                    yield Demoted(name, after.preemptor or "")
