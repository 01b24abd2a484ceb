"""The address of a node is no name that a Kubernetes node can have.

Why: A pod is bound to a node by this name. Kubernetes allows lower-case letters, digits, dashes and dots; the kubelet
lowers the host name, so that Worker1 is never found.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -  - {cellType: NODE, cellAddress: worker1}
    +  - {cellType: NODE, cellAddress: Worker_1}
"""

from __future__ import annotations

import re

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, Severity, rule
from paictl.config.models.hived import hived
from paictl.config.reading.nodes import ScalarNode

_FORM = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST = 253


@rule("HVD509", "bad-node-name", ERROR)
def check(document: Document) -> Findings:
    """Each address of a node that breaks the form; a warning for one that looks like a device index."""
    for cell in hived(document).nodes:
        address = cell.address
        if address is None or isinstance(address.value, bool):
            continue
        name = address.text
        if isinstance(address.value, float):
            yield Finding(address, f"node name {name} is read as the number {address.value!r}", f'write "{name}"')
        elif not _FORM.fullmatch(name) or len(name) > _LONGEST:
            hint = "use lower-case letters, digits, dashes and dots, as kubectl get nodes shows the name"
            yield Finding(address, f"{name!r} is no name that a Kubernetes node can have", hint, _lowered(address))
        elif name.isdigit() and address.plain:
            message = f"the {cell.type} cell has the node name {name}, which looks like an index"
            hint = "write the name that kubectl get nodes shows"
            yield Finding(address, message, hint, severity=Severity.WARNING)


def _lowered(address: ScalarNode) -> tuple[Edit, ...]:
    """The repair where only the case is wrong."""
    lower = address.text.lower()
    return renamed(address, lower) if _FORM.fullmatch(lower) else ()
