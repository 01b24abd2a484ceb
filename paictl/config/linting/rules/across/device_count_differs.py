"""A node of the HiveD configuration has another number of devices than its machine.

Why: with more leaf cells than devices, pods are bound to devices that do not exist and fail; with fewer, devices lie
idle (then it is a warning).

Passes::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        V100: {gpu: 1, cpu: 7, memory: 60000Mi}
      cellTypes:
        V100-NODE: {childCellType: V100, childCellNumber: 8, isNodeLevel: true}
      physicalCells:
      - {cellType: V100-NODE, cellAddress: pai-worker-1}
      - {cellType: V100-NODE, cellAddress: pai-worker-2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: V100-NODE, cellNumber: 2}

Fails with::

    # layout.yaml
    -    computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    +    computing-device: {type: nvidia.com/gpu, model: V100, count: 4}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, Severity, rule
from paictl.config.models.inventory import hived_in, node_kinds


@rule("XRF909", "device-count-differs", ERROR)
def check(bundle: Bundle) -> Findings:
    """Each node-level cell type that does not fit the SKU of its machines; machines without devices are left out."""
    cells = hived_in(bundle)
    without_devices = cells.types.without_devices if cells else frozenset()
    for kind in node_kinds(bundle):
        count = kind.sku.device_count
        if not count or count == kind.leaves or kind.chain.leaf_type in without_devices:
            continue
        node_type = kind.chain.types[kind.chain.node_level]
        at = kind.cells[0].address or kind.cells[0].place
        message = (
            f"a {node_type} has {kind.leaves} devices, machines of SKU {kind.sku.name!r} have {count} ({kind.nodes})"
        )
        severity = Severity.ERROR if kind.leaves > count else Severity.WARNING
        yield Finding(at, message, "correct childCellNumber, or the count of the SKU", severity=severity)
