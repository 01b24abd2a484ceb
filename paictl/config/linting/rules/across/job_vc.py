"""A job is for a virtual cluster that the hivedscheduler configuration does not have.

Why: nobody checks it at submission; the pods wait for a scheduler that does not exist. A job that names none is for
`default`.

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

Fails with::

    # job.yaml
    -defaults: {virtualCluster: vision}
    +defaults: {virtualCluster: visoin}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job_demand import submissions
from paictl.words import listed


@rule("XRF951", "job-unknown-vc", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every job whose VC is unknown."""
    for one in submissions(bundle):
        if one.vc is not None:
            continue
        names = [vc.name for vc in one.cluster.vcs]
        at = one.job.virtual_cluster
        otherwise = f"name one in defaults.virtualCluster: {listed(names)}"
        message = f"there is no virtual cluster {one.vc_name!r}"
        lower = next((name for name in names if at is not None and name.lower() == at.text.lower()), None)
        if at is not None and lower is not None and lower != lower.lower() and at.text == at.text.lower():
            yield Finding(
                at, f"{message}, but {lower!r}", "names of virtual clusters have no capital letters: correct it there"
            )
        elif at is not None:
            yield Finding(at, message, *suggested(at, names, otherwise))
        else:
            place = one.job.top.key("name") or one.job.top
            yield Finding(place, f"{message}, which a job without one is for", otherwise)
