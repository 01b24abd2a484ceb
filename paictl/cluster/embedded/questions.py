"""What only the scheduler of an embedded cluster knows, as the interface asks for it.

Few commands ask, and they alone load this module: it brings all that explains, plans moves and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from paictl.cluster.defrag import DefragPlan, GangPods, outrun, planned_moves
from paictl.cluster.embedded.analysis import (
    cluster_figures,
    day_of,
    explain_job,
    foresee_job,
    gangs_of,
    impact_of,
    scene_of,
)
from paictl.cluster.embedded.store import Store
from paictl.cluster.embedded.views import WorldViews
from paictl.cluster.embedded.world import World
from paictl.cluster.figures import ClusterFigures
from paictl.cluster.interface import JobRequest
from paictl.cluster.scheduling import Impact, JobExplanation
from paictl.cluster.storages import Storage, refuse_extras
from paictl.units import Millis

if TYPE_CHECKING:
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.workload.usage import UsageAmount


class WorldQuestions:
    """Questions to the scheduler of a world at its present; nothing that they ask changes it."""

    def __init__(self, views: WorldViews, store: Store, epoch: datetime) -> None:
        self._views = views
        self._world = views.world
        self._store = store
        self._epoch = epoch

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run; raises `NoJobError`."""
        return explain_job(self._world, self._views.live_job(key), self._epoch)

    def foresee(self, request: JobRequest, storages: Callable[[], Sequence[Storage]]) -> JobExplanation:
        """What would happen to a job that was submitted now."""
        refuse_extras([request], storages)
        return foresee_job(self._world, request, self._epoch)

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off by other configuration files."""
        return list(impact_of(self._world, files))

    def figures(self, amounts: Callable[[World, Millis, Millis], Iterable[UsageAmount]]) -> ClusterFigures:
        """What the scheduler knows, for Prometheus; `amounts` is the device time of a window."""
        spent = amounts(self._world, day_of(self._world), self._world.now)
        return cluster_figures(self._world, spent, self._store.count_events)

    def plan_moves(self, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room."""
        return planned_moves(self._world.name, scene_of(self._world), rooms)

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more."""
        return outrun(scene_of(self._world), room, kept, exactly=exactly) or ""

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""
        return gangs_of(self._world)
