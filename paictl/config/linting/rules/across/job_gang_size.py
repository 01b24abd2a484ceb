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
from paictl.config.models.job_demand import Submission, submissions
from paictl.workload.feasible import Cause, Refusal

_HINT = "ask for less, or set extras.gangAllocation to false if the tasks can start one by one"


@rule("XRF955", "job-gang-too-large", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every group of pods, and every gang of groups, that is too large or does not fit into the nodes of the VC."""
    for one in submissions(bundle):
        many = one.too_many()
        if many is not None:
            role, error = many
            yield Finding(role.node.scalar("instances") or role.key, error.message, error.hint)
        for refusal in one.refusals():
            if refusal.cause is not Cause.POD_TOO_LARGE:
                first = one.job.roles[refusal.roles[0]]
                yield Finding(first.node.key("instances") or first.key, _message(one, refusal), _HINT)


def _message(one: Submission, refusal: Refusal) -> str:
    names = " and ".join(map(repr, refusal.roles))
    best = max(refusal.shortages, key=lambda shortage: shortage.available)
    owner = "the cluster" if one.job.opportunistic else repr(one.vc_name)
    if refusal.cause is Cause.DOES_NOT_PACK:
        return f"the gang of {names} needs {best.needed} devices, but not all of its pods fit into the nodes of {owner}"
    room = f"{best.available} in one chain" if len(refusal.shortages) > 1 else f"{best.available}"
    return f"the gang of {names} needs {best.needed} devices, but {owner} is promised only {room}"
