"""A gang needs more devices than its virtual cluster is promised.

Why: a gang runs within the quota, or, as `oppo`, outside it. The server compares its devices with the quota only while
HiveD answers, and never looks whether its pods fit into whole nodes; the gang waits for ever.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        V100: {gpu: 1, cpu: 8, memory: 65536Mi}
        T4: {gpu: 1, cpu: 4, memory: 32768Mi}
      cellTypes:
        V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
        V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
        T4-NODE: {childCellType: T4, childCellNumber: 2, isNodeLevel: true}
      physicalCells:
      - cellType: V100-POOL
        cellChildren:
        - {cellAddress: v1}
        - {cellAddress: v2}
        - {cellAddress: v3, pinnedCellId: box}
      - {cellType: T4-NODE, cellAddress: t1}
    virtualClusters:
      vision:
        virtualCells:
        - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
        pinnedCells:
        - {pinnedCellId: box}
      default:
        virtualCells:
        - {cellType: T4-NODE, cellNumber: 1}

    # job.yaml
    protocolVersion: 2
    name: mnist
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train:
        instances: 2
        dockerImage: image
        resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
        commands: [python3 train.py]
    defaults: {virtualCluster: vision}

Fails with::

    # job.yaml
    -    instances: 2
    +    instances: 3
    @@
    -    resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
    +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 3}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hived_promises import Promise
from paictl.config.models.job import Job, Role
from paictl.config.models.job_demand import Submission, submissions

_HINT = "ask for less, or set extras.gangAllocation to false if the tasks can start one by one"


@rule("XRF955", "job-gang-too-large", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every gang, group by group, that is too large for each chain of the VC."""
    for one in submissions(bundle):
        if one.clear and one.job.gang and not one.job.opportunistic:
            for roles in _gangs(one.job):
                if all(one.leaf_cells(role) <= one.largest_pod(role) for role in roles):  # else XRF954 says it
                    yield from _too_large(one, roles)


def _gangs(job: Job) -> list[list[Role]]:
    """The roles that are placed together: by affinity group, or all of them where there is no group."""
    groups: dict[str, list[Role]] = {}
    for role in job.roles.values():
        if role.group is not None:
            groups.setdefault(role.group.text, []).append(role)
    return [*groups.values()] if groups else [[*job.roles.values()]]


def _too_large(one: Submission, roles: list[Role]) -> Findings:
    if len({(role.sku and role.sku.text, role.pin and role.pin.text) for role in roles}) > 1:
        return
    pods = {role.key: (role.instances, one.leaf_cells(role)) for role in roles}
    need = sum(number * size for number, size in pods.values())
    by_chain: dict[str, list[Promise]] = {}
    for promise in one.promises_for(roles[0]) if roles else ():
        if promise.chain is not None:
            by_chain.setdefault(promise.chain.name, []).append(promise)
    quota = {name: sum(_leaves(promise) for promise in promises) for name, promises in by_chain.items()}
    if not quota or not need:
        return
    most = max(quota.values())
    names, at = " and ".join(repr(role.name) for role in roles), roles[0].node.key("instances") or roles[0].key
    if need > most:
        room = f"{most} in one chain" if len(quota) > 1 else f"{most}"
        message = f"the gang of {names} needs {need} devices, but {one.vc_name!r} is promised only {room}"
        yield Finding(at, message, _HINT)
        return
    for role in roles:
        number, size = pods[role.key]
        slots = max(sum(_slots(promise, size) for promise in promises) for promises in by_chain.values())
        if 0 < slots < number:
            message = f"only {slots} of {number} pods of {role.name!r} with {size} devices fit into {one.vc_name!r}"
            yield Finding(role.node.key("instances") or role.key, message, _HINT)


def _leaves(promise: Promise) -> int:
    return promise.number * promise.chain.leaves[promise.level] if promise.chain else 0


def _slots(promise: Promise, size: int) -> int:
    """Pods of a size that the promised cells hold, node by node."""
    if promise.chain is None or not size:
        return 0
    node = promise.chain.pod(promise.level)
    return _leaves(promise) // node * (node // size) if node else 0
