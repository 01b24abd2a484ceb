"""Random cluster configurations that are sound, driven by ``pick(n) -> 0..n-1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paictl.cells.quota import shortfall

if TYPE_CHECKING:
    from collections.abc import Callable


def random_config(pick: Callable[[int], int]) -> dict[str, Any]:
    """1 to 4 chains of 2 to 6 levels, unequal fanouts, pins; quotas that fit."""
    types: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    levels_of: list[tuple[list[str], list[int]]] = []
    for chain in range(1 + pick(4)):
        depth = 2 + pick(5)
        names = [f"{'gpu' if chain < 2 else 'tpu'}"]
        fanouts = [0]
        node = 1 + pick(depth - 1)
        for level in range(1, depth):
            name = f"c{chain}-{level}"
            fanout = 1 + pick(2 if depth > 4 else 3) if level > node else 1 + pick(3 if depth > 4 else 4)
            types[name] = {"childCellType": names[-1], "childCellNumber": fanout, "isNodeLevel": level == node}
            names.append(name)
            fanouts.append(fanout)
        levels_of.append((names, fanouts))
        cells += [_physical(f"n{chain}-{top}", names, fanouts, node, depth - 1) for top in range(1 + pick(3))]
    vcs = _virtual(pick, levels_of, cells)
    return {
        "physicalCluster": {"cellTypes": types, "physicalCells": cells},
        "virtualClusters": vcs,
        "lazyPreemptionRecovery": not pick(2),
    }


def _physical(prefix: str, names: list[str], fanouts: list[int], node: int, level: int) -> dict[str, Any]:
    out: dict[str, Any] = {"cellType": names[level]}
    if level == node:
        out["cellAddress"] = prefix
    elif level > node:
        out["cellChildren"] = [
            _physical(f"{prefix}-{i}", names, fanouts, node, level - 1) for i in range(fanouts[level])
        ]
    return out


def _virtual(
    pick: Callable[[int], int], levels_of: list[tuple[list[str], list[int]]], cells: list[dict[str, Any]]
) -> dict[str, Any]:
    """Give cells to VCs as long as they fit."""
    vcs: dict[str, Any] = {f"vc{i}": {"virtualCells": [], "pinnedCells": []} for i in range(1 + pick(3))}
    for names, fanouts in levels_of:
        top = len(names)
        free = [0] * (top + 1)
        free[top] = sum(cell["cellType"] == names[-1] for cell in cells)
        quota = [0] * (top + 1)
        fan = [0, *fanouts]
        tops = [cell for cell in cells if cell["cellType"] == names[-1]]
        for number in range((0, 0, 1, 2)[pick(4)]):  # pin cells, each in a top cell of its own
            if number == len(tops):
                break
            pin, level = f"pin-{names[-1]}-{number}", _pin(pick, tops[number], fanouts, f"pin-{names[-1]}-{number}")
            if not pick(4):
                continue  # nobody's
            for above in range(level, top):  # what it splits is not there as a whole
                free[above] += fan[above + 1] - 1
            free[top] -= 1
            vcs[f"vc{pick(len(vcs))}"]["pinnedCells"].append({"pinnedCellId": pin})
        for _ in range(pick(8)):
            level = 1 + pick(top)
            quota[level] += 1
            if shortfall(free, quota, fan) is not None:
                quota[level] -= 1
                continue
            path = ".".join([names[-1], names[level - 1]]) if level < top else names[-1]
            vcs[f"vc{pick(len(vcs))}"]["virtualCells"].append({"cellType": path, "cellNumber": 1})
    return vcs


def _pin(pick: Callable[[int], int], cell: dict[str, Any], fanouts: list[int], pin: str) -> int:
    """Pin a cell or one below it, down to its devices; returns its level."""
    level = len(fanouts)
    while level > 1 and pick(2):
        children = cell.setdefault("cellChildren", [{} for _ in range(fanouts[level - 1])])
        cell, level = children[pick(len(children))], level - 1
    cell["pinnedCellId"] = pin
    return level
