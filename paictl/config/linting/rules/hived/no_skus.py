"""The configuration of OpenPAI's scheduler has no SKUs.

Why: HiveD does without, but OpenPAI's REST server reads skuTypes and stops at start if there is none.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: paiadmin
      default-pai-admin-password: "chosen-when-you-deploy-1"
      jwt-secret: "also-chosen-when-you-deploy"
    hivedscheduler:
      config: |
        physicalCluster:
          skuTypes:
            GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
          cellTypes:
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

Fails with::

    # services-configuration.yaml
    -      skuTypes:
    -        GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode


@rule("HVD530", "no-skus", ERROR)
def check(document: Document) -> Findings:
    """The section without SKUs, in service settings (a file for HiveD alone needs none)."""
    physical = document.top.get("physicalCluster")
    if document.host is None or not isinstance(physical, MappingNode) or "gpuTypes" in physical:
        return
    skus = physical.get("skuTypes")
    at = physical.key("skuTypes") or document.top.key("physicalCluster")
    if at is not None and (skus is None or (isinstance(skus, MappingNode) and not len(skus))):
        yield Finding(at, "physicalCluster has no skuTypes", "add skuTypes with cpu and memory of each device type")
