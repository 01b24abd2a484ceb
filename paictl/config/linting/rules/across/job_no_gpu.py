"""A job asks for GPUs or cores that come with none of the devices it may get.

Why: such a job never finds a place. Without `skuType` OpenPAI's server reckons with the least of all types of the
virtual cluster: one CPU type makes that 0 GPUs, and every job with a GPU is refused there (a warning; paictl takes it).

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

from paictl.config.linting.rule import ERROR, WARNING, Bundle, Finding, Findings, rule
from paictl.config.models.job import JobRole
from paictl.config.models.job_demand import Submission, submissions

_KEYS = {"gpu": "gpu", "cpu": "cpu", "memory": "memoryMB"}


@rule("XRF956", "job-sku-without-resource", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every amount of what no leaf cell that the role may get brings; a warning where only some of them do."""
    for one in submissions(bundle):
        misfits = {id(role): error.path.rpartition(".")[2] for role, error in one.misfits()}
        for role in one.job.roles.values():
            if id(role) in misfits:
                which = f"type {role.sku.text!r}" if role.sku else f"every type of {one.vc_name!r}"
                yield from _finding(role, misfits[id(role)], f"{which} comes with none")
            else:
                yield from _mixed(one, role)


def _finding(role: JobRole, key: str, why: str) -> Findings:
    asked = role.resources.scalar(key)
    if key in _KEYS.values() and asked is not None:
        message = f"task role {role.name!r} asks for {key}, but {why}"
        yield Finding(asked, message, f"name a skuType with {key} in extras.hivedScheduler.taskRoles")


def _mixed(one: Submission, role: JobRole) -> Findings:
    for resource in one.lacking_somewhere(role):
        why = f"some type of {one.vc_name!r} comes with none, so that OpenPAI refuses the job"
        for finding in _finding(role, _KEYS[resource], why):
            yield Finding(finding.at, finding.message, finding.hint, severity=WARNING)
