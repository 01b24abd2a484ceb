"""Defragmentation: a plan, in words, too, and its moves made gang by gang, each only when the one before is back."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from paictl.cluster.capabilities import HandClock
from paictl.cluster.defrag import HOW_TO_PLAN, DefragMove, DefragPlan, GangPods, RoomOutcome, plan_from
from paictl.cluster.interface import ConflictError, Defragmented, Identity, Jobs, Maintained, MaintenanceWindow
from paictl.cluster.maintenance import WindowRequest, refuse_other_holds
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import Text, counted, listed, text
from paictl.scheduler.defrag import Obstacle
from paictl.units import Millis, span_text

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at whether a gang is back."""
NOTICED_AFTER: Final = 2.0
"""Seconds until the scheduler of a real cluster knows for sure which nodes are kept free."""
_SLACK: Final = Millis(600_000)
"""For so much longer than all moves may take nodes are kept free, should this process be killed."""


class DefragPorts(Identity, Jobs, Maintained, Defragmented, Protocol):
    """What defragmentation needs of a cluster."""


class MovingError(PaictlError):
    """The moves could not all be made; what was moved stays where it is, and a new plan starts from there."""

    exit_code = ExitCode.PARTIAL


def read_plan(path: Path, cluster: Identity) -> DefragPlan:
    """A plan from a file; raises `PaictlError` if it holds none, or one of another cluster."""
    try:
        plan = plan_from(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PaictlError(text("cannot be read: {strerror}", strerror=error.strerror), where=str(path)) from None
    except (ValueError, RecursionError):  # also lists in lists without end
        raise PaictlError("is not a defragmentation plan", where=str(path), hint=HOW_TO_PLAN) from None
    except PaictlError as error:
        error.where = str(path)
        raise
    if plan.cluster != cluster.name:
        raise ConflictError(
            text("is a plan for cluster {value}, but this is {name}", value=plan.cluster, name=cluster.name),
            where=str(path),
        )
    return plan


def refuse_outrun(cluster: DefragPorts, plan: DefragPlan) -> None:
    """Raise `ConflictError` if the first moves of a plan would not go as planned any more.

    Moves of later rooms are looked at when their turn comes: until then they stand on moves that are not made.
    """
    for room in plan.rooms:
        if room.plan is not None and room.moves:
            _check(cluster, room, [], exactly=True)
            return


def make_room(
    cluster: DefragPorts, plan: DefragPlan, timeout: Millis, moved: Callable[[DefragMove], None] = lambda _: None
) -> None:
    """Make the moves of a plan; `timeout` is how long a gang may take to come back, `moved` is called for each.

    The nodes of the rooms take no new pods meanwhile. Raises `ConflictError` if the cluster has outrun the plan before
    anything was moved, `MovingError` afterwards.
    """
    refuse_other_holds(cluster.windows())
    refuse_outrun(cluster, plan)
    kept: list[str] = []
    done, begun = 0, False
    with _kept(cluster, plan, timeout) as (keep, own):
        try:
            for room in plan.rooms:
                if room.plan is None:
                    continue
                keep(room.plan.nodes)
                for number, move in enumerate(room.moves):
                    # before the first, too: pods may have come before its nodes were kept free
                    refuse_other_holds(cluster.windows(), own)
                    _check(cluster, room, kept, exactly=not done, done=number)
                    if not begun:
                        begun = True
                        _note_plan(cluster, _weights(plan), _span(plan, timeout))
                    _move(cluster, move, timeout)
                    done += 1
                    moved(move)
                kept += room.plan.nodes
        except PaictlError as error:
            if not done and (not begun or isinstance(error, ConflictError)):
                raise
            raise MovingError(
                text(
                    "{done} of {all} gangs were moved: {reason}", done=done, all=len(plan.moves), reason=error.message
                ),
                hint=error.hint or "see what is left to do: paictl cluster defrag plan",
            ) from None
        finally:
            if begun:
                _note_plan(cluster, {}, Millis(0))


def _weights(plan: DefragPlan) -> dict[str, int]:
    """The weight of the moves of a plan by who pays."""
    weights: Counter[str] = Counter()
    for move in plan.moves:
        weights[move.vc] += move.weight
    return dict(weights)


def _span(plan: DefragPlan, timeout: Millis) -> Millis:
    """For how long a plan may be carried out."""
    return Millis(timeout * max(1, len(plan.moves)) + _SLACK)


def _note_plan(cluster: DefragPorts, weights: Mapping[str, int], span: Millis) -> None:
    """Keep what a plan is expected to cost for the metrics, which must not stop it."""
    with suppress(PaictlError):
        cluster.note_plan(weights, span)


def _check(cluster: DefragPorts, room: RoomOutcome, kept: list[str], *, exactly: bool, done: int = 0) -> None:
    assert room.plan is not None  # noqa: S101 - asked before
    why = cluster.outrun(replace(room.plan, moves=room.plan.moves[done:]), kept, exactly=exactly)
    if why:
        raise ConflictError(
            text("the cluster has changed since the plan was made: {reason}", reason=why),
            hint="make a new one: paictl cluster defrag plan",
        )


_Keeping: TypeAlias = tuple[Callable[[tuple[str, ...]], None], Sequence[MaintenanceWindow]]


@contextmanager
def _kept(cluster: DefragPorts, plan: DefragPlan, timeout: Millis) -> Iterator[_Keeping]:
    """Nodes can be kept free of new pods inside; they are given back at the end, or by themselves if that never comes.

    Yields what keeps nodes free, and the windows that do so already.

    Nodes of windows that others add meanwhile are theirs.
    """
    own: list[MaintenanceWindow] = []
    span = _span(plan, timeout)

    def keep(nodes: tuple[str, ...]) -> None:
        if nodes:
            reason = text("kept free for a larger gang (paictl cluster defrag apply)")
            request = WindowRequest(nodes, span, reason=reason, hold=True, beside=tuple(own))
            own.append(cluster.add_window(request))
            if not isinstance(cluster, HandClock):  # its scheduler follows windows, and may not have heard of this one
                time.sleep(NOTICED_AFTER)

    try:
        yield keep, own
    finally:
        for window in own:
            # not by name alone: of a process that slept, windows have ended, and another apply has taken their names
            if any((other.name, other.start) == (window.name, window.start) for other in cluster.windows()):
                cluster.remove_window(window.name)


def _move(cluster: DefragPorts, move: DefragMove, timeout: Millis) -> None:
    """Evict a gang and wait until it runs again, as a whole and with other pods; it may also have ended since."""
    gang = next((gang for gang in cluster.gangs() if gang.key == move.key), None)
    if gang is None or not gang.whole:
        raise ConflictError(
            text("{gang} is not running any more", gang=move.key), hint="make a new plan: paictl cluster defrag plan"
        )
    cluster.evict_gang(gang)
    moved = {uid for uid, _ in gang.pods}
    until = time.monotonic() + timeout / 1000
    while not _is_back(cluster, gang, moved):
        if time.monotonic() >= until:
            with suppress(PaictlError):
                cluster.note_failure(move.vc)
            message = text("{gang} has not come back within {span}", gang=move.key, span=span_text(timeout))
            hint = text("see why it waits: paictl job explain {job}", job=gang.job) if gang.job else "see its pods"
            raise PaictlError(message, hint=hint)
        time.sleep(min(LOOK_EVERY, max(0.0, until - time.monotonic())))


def _is_back(cluster: DefragPorts, gang: GangPods, moved: set[str]) -> bool:
    now = next((pods for pods in cluster.gangs() if pods.key == gang.key), None)
    if now is not None and now.whole and moved.isdisjoint(uid for uid, _ in now.pods):
        return True
    return bool(gang.job) and now is None and cluster.job(gang.job).state.ended


def payers_line(plan: DefragPlan) -> Text:
    """What is lost by tenant, in device hours."""
    lost: dict[str, float] = {}
    for move in plan.moves:
        lost[move.vc] = lost.get(move.vc, 0.0) + move.devices * move.lost / 3_600_000
    return text(
        "work lost by restarts, in device hours: {lost}",
        lost=", ".join(f"{vc} {hours:.2f}" for vc, hours in sorted(lost.items())),
    )


def room_lines(room: RoomOutcome) -> Iterator[Text]:
    """What becomes free, or why nothing does, a line each."""
    wanted = room_name(room)
    if room.plan is None:
        yield _refused(room)
        return
    if not room.moves:
        yield text("{cells}: already free ({where}), nothing to move", cells=wanted, where=listed(room.plan.cells, 4))
    else:
        yield counted(
            "{cells}: free after {count} move ({where})",
            "{cells}: free after {count} moves ({where})",
            len(room.moves),
            cells=wanted,
            where=listed(room.plan.cells, 4),
        )
        if not room.plan.exact:
            yield text("the search was cut short: cheaper moves may exist")
    if not room.plan.starts:
        yield text("a gang that fills these cells would still wait: some of the hardware cannot be used for it")
    elif room.plan.yields:
        yield text("a guaranteed gang that fills them preempts: {gangs}", gangs=listed(room.plan.yields, 4))


def _refused(room: RoomOutcome) -> Text:
    assert room.refusal is not None  # noqa: S101 - there is one or a plan
    wanted, refusal = room_name(room), room.refusal
    match refusal.obstacle:
        case Obstacle.NO_PLACE:
            return text("{cells}: no move frees them, because the moved gangs would have no other place", cells=wanted)
        case Obstacle.UNUSABLE if refusal.fixed:
            return text(
                "{cells}: at most {most} can be made free; these gangs cannot be moved: {gangs}",
                cells=wanted,
                most=refusal.most,
                gangs=listed(refusal.fixed, 4),
            )
        case _:
            return text(
                "{cells}: at most {most} can be made free, because others are bad, reserved or in maintenance",
                cells=wanted,
                most=refusal.most,
            )


def room_name(room: RoomOutcome) -> str:
    """The cells that are asked for."""
    cells = f"{room.number}x{room.cell_type}"
    return text("{cells} of {vc}", cells=cells, vc=room.vc) if room.vc else cells
