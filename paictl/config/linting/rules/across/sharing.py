"""The section `sharing` against the virtual clusters that there are."""

from __future__ import annotations

from typing import Final

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.models.inventory import virtual_clusters_beside
from paictl.config.reading.kinds import FileKind
from paictl.i18n import listed, text

_KINDS: Final = (
    "budgets", "user-limits", "borrow-limits", "run-times", "backfill", "spares", "min-run-times", "lend-limits",
)  # fmt: skip


@rule("XRF930", "sharing-unknown-vc", ERROR)
def sharing_unknown_vc(bundle: Bundle) -> Findings:
    """An entry of the section `sharing` is for a virtual cluster that the hivedscheduler configuration does not have.

    Why: it has no effect, and the intended virtual cluster is not limited.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        sharing:
          budgets:
          - {vc: vision, device-hours: 5000}

        # hivedscheduler.yaml
        physicalCluster:
          skuTypes: {V100: {gpu: 1, cpu: 8, memory: 65536Mi}}
          cellTypes:
            NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
          - {cellType: NODE, cellAddress: worker2}
        virtualClusters:
          vision:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # services-configuration.yaml
        -  - {vc: vision, device-hours: 5000}
        +  - {vc: vison, device-hours: 5000}
    """
    # Every virtual cluster of an entry that the configuration beside it does not promise anything.
    for document in bundle.of(FileKind.SERVICES):
        known = virtual_clusters_beside(document, bundle)
        for kind in _KINDS if known else ():
            for row in document.top.mapping("sharing").sequence(kind).mappings():
                name = row.text("vc")
                if name is not None and name.text not in known:
                    hint = suggested(name, known, text("name one of: {names}", names=listed(known)))
                    yield Finding(name, text("no virtual cluster {name!r}", name=name.text), *hint)
