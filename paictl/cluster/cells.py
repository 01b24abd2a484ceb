"""The cells of a picture, from what the scheduler's inspection shows."""

from __future__ import annotations

from collections.abc import Mapping

from paictl.cluster.picture import ChainPicture, PromisedCell, PromiseState, VcPicture
from paictl.scheduler.inspection import Inspection, PreassignedStatus


def chain_pictures(seen: Inspection) -> tuple[ChainPicture, ...]:
    """The physical cells, chain by chain."""
    tops = {name: tuple(top for top in seen.tops if top.kind == name) for name in seen.chains}
    return tuple(ChainPicture(name, types, tops[name]) for name, types in seen.chains.items())


def vc_pictures(seen: Inspection, waiting: Mapping[str, int]) -> tuple[VcPicture, ...]:
    """The virtual clusters in order of declaration; `waiting` counts the jobs that wait, by VC."""
    return tuple(
        VcPicture(name, tuple(map(_promise, own)), len(seen.without_guarantee.get(name, ())), waiting.get(name, 0))
        for name, own in seen.vcs.items()
    )


def _promise(top: PreassignedStatus) -> PromisedCell:
    cell = top.cell
    users = tuple(part.job for part in cell.cells() if not part.parts)
    return PromisedCell(
        address=cell.address,
        kind=cell.kind,
        level=cell.level,
        state=PromiseState.USED if any(users) else PromiseState.DOOMED if top.doomed else PromiseState.FREE,
        users=users,
        physical=cell.physical.address if cell.physical else "",
        healthy=cell.healthy,
        pinned=top.pinned,
    )
