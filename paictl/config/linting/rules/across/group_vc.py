"""A group may use a virtual cluster that the hivedscheduler configuration does not have.

Why: when it starts, the server strips unknown virtual clusters from groups, then deletes groups without any, and takes
their users out of them: a typo, or a renamed virtual cluster, destroys grants.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    authentication:
      group-manager:
        group-data-source: basic
        admin-group: {groupname: admins, extension: {acls: {admin: true}}}
        default-group: {groupname: everybody, extension: {acls: {virtualClusters: [default]}}}
        grouplist:
        - groupname: researchers
          extension: {acls: {virtualClusters: [vision]}}
    hivedscheduler:
      config: |
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

Fails with::

    # services-configuration.yaml
    -      extension: {acls: {virtualClusters: [vision]}}
    +      extension: {acls: {virtualClusters: [vison]}}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.services import services_of
from paictl.config.reading.kinds import FileKind
from paictl.words import listed


@rule("XRF957", "group-unknown-vc", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every VC in the acls of a group that the configuration beside it does not promise anything."""
    for document in bundle.of(FileKind.SERVICES):
        known = _virtual_clusters(document, bundle)
        for group in services_of(document).groups if known else ():
            for name in group.acls.sequence("virtualClusters").scalars():
                if name.text not in known:
                    message = f"group {group.name.text!r} may use {name.text!r}, but there is no such virtual cluster"
                    yield Finding(name, message, *suggested(name, known, f"name one of: {listed(known)}"))


def _virtual_clusters(document: Document, bundle: Bundle) -> list[str]:
    """Names of the VCs in the configuration that the settings hold, else in the only one of the bundle."""
    inside = next((one for one in bundle.of(FileKind.HIVED) if one.host is document), None)
    found = inside or bundle.only(FileKind.HIVED)
    return [] if found is None else [entry.name for entry in found.top.mapping("virtualClusters")]
