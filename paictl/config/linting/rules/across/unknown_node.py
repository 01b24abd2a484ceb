"""A node of the HiveD configuration is no worker of the cluster.

Why: HiveD waits for a node of that name; as it never joins, its cells stay bad, and the VCs that were promised them
get less than they are told.

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
    +  - {cellType: V100-NODE, cellAddress: pai-worker-3}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.inventory import hived_in, hosts_in, layout_in, misspelt_host, outvoted
from paictl.config.reading.kinds import FileKind


@rule("XRF907", "unknown-node", ERROR)
def check(bundle: Bundle) -> Findings:
    """Each node that neither the layout nor, where there is none, the list of workers names; each name once."""
    cells, (where, workers, others) = hived_in(bundle), _names(bundle)
    if cells is None or not workers:
        return
    nodes = {cell.name: cell.address for cell in reversed(cells.nodes) if cell.address is not None}
    wrong = {name: at for name, at in reversed(nodes.items()) if name.lower() not in workers}
    if len(wrong) == len(nodes) > 2 and not {name.lower() for name in wrong} & others:
        first = next(iter(wrong.values()))
        yield Finding(first, f"none of the {len(wrong)} nodes is in {where}", "these two files are not of one cluster")
        return
    renamed_there = outvoted(bundle)
    for name, at in wrong.items():
        if name.lower() in renamed_there:
            continue  # the host lists have it, too: the layout is wrong (XRF903)
        if name.lower() in others:
            yield Finding(at, f"node {abridged(name)} is no worker in {where}", 'give it pai-worker: "true" there')
        else:
            near = misspelt_host(name, workers)
            edits = renamed(at, near) if near else ()
            hint = f"did you mean {near!r}?" if near else "correct the name, or add the machine there"
            yield Finding(at, f"node {abridged(name)} is not in {where}", hint, edits)


def _names(bundle: Bundle) -> tuple[str, frozenset[str], frozenset[str]]:
    """The file that names the machines, the names of workers in it, and those of other machines."""
    found, hosts = layout_in(bundle), hosts_in(bundle, FileKind.WORKER_CSV)
    if found is not None:
        machines = [machine for machine in found[1].machines if machine.name]
        workers = frozenset(machine.key for machine in machines if machine.has("pai-worker"))
        return found[0].path, workers, frozenset(machine.key for machine in machines) - workers
    document = bundle.only(FileKind.WORKER_CSV)
    if hosts is None or document is None:
        return "", frozenset(), frozenset()
    return document.path, frozenset(host.key for host in hosts.hosts), frozenset()
