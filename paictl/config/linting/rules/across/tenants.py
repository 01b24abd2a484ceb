"""Rules of virtual clusters against the virtual clusters that there are.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    tenants:
      vision: {max-run-time: 7d}

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes: {V100: {gpu: 1, cpu: 8, memory: 65536Mi}}
      cellTypes:
        NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
      - {cellType: NODE, cellAddress: worker2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
      vision:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.hived import hived
from paictl.config.reading.kinds import FileKind
from paictl.words import listed
from paictl.workload.tenants import SECTION


@rule("XRF925", "tenant-unknown", ERROR)
def tenant_unknown(bundle: Bundle) -> Findings:
    """The section `tenants` names a virtual cluster that the scheduler's configuration does not have.

    Why: its rules would apply to no job, and jobs of the virtual cluster that was meant would run without them.

    Fails with::

        # services-configuration.yaml
        -  vision: {max-run-time: 7d}
        +  vison: {max-run-time: 7d}
    """
    services, found = bundle.only(FileKind.SERVICES), bundle.only(FileKind.HIVED)
    if services is None or found is None:
        return
    known = [vc.key.text for vc in hived(found).vcs]
    for entry in services.top.mapping(SECTION):
        if entry.name not in known:
            hint = suggested(entry.key, known, f"the virtual clusters are: {listed(known)}")
            yield Finding(entry.key, f"no virtual cluster {entry.name!r}", *hint)
