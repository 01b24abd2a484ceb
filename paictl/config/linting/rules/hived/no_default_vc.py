"""OpenPAI has no virtual cluster named default.

Why: Jobs that name no virtual cluster go to default, and every new user is granted it.

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
    -      default:
    +      web:
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD538", "no-default-vc", WARNING)
def check(document: Document) -> Findings:
    """The section of virtual clusters without default, in service settings."""
    at = document.top.key("virtualClusters")
    vcs = hived(document).vcs
    if document.host is not None and at is not None and vcs and not any(vc.name == "default" for vc in vcs):
        yield Finding(at, "there is no virtual cluster default", "add one, or name one of the others default")
