"""A job asks for GPUs or cores that come with none of the devices it may get.

Why: without `skuType` the server reckons with the least of all types of the virtual cluster: one CPU type makes that 0
GPUs, and every job with a GPU is refused.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        V100: {gpu: 1, cpu: 8, memory: 65536Mi}
        CPU: {gpu: 0, cpu: 1, memory: 4096Mi}
      cellTypes:
        V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
        V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
        CPU-NODE: {childCellType: CPU, childCellNumber: 16, isNodeLevel: true}
      physicalCells:
      - cellType: V100-POOL
        cellChildren:
        - {cellAddress: v1}
        - {cellAddress: v2}
        - {cellAddress: v3, pinnedCellId: box}
      - {cellType: CPU-NODE, cellAddress: c1}
    virtualClusters:
      vision:
        virtualCells:
        - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
        pinnedCells:
        - {pinnedCellId: box}
      default:
        virtualCells:
        - {cellType: CPU-NODE, cellNumber: 1}

    # job.yaml
    protocolVersion: 2
    name: mnist
    type: job
    prerequisites:
    - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
    taskRoles:
      train:
        dockerImage: image
        resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 0}
        commands: [python3 train.py]
    defaults: {virtualCluster: default}

Fails with::

    # job.yaml
    -    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 0}
    +    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.job_demand import submissions


@rule("XRF956", "job-sku-without-resource", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every gpu and cpu above zero where one leaf cell brings none."""
    for one in submissions(bundle):
        for role in one.job.roles.values():
            if role.pin is not None or (role.sku is None and not one.clear):
                continue
            unit = one.unit(role)
            for key in ("gpu", "cpu"):
                asked = role.resources.scalar(key)
                if asked is not None and (role.resources.integer(key) or 0) > 0 and unit.get(key) == 0:
                    which = f"type {role.sku.text!r}" if role.sku else f"some type of {one.vc_name!r}"
                    message = f"task role {role.name!r} asks for {key}, but {which} comes with none"
                    yield Finding(asked, message, f"name a skuType with {key} in extras.hivedScheduler.taskRoles")
