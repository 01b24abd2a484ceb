"""One pod of a job needs more devices than a node gives it.

Why: nobody checks it at submission; the pod waits for ever. CPU cores and memory count too: they are worth as many
devices as they come with (`skuTypes`).

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
        dockerImage: image
        resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
        commands: [python3 train.py]
    defaults: {virtualCluster: vision}
    extras:
      hivedScheduler:
        taskRoles:
          train: {skuType: V100}

Fails with::

    # job.yaml
    -    resourcePerInstance: {cpu: 32, memoryMB: 8192, gpu: 4}
    +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 8}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.job_demand import submissions
from paictl.workload.feasible import Cause


@rule("XRF954", "job-pod-too-large", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every role whose pod fits into no promise of the VC (opportunistic: no node of the cluster)."""
    for one in submissions(bundle):
        where = "the cluster" if one.job.opportunistic else f"virtual cluster {one.vc_name!r}"
        for refusal in one.refusals():
            if refusal.cause is not Cause.POD_TOO_LARGE:
                continue
            need = refusal.shortages[0].needed
            room = max(shortage.available for shortage in refusal.shortages)
            for role in (one.job.roles[name] for name in refusal.roles):
                message = (
                    f"a pod of task role {role.name!r} needs {need} devices, but the largest in {where} has {room}"
                )
                at = role.node.key("resourcePerInstance") or role.key
                yield Finding(at, message, f"ask for no more than {room} devices, or spread the work over instances")
