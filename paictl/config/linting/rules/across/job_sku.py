"""A job wants a device type that the cluster, or its virtual cluster, does not have.

Why: the server answers with an internal error that names nothing, or the pods wait for ever. Opportunistic jobs may use
types of other virtual clusters.

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
          train: {skuType: V100}

Fails with::

    # job.yaml
    -      train: {skuType: V100}
    +      train: {skuType: V1000}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.job_demand import submissions
from paictl.words import listed


@rule("XRF952", "job-unknown-sku", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every skuType that is nowhere, or not where the job runs."""
    for one in submissions(bundle):
        everywhere = [*dict.fromkeys((*one.cluster.skus.entries, *one.cluster.types.leaves))]
        for role in one.job.roles.values():
            if role.sku is None:
                continue
            if role.sku.text not in everywhere:
                chain = one.cluster.types.chain(role.sku.text) if role.sku.text in one.cluster.types.by_name else None
                otherwise = f"name one of: {listed(everywhere)}"
                hint, edits = suggested(role.sku, everywhere, otherwise)
                if chain is not None and chain.leaf_type in everywhere:
                    hint, edits = f"{role.sku.text} is a cell type: name its device, {chain.leaf_type}", ()
                yield Finding(role.sku, f"the cluster has no device type {role.sku.text!r}", hint, edits)
            elif one.clear and not one.job.opportunistic and role.sku.text not in one.sku_names:
                message = f"virtual cluster {one.vc_name!r} has no devices of type {role.sku.text!r}"
                hint = f"name one of: {listed(sorted(one.sku_names))}"
                if one.job.virtual_cluster is None:
                    hint = f"{hint}; or name another virtual cluster in defaults.virtualCluster, which is missing"
                yield Finding(role.sku, message, hint)
