"""What virtual clusters are promised, against what the cluster has.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        RACK: {childCellType: NODE, childCellNumber: 2}
      physicalCells:
      - cellType: RACK
        cellChildren:
        - {cellAddress: worker1}
        - {cellAddress: worker2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: RACK.NODE, cellNumber: 2}
"""

from __future__ import annotations

import re
from collections import defaultdict

from paictl.cells.quota import Shortfall
from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Finding, Findings, Severity, renamed_part, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_promises import PathFault, PathRole, VirtualCluster
from paictl.config.models.hived_quota import Balance, balances, breaking, shares
from paictl.i18n import counted, joined, text


@rule("HVD523", "unknown-chain", ERROR)
def unknown_chain(document: Document) -> Findings:
    """The path of a virtual cell does not begin with the type of a top cell.

    Why: A path starts with the type of an entry of physicalCells; with any other, HiveD does not start.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: RACK.NODE, cellNumber: 2}
        +    - {cellType: NODE, cellNumber: 2}
    """
    # Each path whose first component is no chain.
    model = hived(document)
    reported = {top.at.text for top in model.tops if top.cell is None}
    for promise in model.promises:
        for fault in promise.faults:
            of_untyped = model.untyped and fault.word in model.types.by_name
            if fault.role is PathRole.CHAIN and model.chains and fault.word not in reported and not of_untyped:
                yield _chain_finding(fault, list(model.chains))


def _chain_finding(fault: PathFault, chains: list[str]) -> Finding:
    edits = renamed_part(fault.at, fault.word, fault.expected) if fault.expected is not None and fault.exact else ()
    if fault.chain is not None:
        message = text(
            "{word} is not the type of a top cell, but lies in {chain}", word=fault.word, chain=fault.chain.name
        )
        hint = (
            text("write {expected}", expected=fault.expected)
            if fault.expected
            else "start with the type of the intended top cell"
        )
        return Finding(fault.at, message, hint, edits)
    shown = ", ".join(chains[:8]) + (", …" if len(chains) > 8 else "")
    dotted = re.sub(r"[/:>]+", ".", fault.word)
    if dotted.partition(".")[0] in chains:
        return Finding(
            fault.at,
            text("no top cell is of the type {word!r}", word=fault.word),
            text("separate the types by dots: {dotted}", dotted=dotted),
        )
    hint = (
        text("did you mean {expected!r}?", expected=fault.expected)
        if fault.expected
        else text("start with one of: {shown}", shown=shown)
    )
    return Finding(fault.at, text("no top cell is of the type {word!r}", word=fault.word), hint, edits)


@rule("HVD524", "wrong-cell-path", ERROR)
def wrong_cell_path(document: Document) -> Findings:
    """A path of a virtual cell does not follow the cell types from parent to child.

    Why: HiveD reads the first and the last name of a path. If the last is not a type of the chain, it stops at
    start. Names in between may be anything, and mislead readers (a warning).

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            SOCKET: {childCellType: GPU, childCellNumber: 2}
            NODE: {childCellType: SOCKET, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: NODE
            cellAddress: worker1
            cellChildren:
            - {cellAddress: 0}
            - {cellAddress: 1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: NODE, cellNumber: 1}
        +    - {cellType: NODE.SOKET, cellNumber: 1}
    """
    # Each component after the first that is not the child type of the one before.
    for promise in hived(document).promises:
        for fault in promise.faults:
            if fault.role is not PathRole.CHAIN and fault.chain is not None:
                yield _path_finding(fault)


def _path_finding(fault: PathFault) -> Finding:
    chain = fault.chain
    assert chain is not None  # noqa: S101 - narrows the type
    below = chain.types[chain.level_of(fault.before) - 1] if chain.level_of(fault.before) > 1 else None
    known = bool(chain.level_of(fault.word))
    works = known or fault.role is PathRole.BETWEEN
    shown = fault.word or text("an empty name")
    if known or below is None:
        message = text(
            "{shown} cannot follow {before} in a path of the chain {chain}",
            shown=shown,
            before=fault.before,
            chain=chain.name,
        )
    else:
        message = text("{shown} is not a cell type of chain {chain}", shown=shown, chain=chain.name)
    if fault.expected is not None:
        hint = (
            text("write {expected}", expected=fault.expected)
            if known
            else text("did you mean {expected!r}?", expected=fault.expected)
        )
    else:
        hint = (
            text("below {before} comes {below}", before=fault.before, below=below)
            if below
            else text("end the path with {before}", before=fault.before)
        )
    edits = renamed_part(fault.at, fault.word, fault.expected) if fault.expected is not None and fault.exact else ()
    return Finding(fault.at, message, hint, edits, Severity.WARNING if works else None)


@rule("HVD525", "quota-exceeds-cluster", ERROR)
def quota_exceeds_cluster(document: Document) -> Findings:
    """Virtual clusters are promised more cells than there are.

    Why: Quotas fit if at every level, from the top of a chain down, the cells that are left after all larger promises
    suffice. A pinned cell counts at its level. HiveD stops at start if they do not.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: RACK.NODE, cellNumber: 2}
        +    - {cellType: RACK.NODE, cellNumber: 3}
    """
    # Each level of a chain whose quotas do not fit, at the promise that is one too many.
    for balance in balances(document):
        for short in balance.shortfalls():
            yield _excess(balance, short)


