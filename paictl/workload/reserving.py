"""Which reservations can be added, and which jobs can use them (`docs/reservations.md`).

What cannot be kept is refused before anything is written: by name, place and quantity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from paictl.cells.quota import cells_at_risk
from paictl.frozen import frozen_caching
from paictl.i18n import did_you_mean, listed, text
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth
from paictl.units import Millis, instant, rfc3339
from paictl.workload.backfill import Foresight
from paictl.workload.reservations import Reservation, ReservationError, Reservations, overlap
from paictl.workload.reserved import Clash, ReservedCells

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.request import Member
    from paictl.workload.pods import JobPlan
    from paictl.workload.reserved import Moment


@frozen_caching
class ReservationScene:
    """A cluster in which a reservation is to be added, as its scheduler sees it."""

    spec: ClusterSpec
    foresight: Foresight
    of: Callable[[str], str]
    """The reservation that a group which holds devices is for; empty: none."""
    owner: Callable[[str], str]
    """The name that people know a group by: its job, where it has one."""
    epoch: datetime
    """Instants count from it."""

    @cached_property
    def empty(self) -> Foresight:
        """The cluster with healthy hardware only, and no job in it."""
        engine = Engine(self.spec)
        for node in engine.state.physical.nodes:
            engine.observe(NodeHealth(node, healthy=True))
        return Foresight(engine, self.foresight.now, lambda _: None)


def admitted(reservations: Reservations, new: Reservation, scene: ReservationScene) -> Reservations:
    """The reservations with a new one, for which its cells are kept from its begin on; raises `ReservationError`."""
    after = reservations.added(new, scene.foresight.now, scene.foresight.engine.state.physical.nodes)
    changed = _changed(reservations, after, new, scene)
    if new.vc:
        names = [vc.name for vc in scene.spec.virtual_clusters]
        if new.vc not in names:
            hint = did_you_mean(new.vc, names) or text("virtual clusters: {vcs}", vcs=listed(names))
            raise ReservationError(text("no virtual cluster {name!r}", name=new.vc), hint=hint)
        _within_promise(after, new, changed[new.vc], scene)
    else:
        _within_free_pool(after, new, scene)
    _refuse_short(reservations, after, changed, scene)
    return after


def _changed(
    before: Reservations, after: Reservations, new: Reservation, scene: ReservationScene
) -> dict[str, list[Moment]]:
    """By virtual cluster: the moments at which a new reservation can leave another, or itself, short of cells.

    With cells of a promise only those that there were not before: for the same reservations at the same instant the
    same is kept. So one of many costs what those cost that last when it does, not what all before it cost.
    """
    now = scene.foresight.now
    if not new.vc:
        return {vc: after.moments(vc, now) for vc in sorted({known.vc for known in after if known.vc})}
    known = dict(before.moments(new.vc, now))
    return {new.vc: [moment for moment in after.moments(new.vc, now) if known.get(moment[0]) != moment[1]]}


def _within_promise(after: Reservations, new: Reservation, changed: Sequence[Moment], scene: ReservationScene) -> None:
    """Refuse what exceeds the promise of its virtual cluster, alone or together with others."""
    empty = scene.empty

    def first(moments: Sequence[Moment]) -> Clash | None:
        return next(ReservedCells(after, lambda _: "").short(empty, new.vc, moments), None)

    _of_one_size(after, new, empty.now)
    if (alone := first(Reservations((new,)).moments(new.vc, empty.now))) is not None:
        raise ReservationError(
            text(
                "{vc} is promised {kept}x{type}, not {cells}x{type}",
                vc=new.vc,
                kept=alone.kept,
                type=new.cell_type,
                cells=new.cells,
            ),
            hint=text("reserve at most {size}", size=f"{alone.kept}x{new.cell_type}")
            if alone.kept
            else text("its promise is in: paictl cluster view"),
        )
    if first(changed) is not None:
        others = [other.name for other in after.of(new.vc) if other is not new and overlap(other, new, empty.now)]
        fitting = (
            cells
            for cells in range(new.cells - 1, 0, -1)
            if first([(at, _with_cells(active, new, cells)) for at, active in changed]) is None
        )
        left = next(fitting, 0)
        raise ReservationError(
            text(
                "it overlaps reservation {names}: {left} of {cells} cells of the promise of {vc} are left",
                names=listed(others),
                left=left,
                cells=new.cells,
                vc=new.vc,
            ),
            hint=text(
                "reserve fewer cells, choose another time, or first: paictl reservation remove {name}",
                name=others[0] if others else "",
            ),
        )


def _with_cells(active: Iterable[Reservation], new: Reservation, cells: int) -> tuple[Reservation, ...]:
    return tuple(replace(known, cells=cells) if known is new else known for known in active)


def _of_one_size(after: Reservations, new: Reservation, now: Millis) -> None:
    """Refuse cells of another size than those of a reservation of the same promise that lasts at the same time.

    The core may put a gang into any cells of the promise: of one size they are all alike, so that no job of one
    reservation can take what another needs.
    """
    for other in after.of(new.vc):
        alike = (other.leaves, other.leaf_type) == (new.leaves, new.leaf_type)
        if not alike and overlap(other, new, now):
            raise ReservationError(
                text(
                    "it overlaps reservation {name}, which has cells of type {type}, not {other}",
                    name=other.name,
                    type=other.cell_type,
                    other=new.cell_type,
                ),
                hint=text("reserve cells of type {type}, or choose another time", type=other.cell_type),
            )


def _within_free_pool(after: Reservations, new: Reservation, scene: ReservationScene) -> None:
    """Refuse nodes that a promise needs, or that are in use then."""
    if not new.nodes:
        raise ReservationError(
            text("reservation {name} has no cells", name=new.name),
            hint="name the cells: --vc VC --cells 2xV100-NODE, or --nodes NODE",
        )
    now, nodes = scene.foresight.now, {*new.nodes}
    for other in after:
        if other.nodes and other is not new and overlap(other, new, now):
            nodes.update(other.nodes)
    for window in scene.foresight.windows:
        if not window.hold and any(window.overlaps(held) for held in Reservations((new,)).holds(now)):
            nodes.update(window.nodes)
    bad = {*scene.foresight.engine.state.health.bad_nodes}
    at_risk = cells_at_risk(scene.spec, nodes | bad)
    if at_risk and at_risk != cells_at_risk(scene.spec, bad):  # what bad nodes alone put at risk forbids nothing
        cells = listed(f"{vc}: {number}" for vc, number in at_risk.items())
        raise ReservationError(
            text(
                "promises need these nodes: {nodes} (without them cells would be short: {cells})",
                nodes=listed(new.nodes),
                cells=cells,
            ),
            hint="reserve cells of a promise instead: --vc VC --cells 2xV100-NODE",
        )
    engine, end_of = scene.foresight.engine, scene.foresight.end_of
    tree, staying = engine.state.physical, dict[str, Millis | None]()
    for name, group in engine.state.groups.by_name.items():
        end = end_of(name)
        if (end is None or end > new.start) and any(tree.node_name(leaf) in new.nodes for leaf in group.leaves()):
            staying[name] = end
    if staying:
        raise ReservationError(
            text("these jobs may still run on its nodes when it begins: {jobs}", jobs=_jobs(staying, scene)),
            hint="choose other nodes, begin later, or give jobs a maxRunTime",
        )


def _refuse_short(
    before: Reservations, after: Reservations, changed: Mapping[str, Sequence[Moment]], scene: ReservationScene
) -> None:
    """Refuse what jobs that run now would make late, be it the new one or, by its nodes, another."""
    for vc, moments in changed.items():
        clashes = list(_short(after, vc, scene, moments))
        known = {(row.reservation.name, row.at) for row in _short(before, vc, scene)} if clashes else set()
        for clash in clashes:
            if (clash.reservation.name, clash.at) in known:
                continue
            blocking = ReservedCells(after, scene.of).blocking(scene.foresight, vc, clash.at)
            ends = {name: scene.foresight.end_of(name) for name in blocking}
            at = rfc3339(instant(scene.epoch, clash.at))
            message = text(
                "{kept} of {needed} cells of reservation {name} would be free at {at}",
                kept=clash.kept,
                needed=clash.reservation.cells,
                name=clash.reservation.name,
                at=at,
            )
            if ends:
                message = text("{message}; these jobs may still run: {jobs}", message=message, jobs=_jobs(ends, scene))
            raise ReservationError(
                message, hint="begin when they have ended, reserve fewer cells, or give jobs a maxRunTime"
            )


def _short(
    reservations: Reservations, vc: str, scene: ReservationScene, moments: Sequence[Moment] | None = None
) -> Iterator[Clash]:
    kept = ReservedCells(reservations, scene.of)
    ahead = scene.foresight
    windows = kept.windows(ahead.windows, ahead.now)
    return kept.short(Foresight(ahead.engine, ahead.now, ahead.end_of, windows), vc, moments)


def _jobs(ends: Mapping[str, Millis | None], scene: ReservationScene) -> str:
    rows = {
        scene.owner(name): text("without a limit")
        if end is None
        else text("until {until} at the latest", until=rfc3339(instant(scene.epoch, end)))
        for name, end in sorted(ends.items())
    }
    return listed([f"{job} ({until})" for job, until in rows.items()], 4)


def refuse_job(
    reservations: Reservations, name: str, vc: str, *, guaranteed: bool, gangs: Iterable[tuple[Iterable[Member], str]]
) -> None:
    """Refuse a job that can never start in its reservation; `gangs` are members and leaf type of each.

    Raises `ReservationError`.
    """
    if not name:
        return
    where = "extras.reservation"
    known = reservations.get(name)
    if known is None or known.vc not in ("", vc):
        # The same answer in both cases: a user must not learn what other tenants have reserved.
        usable = [reservation.name for reservation in reservations if reservation.vc in ("", vc)]
        hint = did_you_mean(name, usable) or "list them with: paictl reservation list"
        raise ReservationError(
            text("no reservation {name!r} for virtual cluster {vc}", name=name, vc=vc), where=where, hint=hint
        )
    if not known.vc:
        return
    if not guaranteed:
        raise ReservationError(
            text("reservation {name} keeps cells of a promise, which an opportunistic job cannot use", name=name),
            where=where,
            hint="give it another priority class: --priority test",
        )
    for members, leaf_type in gangs:
        if leaf_type and leaf_type != known.leaf_type:
            raise ReservationError(
                text(
                    "reservation {name} keeps {type}, the job asks for {other}",
                    name=name,
                    type=known.leaf_type,
                    other=leaf_type,
                ),
                where=where,
                hint=text("ask for {type}", type=known.leaf_type),
            )
        if (needed := known.uses(members)) > known.cells:
            raise ReservationError(
                text(
                    "the job needs {needed} cells of type {type}, reservation {name} has {cells}",
                    needed=needed,
                    type=known.cell_type,
                    name=name,
                    cells=known.cells,
                ),
                where=where,
                hint="use fewer instances, or a larger reservation",
            )


def refuse_plan(reservations: Reservations, plan: JobPlan) -> None:
    """Refuse a job that can never start in the reservation that it names; raises `ReservationError`."""
    job = plan.job
    if job.reservation:
        gangs = [(group.members, group.leaf_type) for group, number in plan.groups for _ in range(number)]
        refuse_job(reservations, job.reservation, job.vc, guaranteed=not job.opportunistic, gangs=gangs)
