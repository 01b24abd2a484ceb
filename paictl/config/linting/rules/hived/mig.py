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

from paictl.cells.spec import MIG_INSTANCES, MOST_INSTANCES
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import Cell
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("HVD541", "mig-leaf-cells", ERROR)
def mig_leaf_cells(document: Document) -> Findings:
    """The leaf cells of a node do not make up whole GPUs of `migInstances` each.

    Why: leaf cell i is instance i % n of GPU i // n. The last GPU would have instances that no cell stands for, or none
    of its leaf cells a GPU.

    Fails with::

        # hivedscheduler.yaml
        -    A100: {childCellType: A100-1G, childCellNumber: 7}
        +    A100: {childCellType: A100-1G, childCellNumber: 6}
    """
    # Each node-level type above MIG instances whose leaf cells are no multiple of migInstances; each type once.
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        instances = model.mig_instances(chain.leaf_type)
        if not instances or not chain.node_level or not chain.countable:
            continue
        name, leaves = chain.types[chain.node_level], chain.leaves[chain.node_level]
        if leaves % instances and name not in seen:
            seen.add(name)
            kind = model.types.by_name[name]
            message = text(
                "a node of type {name} has {leaves} leaf cells, which is not a multiple of migInstances ({instances})",
                name=name, leaves=leaves, instances=instances,
            )  # fmt: skip
            hint = text("each GPU has {instances} leaf cells: correct childCellNumber or migInstances",
                        instances=instances)  # fmt: skip
            yield Finding(kind.spec.get("childCellNumber") or kind.key, message, hint)


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
                    instances=instances, profile=profile.text, slices=slices * instances, most=MOST_INSTANCES,
                )  # fmt: skip
                hint = text("write at most {most} instances, or a smaller profile", most=MOST_INSTANCES // slices)
                yield Finding(profile, message, hint)
        if amount is None or amount.value != 1:
            message = text("SKU {sku} is for MIG instances, so each leaf cell has one device", sku=entry.name)
            yield Finding(amount or entry.key, message, "write gpu: 1")


@rule("HVD543", "mig-mixed-node", ERROR)
def mig_mixed_node(document: Document) -> Findings:
    """A node has MIG instances beside whole GPUs, or beside instances of another size.

    Why: leaf cells are numbered through on the node. What GPU a number belongs to is only known if all GPUs of the node
    are divided alike, and NVIDIA's device plugin offers instances as `nvidia.com/gpu` only then.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: V100-NODE, cellAddress: worker2}
        +  - {cellType: V100-NODE, cellAddress: worker1}
    """
    # Each node cell of a machine that an earlier one divides in another way; shares of cores do not count.
    model = hived(document)
    if not any(model.mig_instances(name) for name in model.types.leaves):
        return
    first: dict[str, Cell] = {}
    for cell in model.nodes:
        leaf = cell.chain.leaf_type
        if not cell.name or leaf in model.types.without_devices:
            continue
        earlier = first.setdefault(cell.name, cell)
        if model.mig_instances(earlier.chain.leaf_type) != model.mig_instances(leaf):
            message = text(
                "node {node} has {leaf_type} beside {other} (line {line}): its GPUs are not divided alike",
                node=cell.name, leaf_type=leaf, other=earlier.chain.leaf_type, line=place_of(earlier.place).line,
            )  # fmt: skip
            yield Finding(cell.address or cell.place, message, "divide all GPUs of a node alike")