def _excess(balance: Balance, short: Shortfall) -> Finding:
    kind = balance.chain.types[short.level]
    message = text(
        "chain {chain}, level {level}: {needed} {kind} cells are promised ({shares}), {available}",
        chain=balance.chain.name,
        level=short.level,
        needed=short.needed,
        kind=kind,
        shares=shares(balance, short.level),
        available=counted("{count} is available", "{count} are available", short.available),
    )
    larger = [shares(balance, level, named=True) for level in range(balance.chain.top, short.level, -1)]
    taken = joined(", ", filter(None, larger))
    hint = text("promise {number} fewer, or add cells", number=short.needed - short.available)
    if taken:
        hint = text("{hint}; larger promises come first: {taken}", hint=hint, taken=taken)
    return Finding(breaking(balance, short).number_at, message, hint)


@rule("HVD526", "quota-not-backed", ERROR)
def quota_not_backed(document: Document) -> Findings:
    """The promises fit the numbers of the cell types, but not the actual cells.

    Why: A cell that lists fewer children than its type cannot be promised as a whole, nor can one that holds a pinned
    cell. HiveD does not see that: it starts, and crashes or waits when the promise is to be kept.

    Fails with::

        # hivedscheduler.yaml
        -    - {cellAddress: worker1}
        +    - {cellAddress: worker1, pinnedCellId: box1}
        @@
             - {cellAddress: worker2}
        +  - cellType: RACK
        +    cellChildren:
        +    - {cellAddress: worker3, pinnedCellId: box2}
        +    - {cellAddress: worker4}
        @@
        -    - {cellType: RACK.NODE, cellNumber: 2}
        +    - {cellType: RACK, cellNumber: 1}
        +    pinnedCells:
        +    - {pinnedCellId: box1}
        +    - {pinnedCellId: box2}
    """
    # Each level whose quotas fit by number (else HVD525) but not once incomplete and pinned cells are left out.
    for balance in balances(document):
        if not balance.shortfalls():
            for short in balance.unbacked():
                yield _unbacked(balance, short)


def _unbacked(balance: Balance, short: Shortfall) -> Finding:
    kind = balance.chain.types[short.level]
    reasons: list[str] = []
    if balance.incomplete:
        lists = "{count} cell lists too few children", "{count} cells list too few children"
        reasons.append(counted(*lists, balance.incomplete))
    reasons += [text("pinned cells break up larger ones")] if any(balance.pinned) else []
    message = text(
        "chain {chain}, level {level}: {needed} {kind} cells are promised ({shares}), but only {available} are whole",
        chain=balance.chain.name,
        level=short.level,
        needed=short.needed,
        kind=kind,
        shares=shares(balance, short.level, pinned=False),
        available=short.available,
    )
    hint = text(
        "{reasons}: promise {number} fewer, or add cells",
        reasons=joined(" and ", reasons),
        number=short.needed - short.available,
    )
    return Finding(breaking(balance, short, pinned=False).number_at, message, hint)


@rule("HVD534", "unused-chain", WARNING)
def unused_chain(document: Document) -> Findings:
    """No virtual cluster is promised any cell of a chain.

    Why: Only opportunistic jobs can use these cells, and some versions of HiveD stop at start over such a chain.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            T4-NODE: {childCellType: T4, childCellNumber: 4, isNodeLevel: true}
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: T4-NODE, cellAddress: worker2}
          - {cellType: NODE, cellAddress: worker1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: T4-NODE, cellNumber: 1}
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: T4-NODE, cellNumber: 1}
    """
    # Each chain that no promise leads into; silent while some promise leads nowhere, as it may mean this chain.
    model = hived(document)
    if not model.promises or any(promise.chain is None for promise in model.promises):
        return
    used = {promise.chain.name for promise in model.promises if promise.chain is not None}
    seen: set[str] = set()
    for top in model.tops:
        if top.cell is None:
            continue
        name = top.cell.chain.name
        if name not in used and name not in seen:
            seen.add(name)
            message = text("no virtual cluster is promised a cell of the chain {name}", name=name)
            yield Finding(top.at, message, "promise its cells to a virtual cluster, e.g. to default")


@rule("HVD535", "small-largest-pod", INFO)
def small_largest_pod(document: Document) -> Findings:
    """The largest pod that a virtual cluster can run is smaller than a node.

    Why: Its cells are parts of nodes. A job that asks for all devices of a node in one pod waits forever.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            SOCKET: {childCellType: GPU, childCellNumber: 2}
            NODE: {childCellType: SOCKET, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: NODE
            cellAddress: worker1
            cellChildren:
            - {cellAddress: 0}
            - {cellAddress: 1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # hivedscheduler.yaml
        -    - {cellType: NODE, cellNumber: 1}
        +    - {cellType: NODE.SOCKET, cellNumber: 2}
    """
    # Each virtual cluster and device type of which it has no whole node.
    for vc in hived(document).vcs:
        for device, (largest, node) in _sizes(vc).items():
            if largest < node:
                message = text(
                    "a pod of {vc} can have at most {largest} of the {node} {device} devices of a node",
                    vc=vc.name,
                    largest=largest,
                    node=node,
                    device=device,
                )
                yield Finding(vc.key, message, "promise a whole node if its jobs need one")


def _sizes(vc: VirtualCluster) -> dict[str, tuple[int, int]]:
    """Per device type of a virtual cluster: devices of its largest pod, and of the largest node of the same chains."""
    sizes: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for promise in vc.promises:
        chain = promise.chain
        if chain is not None and chain.countable and chain.node_level and promise.level and promise.number:
            pod, node = sizes[chain.leaf_type]
            sizes[chain.leaf_type] = max(pod, chain.pod(promise.level)), max(node, chain.pod(chain.top))
    return sizes
