"""A job wants a pinned cell that its virtual cluster does not have.

Why: HiveD refuses the pods one by one, after the job was accepted.

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
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
        commands: [python3 train.py]
    defaults: {virtualCluster: vision}
    extras:
      hivedScheduler:
        taskRoles:
          train: {pinnedCellId: box}

Fails with::

    # job.yaml
    -      train: {pinnedCellId: box}
    +      train: {pinnedCellId: boxes}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job_demand import submissions
from paictl.words import listed


@rule("XRF953", "job-unknown-pin", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every pinnedCellId that the job's VC does not list."""
    for one in submissions(bundle):
        pins = [promise.pin_id for promise in (one.vc.promises if one.vc else ()) if promise.pin_id]
        for role in one.job.roles.values():
            if one.vc is None or role.pin is None or role.pin.text in pins or one.job.opportunistic:
                continue
            otherwise = f"name one of: {listed(pins)}" if pins else "the virtual cluster has no pinned cells"
            message = f"virtual cluster {one.vc_name!r} has no pinned cell {role.pin.text!r}"
            yield Finding(role.pin, message, *suggested(role.pin, pins, otherwise))
