"""A worker of the layout is in no cell of the HiveD configuration.

Why: HiveD gives out only what its configuration lists: no job ever runs on such a machine.

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
    -  - {cellType: V100-NODE, cellAddress: pai-worker-2}
    @@
    -    - {cellType: V100-NODE, cellNumber: 2}
    +    - {cellType: V100-NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Bundle, Finding, Findings, rule
from paictl.config.models.inventory import hived_in, layout_in, misspelt_host, named_in_cells, outvoted


@rule("XRF908", "worker-without-cell", WARNING)
def check(bundle: Bundle) -> Findings:
    """Each worker that no cell of HiveD is called after; silent where no node is (XRF907)."""
    found, cells = layout_in(bundle), hived_in(bundle)
    if found is None or cells is None:
        return
    nodes = {cell.name.lower() for cell in cells.nodes if cell.address is not None}
    workers = [machine for machine in found[1].with_role("pai-worker") if machine.name is not None]
    known = {machine.key for machine in workers}
    unknown = nodes - known
    if not nodes & known:
        return
    missing = [machine for machine in workers if machine.key not in nodes]
    written = named_in_cells(cells) if missing else set()
    renamed = [id(machine) for machine in outvoted(bundle).values()]
    if len(missing) == sum(cells.node_names.values()) - len(cells.node_names):
        return  # as many nodes stand twice (HVD510): most likely in the place of these
    for machine in missing:
        at = machine.name
        if machine.key in written or id(machine) in renamed:
            continue  # a cell that is not a node, or a name that another rule reports
        if at is not None and misspelt_host(machine.key, unknown) is None:
            message = f"{machine.words} is in no cell, so that no job runs on it"
            yield Finding(at, message, "add it to physicalCells, or remove it")
