"""Leaf cells that are MIG instances of GPUs.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        A100-1G: {gpu: 1, cpu: 2, memory: 16384Mi, migInstances: 7, migProfile: 1g.10gb}
        V100: {gpu: 1, cpu: 8, memory: 65536Mi}
      cellTypes:
        A100: {childCellType: A100-1G, childCellNumber: 7}
        A100-NODE: {childCellType: A100, childCellNumber: 8, isNodeLevel: true}
        V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: A100-NODE, cellAddress: worker1}
      - {cellType: V100-NODE, cellAddress: worker2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: A100-NODE, cellNumber: 1}
        - {cellType: V100-NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterable

from paictl.cells.spec import MIG_INSTANCES, MOST_INSTANCES
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.hived_cells import MOST_DEVICES, Cell, devices
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("HVD541", "mig-leaf-cells", ERROR)
def mig_leaf_cells(document: Document) -> Findings:
    """The leaf cells of a node do not make up whole GPUs of `migInstances` each.

    Why: leaf cell i is instance i % n of GPU i // n. If a GPU has fewer leaf cells than instances, no one can use
    the rest. If addresses are shifted, containers get instances of another GPU.

    Fails with::

        # hivedscheduler.yaml
        -    A100: {childCellType: A100-1G, childCellNumber: 7}
        +    A100: {childCellType: A100-1G, childCellNumber: 6}
    """
    # Each node by the addresses of its leaf cells, in all chains together. Nodes that list no leaf cells are alike:
    # their types once, as those of which the file lists no node.
    model = hived(document)
    listed: dict[str, bool] = {}
    for cells in _divided_nodes(model):
        plain = len(cells) == 1 and not cells[0].children
        for cell in cells:
            listed[cell.type] = listed.get(cell.type, False) or plain
        if not plain:
            yield from _missing_leaves(cells, model.mig_instances(cells[0].chain.leaf_type))
    seen: set[str] = set()
    for chain in model.sound_chains:
        instances, name = model.mig_instances(chain.leaf_type), chain.types[chain.node_level]
        if not instances or not chain.node_level or not chain.countable or name in seen or not listed.get(name, True):
            continue
        seen.add(name)
        leaves = chain.leaves[chain.node_level]
        if leaves % instances:
            kind = model.types.by_name[name]
            message = text(
                "a node of type {name} has {leaves} leaf cells, which is not a multiple of migInstances ({instances})",
                name=name,
                leaves=leaves,
                instances=instances,
            )
            hint = text(
                "each GPU has {instances} leaf cells: correct childCellNumber or migInstances", instances=instances
            )
            yield Finding(kind.spec.get("childCellNumber") or kind.key, message, hint)


def _divided_nodes(model: HivedConfig) -> Iterable[list[Cell]]:
    """The cells of each node that stand for MIG instances, as many of each GPU."""
    nodes: dict[tuple[str, int], list[Cell]] = {}
    for cell in model.nodes:
        instances = model.mig_instances(cell.chain.leaf_type)
        if instances and cell.name and (not cell.chain.countable or cell.chain.leaves[cell.level] <= MOST_DEVICES):
            nodes.setdefault((cell.name, instances), []).append(cell)
    return nodes.values()


def _missing_leaves(cells: list[Cell], instances: int) -> Findings:
    """The first GPU of a node of which some leaf cells are there and others are not."""
    numbers = {device.number for cell in cells for device in devices(cell)}
    present = {number for number in numbers if number is not None}
    gpus = sorted({number // instances for number in present})
    missing = [
        number for gpu in gpus for number in range(gpu * instances, (gpu + 1) * instances) if number not in present
    ]
    if missing and len(present) == len(numbers):  # what is no device index, another rule reports
        gpu = missing[0] // instances
        message = text(
            "node {node} lacks leaf cells of GPU {gpu}: {missing}",
            node=cells[0].name,
            gpu=gpu,
            missing=", ".join(str(number) for number in missing if number // instances == gpu),
        )
        hint = text(
            "GPU {gpu} has the leaf cells {low} to {high}: list all or none of them",
            gpu=gpu,
            low=gpu * instances,
            high=(gpu + 1) * instances - 1,
        )
        yield Finding(cells[0].address or cells[0].place, message, hint)


@rule("HVD542", "mig-sku", ERROR)
def mig_sku(document: Document) -> Findings:
    """A GPU cannot be divided as the SKU of a leaf cell says.

    Why: a GPU has seven compute slices at most, of which an instance 3g.40gb takes three. A leaf cell is one instance,
    so its SKU has `gpu: 1`; without `migInstances` it would be a whole GPU.

    Fails with::

        # hivedscheduler.yaml
        -    A100-1G: {gpu: 1, cpu: 2, memory: 16384Mi, migInstances: 7, migProfile: 1g.10gb}
        +    A100-1G: {gpu: 1, cpu: 2, memory: 16384Mi, migInstances: 7, migProfile: 3g.40gb}
    """
    # Each SKU with more slices than a GPU has, with a profile alone, or with another number of devices than one.
    model = hived(document)
    for entry in model.skus:
        sku = entry.value
        if not isinstance(sku, MappingNode) or not {MIG_INSTANCES, "migProfile"} & sku.entries.keys():
            continue
        instances, profile, amount = model.mig_instances(entry.name), sku.text("migProfile"), sku.scalar("gpu")
        if profile is not None and MIG_INSTANCES not in sku:
            message = text("SKU {sku} has a MIG profile, but no migInstances", sku=entry.name)
            yield Finding(profile, message, "add migInstances: the number of instances on each GPU")
        elif instances and profile is not None and profile.text[:1].isdigit():
            slices = int(profile.text[:1])
            if slices and slices * instances > MOST_INSTANCES:
                message = text(
                    "{instances} MIG instances {profile} need {slices} compute slices, and a GPU has {most}",
                    instances=instances,
                    profile=profile.text,
                    slices=slices * instances,
                    most=MOST_INSTANCES,
                )
                hint = text("write at most {most} instances, or a smaller profile", most=MOST_INSTANCES // slices)
                yield Finding(profile, message, hint)
        if amount is None or amount.value != 1:
            message = text("SKU {sku} is for MIG instances, so each leaf cell has one device", sku=entry.name)
            yield Finding(amount or entry.key, message, "write gpu: 1")


@rule("HVD543", "mig-mixed-node", ERROR)
def mig_mixed_node(document: Document) -> Findings:
    """A node has MIG instances beside whole GPUs, or beside instances of another size.

    Why: leaf cells are numbered consecutively on the node. The GPU of a number is known only if all GPUs of the
    node are divided alike. NVIDIA's device plugin offers instances as `nvidia.com/gpu` only then, too.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: V100-NODE, cellAddress: worker2}
        +  - {cellType: V100-NODE, cellAddress: worker1}
    """
    # Each node cell of a machine that an earlier one divides in another way; shares of cores do not count, and a SKU
    # without migProfile may have any.
    model = hived(document)
    if not any(model.mig_instances(name) for name in model.types.leaves):
        return
    divisions: dict[str, dict[tuple[int, str], Cell]] = {}
    for cell in model.nodes:
        leaf = cell.chain.leaf_type
        if not cell.name or leaf in model.types.without_devices:
            continue
        division, known = _division(model, leaf), divisions.setdefault(cell.name, {})
        earlier = next((other for key, other in known.items() if not _alike(key, division)), None)
        known.setdefault(division, cell)
        if earlier is not None:
            message = text(
                "node {node} has {leaf_type} beside {other} (line {line}): its GPUs are not divided alike",
                node=cell.name,
                leaf_type=leaf,
                other=earlier.chain.leaf_type,
                line=place_of(earlier.place).line,
            )
            yield Finding(cell.address or cell.place, message, "divide all GPUs of a node alike")


def _division(model: HivedConfig, leaf_type: str) -> tuple[int, str]:
    """How a GPU is divided: the number of its instances (0: not at all), and their profile, if the SKU says it."""
    profile = model.skus.mapping(leaf_type).text("migProfile")
    return model.mig_instances(leaf_type), "" if profile is None else profile.text


def _alike(first: tuple[int, str], second: tuple[int, str]) -> bool:
    return first[0] == second[0] and (not first[1] or not second[1] or first[1] == second[1])
