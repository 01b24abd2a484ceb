"""A large hivedscheduler configuration with every device listed: what `make bench` and the speed tests read.

    python tools/make_big_hived.py 1500 > /tmp/h1500.yaml
    python tools/make_big_hived.py 1500 --flat > /tmp/h1500-flat.yaml

By default nodes stand in racks of at most 50 (as many equal racks as come out even); with --flat each node is a top
cell. Three virtual clusters share all nodes, so that the rules have promises to weigh.
"""

from __future__ import annotations

import argparse
import sys

DEVICES = 8
LARGEST_RACK = 50
VCS = ("default", "vision", "speech")


def big_hived(nodes: int, *, flat: bool = False) -> str:
    """The text of a configuration of `nodes` nodes with 8 devices each: some 10 lines a node."""
    size = 1 if flat else next(size for size in range(LARGEST_RACK, 0, -1) if nodes % size == 0)
    path = "NODE" if flat else "RACK.NODE"
    lines = [
        "physicalCluster:",
        "  skuTypes:",
        "    GPU: {gpu: 1, cpu: 8, memory: 65536Mi}",
        "  cellTypes:",
        f"    NODE: {{childCellType: GPU, childCellNumber: {DEVICES}, isNodeLevel: true}}",
        *([] if flat else [f"    RACK: {{childCellType: NODE, childCellNumber: {size}}}"]),
        "  physicalCells:",
    ]
    for node in range(nodes):
        if not flat and node % size == 0:
            lines += ["  - cellType: RACK", "    cellChildren:"]
        lines += (
            ["  - cellType: NODE", f"    cellAddress: node-{node}"] if flat else [f"    - cellAddress: node-{node}"]
        )
        indent = "    " if flat else "      "
        lines.append(f"{indent}cellChildren:")
        lines += [f"{indent}- cellAddress: {device}" for device in range(DEVICES)]
    share = nodes // len(VCS)
    lines.append("virtualClusters:")
    for vc in VCS:
        lines += [f"  {vc}:", "    virtualCells:", f"    - cellType: {path}", f"      cellNumber: {share}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the configuration to standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("nodes", type=int)
    parser.add_argument("--flat", action="store_true", help="each node a top cell")
    arguments = parser.parse_args()
    sys.stdout.write(big_hived(arguments.nodes, flat=arguments.flat))


if __name__ == "__main__":
    main()
