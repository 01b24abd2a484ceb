"""The leaf cells of a node together have more CPU or memory than its machine.

Why: a job that takes all devices of a node asks for the sum; Kubernetes never finds room for it, and it waits for
good.

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

    # hivedscheduler.yaml
    -    V100: {gpu: 1, cpu: 7, memory: 60000Mi}
    +    V100: {gpu: 1, cpu: 9, memory: 60000Mi}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.inventory import NodeKind, hived_in, node_kinds
from paictl.config.reading.nodes import MappingNode
from paictl.units import parse_quantity, shown_bytes


@rule("XRF910", "resources-over-machine", ERROR)
def check(bundle: Bundle) -> Findings:
    """Each resource of skuTypes that, times the leaf cells of a node, is above what the SKU of the machine has."""
    cells = hived_in(bundle)
    worst: dict[int, Finding] = {}
    for kind in node_kinds(bundle):
        if kind.sku.device_count and kind.leaves > kind.sku.device_count:
            continue  # too many devices (XRF909), and their resources with them
        spec = cells.skus.mapping(kind.chain.leaf_type) if cells else None
        for finding in _over(spec, kind) if spec else ():
            worst.setdefault(finding.at.start, finding)
    yield from worst.values()


def _over(spec: MappingNode, kind: NodeKind) -> Findings:
    cpu, vcores, leaves = spec.integer("cpu"), kind.sku.vcores, kind.leaves
    where = f"but machines of SKU {kind.sku.name!r} have"
    at = spec.scalar("cpu")
    if at and cpu and vcores and cpu * leaves > vcores:
        message = f"{leaves} x {cpu} = {cpu * leaves} CPUs a node, {where} {vcores} ({kind.nodes})"
        yield Finding(at, message, f"at most {vcores // leaves} fit")
    at = spec.scalar("memory")
    each, whole = parse_quantity(at.text) if at else None, kind.sku.memory
    if at and each and whole and each.bytes * leaves > whole.bytes:
        message = (
            f"{leaves} x {at.text} = {shown_bytes(each.bytes * leaves)} a node, {where} {shown_bytes(whole.bytes)}"
        )
        yield Finding(at, f"{message} ({kind.nodes})", f"at most {whole.mebibytes // leaves}Mi fit")
