"""Whether a plan can ever run, and if not, why: asked once, when a job is submitted.

The first answer is structural: sizes of nodes and quotas, in words. A single pod that passes it always fits into the
empty cluster; of a group of several pods the scheduler itself is asked, on an empty cluster with all nodes
healthy (its walk over the nodes never goes back, so a plan that it refuses there may be one that a cleverer search
would place). Groups are judged one by one, and the groups of a gang also by their sum: all have to run at once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.decision import Bind
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth
from paictl.workload.fields import JobError
from paictl.workload.supply import Supply, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from paictl.cells.spec import ClusterSpec
    from paictl.workload.pods import GroupPlan, JobPlan, RolePlan


class Cause(StrEnum):
    """Why a plan can never run."""

    POD_TOO_LARGE = "pod too large"
    """A pod has more leaf cells than any node of its view."""
    GROUP_TOO_LARGE = "group too large"
    """A group has more leaf cells than any view open to it."""
    DOES_NOT_PACK = "does not pack"
    """There are enough leaf cells, but not in nodes into which the pods fit."""
    JOB_TOO_LARGE = "job too large"
    """The groups of a gang job fit one by one, but not all at once."""


@frozen
class Shortage:
    """One view that cannot hold a group; `needed` and `available` in leaf cells (of a pod, or of the group)."""

    view: View
    cause: Cause
    needed: int
    available: int


@frozen
class Refusal:
    """Why a plan can never run. `shortages` holds one entry per view that the group may use, the best one first."""

    cause: Cause
    vc: str
    opportunistic: bool
    subject: str
    """What is refused: a group by name, or ``the job``."""
    shortages: tuple[Shortage, ...]
    roles: tuple[str, ...]
    """The task roles at fault: of pods that are too large those that have them, else all of the subject."""
    fits_other_vc: bool = False
    """Whether another virtual cluster has enough cells for the subject."""
    fits_cluster: bool = False
    """Whether the whole cluster has, so that the class oppo would do."""

    @property
    def message(self) -> str:
        """One line: who needs what, where, and what is there."""
        best = self.shortages[0]
        values: dict[str, object] = {
            "subject": self.subject,
            "needed": best.needed,
            "owner": text("the cluster") if self.opportunistic else text("virtual cluster {vc}", vc=self.vc),
            "where": best.view.label,
            "available": best.available,
        }
        match self.cause:
            case Cause.POD_TOO_LARGE:
                why = text(
                    "a pod of {subject} needs {needed} leaf cells in one node, but the largest node of {owner}, "
                    "{where}, has {available}",
                    **values,
                )
            case Cause.GROUP_TOO_LARGE:
                why = text(
                    "{subject} needs {needed} leaf cells at once, but {owner}, {where}, has {available}", **values
                )
            case Cause.JOB_TOO_LARGE:
                why = text("{subject} needs {needed} leaf cells at once, but {owner} has {available} for it", **values)
            case Cause.DOES_NOT_PACK:
                why = text(
                    "{subject} needs {needed} leaf cells; {owner}, {where}, has {available}, but not in nodes that "
                    "its pods fit into",
                    **values,
                )
        others = len(self.shortages) - 1
        return text("{why}; nor does it fit elsewhere ({others} more)", why=why, others=others) if others else why

    @property
    def hint(self) -> str:
        """What the user can do."""
        match self.cause:
            case Cause.POD_TOO_LARGE | Cause.DOES_NOT_PACK:
                return text("use smaller tasks, or more of them")
            case _ if self.opportunistic or not (self.fits_other_vc or self.fits_cluster):
                return text("use fewer instances, or gangAllocation: false")
            case _ if not self.fits_cluster:
                return text("use fewer instances, gangAllocation: false, or another virtual cluster")
            case _ if not self.fits_other_vc:
                return text("use fewer instances, gangAllocation: false, or the class oppo")
            case _:
                return text("use fewer instances, gangAllocation: false, another virtual cluster, or the class oppo")

    def error(self) -> JobError:
        """The refusal as an error, to be raised."""
        return JobError("taskRoles", text("can never run: {why}", why=self.message), hint=self.hint)


class Judge:
    """Says of plans whether they can ever run. One judge per specification: its empty cluster is built once."""

    __slots__ = ("_engine", "spec", "supply")

    def __init__(self, spec: ClusterSpec, supply: Supply) -> None:
        """A judge for a cluster; `supply` must be that of `spec`."""
        self.spec = spec
        self.supply = supply
        self._engine: Engine | None = None

    def refusal(self, plan: JobPlan) -> Refusal | None:
        """The reason why a plan can never run, None if it can."""
        return next(self.refusals(plan), None)

    def refusals(self, plan: JobPlan) -> Iterator[Refusal]:
        """All reasons why a plan can never run, group by group; the job as a whole only if each group alone can."""
        refused = False
        for group, role in _different(plan):
            views = self._views(plan, group)
            sizes = [_shortage(group, view) for view in views]
            shortages = [shortage for shortage in sizes if shortage is not None]
            if len(shortages) < len(views):
                if group.leaves == role.leaf_number or self._fits_empty_cluster(plan, role):
                    continue
                shortages = [
                    shortage or Shortage(view, Cause.DOES_NOT_PACK, group.leaves, view.leaves)
                    for shortage, view in zip(sizes, views, strict=True)
                ]
            shortages.sort(key=_distance)
            refused = True
            yield Refusal(
                shortages[0].cause,
                plan.job.vc,
                plan.job.priority < 0,
                _subject(plan, group),
                tuple(shortages),
                (role.name,) if group.single else _at_fault(plan, group, shortages[0]),
                any(_has_room(others, group) for others in self._others(plan, views)),
                _has_room(_like(views, self.supply.chains), group),
            )
        whole = (
            self._sum(plan) if plan.job.gang and sum(number for _, number in plan.groups) > 1 and not refused else None
        )
        if whole is not None:
            yield whole

    def _views(self, plan: JobPlan, group: GroupPlan) -> tuple[View, ...]:
        """The views open to a group; never empty for a plan made with the same supply."""
        if group.pinned_id:
            view = self.supply.pinned(plan.job.vc, group.pinned_id)
            return () if view is None else (view,)
        views = self.supply.views(plan.job.vc, opportunistic=plan.job.priority < 0)
        return tuple(view for view in views if group.leaf_type in ("", view.leaf_type))

    def _others(self, plan: JobPlan, views: Iterable[View]) -> Iterator[list[View]]:
        """What each other virtual cluster has that is like some views."""
        return (_like(views, others) for name, others in self.supply.vcs.items() if name != plan.job.vc)

    def _fits_empty_cluster(self, plan: JobPlan, role: RolePlan) -> bool:
        if self._engine is None:
            self._engine = Engine(self.spec)
            for node in self._engine.state.physical.nodes:
                self._engine.observe(NodeHealth(node, healthy=True))
        return isinstance(self._engine.plan(plan.request(role.pod())), Bind)

    def _sum(self, plan: JobPlan) -> Refusal | None:
        """Whether groups of a gang that are confined to the same views exceed them together."""
        open_to: dict[tuple[str, str], tuple[View, ...]] = {}
        needs: dict[frozenset[str], int] = {}
        for group, number in plan.groups:
            key = (group.leaf_type, group.pinned_id)
            if key not in open_to:
                open_to[key] = self._views(plan, group)
            labels = frozenset(view.label for view in open_to[key])
            needs[labels] = needs.get(labels, 0) + group.leaves * number
        known = {view.label: view for views in open_to.values() for view in views}
        for labels in needs:  # views are nested or disjoint, so the sets of the groups are all that can be short
            needed = sum(number for others, number in needs.items() if others <= labels)
            inside = [view for label, view in known.items() if label in labels]
            available = sum(view.leaves for view in inside)
            if needed > available:
                largest = max(inside, key=lambda view: view.leaves)
                shortage = Shortage(largest, Cause.JOB_TOO_LARGE, needed, available)
                roles = tuple(role.name for role in plan.roles)
                return Refusal(
                    Cause.JOB_TOO_LARGE,
                    plan.job.vc,
                    plan.job.priority < 0,
                    text("job {name}", name=plan.job.name),
                    (shortage,),
                    roles,
                    any(_leaves(others) >= needed for others in self._others(plan, inside)),
                    _leaves(_like(inside, self.supply.chains)) >= needed,
                )
        return None


_NEARNESS = (Cause.DOES_NOT_PACK, Cause.GROUP_TOO_LARGE, Cause.POD_TOO_LARGE, Cause.JOB_TOO_LARGE)
"""The cause that is easiest to remove first: it is the one to tell."""


def _distance(shortage: Shortage) -> tuple[int, int]:
    """How far a view is from holding a group."""
    return _NEARNESS.index(shortage.cause), shortage.needed - shortage.available


def _different(plan: JobPlan) -> Iterator[tuple[GroupPlan, RolePlan]]:
    """Every group with the first of its roles; of the single pods of a role, which are alike, only one."""
    first = {role.group.name: role for role in reversed(plan.roles)}
    return ((role.group, role) for role in plan.roles if first[role.group.name] is role)


def _at_fault(plan: JobPlan, group: GroupPlan, shortage: Shortage) -> tuple[str, ...]:
    own = [role for role in plan.roles if role.group.name == group.name]
    if shortage.cause is Cause.POD_TOO_LARGE:
        own = [role for role in own if role.leaf_number > shortage.available]
    return tuple(role.name for role in own)


def _shortage(group: GroupPlan, view: View) -> Shortage | None:
    """Why a view cannot hold a group as far as sizes tell, None if they do not forbid it."""
    largest = group.members[-1][0]
    if largest > view.largest:
        return Shortage(view, Cause.POD_TOO_LARGE, largest, view.largest)
    if group.leaves > view.leaves:
        return Shortage(view, Cause.GROUP_TOO_LARGE, group.leaves, view.leaves)
    return None


def _like(views: Iterable[View], others: Iterable[View]) -> list[View]:
    """Other views of the leaf types of some; none that is pinned, as that serves only jobs that name it."""
    types = {view.leaf_type for view in views}
    return [view for view in others if view.pinned_id is None and view.leaf_type in types]


def _leaves(views: Iterable[View]) -> int:
    return sum(view.leaves for view in views)


def _has_room(views: Iterable[View], group: GroupPlan) -> bool:
    """Whether a view could hold a group, by size."""
    return any(_shortage(group, view) is None for view in views)


def _subject(plan: JobPlan, group: GroupPlan) -> str:
    """A single pod by its name, a group by its own."""
    job = text("job {name}", name=plan.job.name)
    return job if group.single else text("group {group} of {job}", group=group.name.rpartition("/")[2], job=job)
