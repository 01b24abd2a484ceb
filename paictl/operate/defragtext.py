"""A defragmentation plan in words, for the command line and the portal: what becomes free, and who pays."""

from __future__ import annotations

from collections.abc import Iterator

from paictl.cluster.defrag import DefragPlan, RoomOutcome
from paictl.i18n import Text, counted, listed, text
from paictl.scheduler.defrag import Obstacle


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
            "{cells}: free after {count} move ({where})", "{cells}: free after {count} moves ({where})",
            len(room.moves), cells=wanted, where=listed(room.plan.cells, 4),
        )  # fmt: skip
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
            return text("{cells}: no moves make them free, because the moved gangs find no other place", cells=wanted)
        case Obstacle.UNUSABLE if refusal.fixed:
            return text("{cells}: at most {most} can be made free; these gangs cannot be moved: {gangs}",
                        cells=wanted, most=refusal.most, gangs=listed(refusal.fixed, 4))  # fmt: skip
        case _:
            return text("{cells}: at most {most} can be made free, because others are bad, reserved or in "
                        "maintenance", cells=wanted, most=refusal.most)  # fmt: skip


def room_name(room: RoomOutcome) -> str:
    """The cells that are asked for."""
    cells = f"{room.number}x{room.cell_type}"
    return text("{cells} of {vc}", cells=cells, vc=room.vc) if room.vc else cells
