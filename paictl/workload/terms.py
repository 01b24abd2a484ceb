"""What the task roles of one affinity group share: the cells they may use, and what a leaf cell gives them.

A group lies in one chain or one pinned cell, so its roles must agree. Where OpenPAI takes the wishes of whichever pod
comes first, roles that contradict each other are refused here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import JobError, suggestion
from paictl.workload.sku import Sku, lacking, smallest
from paictl.workload.supply import Supply, leaf_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paictl.workload.job import Job, TaskRole

_FIELDS: Final = {"gpu": "gpu", "cpu": "cpu", "memory": "memoryMB"}
"""Names of resources in a job."""


@frozen
class Terms:
    """The common ground of a group. `unit` is what one leaf cell gives, at least."""

    unit: Sku
    leaf_type: str = ""
    pinned_id: str = ""
    lazy_preemption: bool = False
    ignore_suggested: bool = True


def agree(job: Job, supply: Supply, roles: Sequence[TaskRole]) -> Terms:
    """The terms on which `roles` form one group; raises `JobError` naming the field."""
    pinned_id = _common_pin(roles)
    sku_type = _common_sku_type(roles)
    if pinned_id is not None:
        unit, leaf_type = _pinned(job, supply, roles, pinned_id), ""
    elif sku_type is not None:
        unit, leaf_type = _named(job, supply, roles, sku_type), sku_type
    else:
        unit, leaf_type = _any(job, supply, roles)
    return Terms(
        unit=unit,
        leaf_type=leaf_type,
        pinned_id=pinned_id or "",
        lazy_preemption=roles[0].wishes.lazy_preemption,  # flags of the job, the same for all roles
        ignore_suggested=roles[0].wishes.ignore_suggested,
    )


def _wish(role: TaskRole, key: str) -> str:
    return f"extras.hivedScheduler.taskRoles.{role.name}.{key}"


def _common_pin(roles: Sequence[TaskRole]) -> str | None:
    first, *others = roles
    for role in others:
        if role.wishes.pinned_id != first.wishes.pinned_id:
            raise _contradiction(role, first, "pinnedCellId")
    return first.wishes.pinned_id


def _common_sku_type(roles: Sequence[TaskRole]) -> str | None:
    """The SKU of a group. In a group that the user named all must name it, as in OpenPAI; in the default group
    (of which the user may not know) roles without a wish go along with the others."""
    first: TaskRole | None = None
    for role in roles:
        if role.wishes.sku_type is None and role.wishes.affinity_group is None:
            continue
        if first is not None and role.wishes.sku_type != first.wishes.sku_type:
            raise _contradiction(role, first, "skuType")
        first = role
    return first.wishes.sku_type if first is not None else None


def _contradiction(role: TaskRole, first: TaskRole, key: str) -> JobError:
    field = {"skuType": "sku_type", "pinnedCellId": "pinned_id"}[key]
    ours, theirs = getattr(role.wishes, field), getattr(first.wishes, field)
    return JobError(
        _wish(role, key),
        text(
            "is {ours}, but task role {role} of the same affinity group has {theirs}",
            ours=ours or text("not given"),
            role=first.name,
            theirs=theirs or text("none"),
        ),
        hint="give both the same, or each its own affinityGroupName",
    )


def _pinned(job: Job, supply: Supply, roles: Sequence[TaskRole], pinned_id: str) -> Sku:
    path = _wish(roles[0], "pinnedCellId")
    if job.opportunistic:
        raise JobError(
            path, text("an opportunistic job cannot use a pinned cell"), hint=text("use the class test or prod")
        )
    view = supply.pinned(job.vc, pinned_id)
    if view is None:
        pins = suggestion(pinned_id, supply.pins(job.vc), "its pinned cells")
        raise JobError(
            path, text("virtual cluster {vc} has no pinned cell {name}", vc=job.vc, name=pinned_id), hint=pins
        )
    if view.leaf_type not in supply.skus:
        raise _undeclared((view.leaf_type,))
    return _sufficient(view.leaf_type, supply.skus[view.leaf_type], roles)


def _named(job: Job, supply: Supply, roles: Sequence[TaskRole], sku_type: str) -> Sku:
    path = _wish(next(role for role in roles if role.wishes.sku_type is not None), "skuType")
    present = leaf_types(supply.chains)
    if sku_type not in present:
        raise JobError(
            path,
            text("unknown skuType {name}", name=sku_type),
            hint=suggestion(sku_type, present, "SKUs of the cluster"),
        )
    if sku_type not in supply.skus:
        raise _undeclared((sku_type,))
    own = leaf_types(supply.views(job.vc, opportunistic=job.opportunistic))
    if sku_type not in own:
        hint = suggestion(sku_type, own, "its SKUs")
        raise JobError(
            path, text("virtual cluster {vc} has no cells of skuType {name}", vc=job.vc, name=sku_type), hint=hint
        )
    return _sufficient(sku_type, supply.skus[sku_type], roles)


def _any(job: Job, supply: Supply, roles: Sequence[TaskRole]) -> tuple[Sku, str]:
    """The least that any SKU of the VC gives, and the SKU to be kept to, empty if all will do.

    A spec can name one SKU or none. So if some SKUs lack what the group needs, it is kept to the one of the others
    of which there is most (ties: the first in the configuration).
    """
    present = leaf_types(supply.views(job.vc, opportunistic=job.opportunistic))
    if not present:
        raise _no_cells(job, supply)
    declared = {name: supply.skus[name] for name in present if name in supply.skus}
    if not declared:
        raise _undeclared(present)
    usable = {name: sku for name, sku in declared.items() if not any(lacking(sku, role.resources) for role in roles)}
    if not usable:
        raise _shortcomings(*next(iter(declared.items())), roles)[0]
    if len(usable) == len(present):
        return smallest(list(usable.values())), ""
    best = max(usable, key=lambda name: present[name])
    return usable[best], best


def _sufficient(name: str, sku: Sku, roles: Sequence[TaskRole]) -> Sku:
    """`sku`, if it has something of all that the roles ask for."""
    for error in _shortcomings(name, sku, roles):
        raise error
    return sku


def _shortcomings(name: str, sku: Sku, roles: Sequence[TaskRole]) -> list[JobError]:
    """What the roles ask for and the SKU has nothing of."""
    return [
        JobError(
            f"taskRoles.{role.name}.resourcePerInstance.{_FIELDS[resource]}",
            text(
                "asks for {amount}, but SKU {name} has no {resource}",
                amount=getattr(role.resources, resource),
                name=name,
                resource=resource,
            ),
            hint="name another skuType, or ask the administrator",
        )
        for role in roles
        for resource in lacking(sku, role.resources)
    ]


def _no_cells(job: Job, supply: Supply) -> JobError:
    pins = supply.pins(job.vc)
    hint = (
        text("name one of them as pinnedCellId: {names}", names=", ".join(pins))
        if pins
        else "ask the administrator for cells"
    )
    what = "only pinned cells" if pins else "no cells"
    return JobError("defaults.virtualCluster", text("virtual cluster {vc} has {what}", vc=job.vc, what=what), hint=hint)


def _undeclared(types: Mapping[str, int] | tuple[str, ...]) -> JobError:
    return JobError(
        "defaults.virtualCluster",
        text("the cluster does not say what a leaf cell of {types} gives", types=", ".join(types)),
        hint="add it to physicalCluster.skuTypes",
    )
