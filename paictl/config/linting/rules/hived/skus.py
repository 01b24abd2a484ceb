"""SKUs, which OpenPAI's own scheduler configuration adds to HiveD's.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, renamed, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_types import guess
from paictl.config.reading.nodes import MappingNode
from paictl.i18n import text

_GOOD = re.compile(r"(\d+)(Ki|Mi|Gi|Ti)?")


_DECIMAL = re.compile(r"(\d+)\s*([KMGT])B?", re.IGNORECASE)


_BYTES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@rule("HVD527", "sku-memory", ERROR)
def sku_memory(document: Document) -> Findings:
    """The memory of a SKU is written in a form that OpenPAI misreads.

    Why: The REST server reads whole numbers of Ki, Mi, Gi or Ti, or of bytes, in quotes. 64G and 500M become 0, 1.5Gi
    becomes 9 MiB, and a bare number stops it at start.

    Fails with::

        # hivedscheduler.yaml
        -    GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
        +    GPU: {gpu: 1, cpu: 8, memory: 64G}
    """
    # Each memory that is not a whole number of MiB or more in a form that is read.
    for entry in hived(document).skus:
        memory = entry.value.scalar("memory") if isinstance(entry.value, MappingNode) else None
        if memory is None or memory.tag == "null":
            continue
        amount = memory.text.strip()
        good = _GOOD.fullmatch(amount)
        if not isinstance(memory.value, str):
            if memory.tag in ("int", "float"):
                message = text(
                    "memory of SKU {sku} is the number {amount}, which stops the REST server",
                    sku=entry.name,
                    amount=amount,
                )
                yield Finding(memory, message, text("add a unit, e.g. {amount}Mi", amount=amount))
        elif good is None:
            yield Finding(
                memory,
                text("memory of SKU {sku} is {amount!r}, which OpenPAI misreads", sku=entry.name, amount=amount),
                _advice(amount),
            )
        elif int(good[1]) * _BYTES[good[2] or ""] < 2**20:
            message = text("memory of SKU {sku} is {amount}, less than 1 MiB", sku=entry.name, amount=amount)
            yield Finding(memory, message, "write what one device gets, e.g. 8192Mi")


def _advice(amount: str) -> str:
    decimal = _DECIMAL.fullmatch(amount)
    if decimal is None:
        return "write a whole number of Mi, e.g. 8192Mi"
    number, unit = decimal[1], decimal[2].upper()
    exact = int(number) * 1000 ** ("KMGT".index(unit) + 1) // 2**20
    return (
        text("write {number}{unit}i, or {exact}Mi if powers of ten are meant", number=number, unit=unit, exact=exact)
        if exact
        else text("write {number}{unit}i", number=number, unit=unit)
    )


@rule("HVD528", "unknown-sku", WARNING)
def unknown_sku(document: Document) -> Findings:
    """The name of a SKU is not the name of a device type.

    Why: The REST server offers it to jobs as skuType, but HiveD has no such devices, so these jobs are refused.

    Fails with::

        # hivedscheduler.yaml
           skuTypes:
        +    V100: {gpu: 1, cpu: 4, memory: 8192Mi}
    """
    # Each SKU that no cell type has as its lowest child.
    model = hived(document)
    devices = model.types.leaves
    if not devices:
        return
    for entry in model.skus:
        if entry.name in devices:
            continue
        message = text("SKU {sku} does not have the name of a device type", sku=entry.name)
        near = guess(entry.name, (name for name in devices if name not in model.skus))
        if near is not None:
            edits = renamed(entry.key, near)
            yield Finding(entry.key, message, text("did you mean {near!r}?", near=near), edits)
        else:
            yield Finding(entry.key, message, text("device types are: {devices}", devices=", ".join(list(devices)[:8])))


@rule("HVD529", "device-without-sku", WARNING)
def device_without_sku(document: Document) -> Findings:
    """A device type has no SKU, although others do.

    Why: Jobs name the SKU, and the REST server converts it into cores and memory: a device type without a SKU cannot
    be requested.

    Fails with::

        # hivedscheduler.yaml
           cellTypes:
        +    T4-NODE: {childCellType: T4, childCellNumber: 4, isNodeLevel: true}
        @@
           physicalCells:
        +  - {cellType: T4-NODE, cellAddress: worker2}
        @@
             virtualCells:
        +    - {cellType: T4-NODE, cellNumber: 1}
    """
    # Each device type in use without SKU, unless a misspelt SKU is meant for it (HVD528).
    model = hived(document)
    if not len(model.skus):
        return
    astray = [entry.name for entry in model.skus if entry.name not in model.types.leaves]
    for name in dict.fromkeys(chain.leaf_type for chain in model.sound_chains):
        at = model.types.leaves.get(name)  # a bare device type as a cell of its own is named nowhere as a child
        if at is not None and name not in model.skus and guess(name, astray) is None:
            yield Finding(
                at,
                text("device type {name} has no SKU", name=name),
                text("add {name} to skuTypes, with its cpu and memory", name=name),
            )


@rule("HVD530", "no-skus", ERROR)
def no_skus(document: Document) -> Findings:
    """The configuration of OpenPAI's scheduler has no SKUs.

    Why: HiveD does not need skuTypes, but OpenPAI's REST server reads them and fails to start without any.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: paiadmin
          default-pai-admin-password: "chosen-when-you-deploy-1"
          jwt-secret: "also-chosen-when-you-deploy"
        hivedscheduler:
          config: |
            physicalCluster:
              skuTypes:
                GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
              cellTypes:
                NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
              physicalCells:
              - {cellType: NODE, cellAddress: worker1}
            virtualClusters:
              default:
                virtualCells:
                - {cellType: NODE, cellNumber: 1}

    Fails with::

        # services-configuration.yaml
        -      skuTypes:
        -        GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
    """
    # The section without SKUs, in service settings (a file for HiveD alone needs none).
    physical = document.top.get("physicalCluster")
    if document.host is None or not isinstance(physical, MappingNode) or "gpuTypes" in physical:
        return
    skus = physical.get("skuTypes")
    at = physical.key("skuTypes") or document.top.key("physicalCluster")
    if at is not None and (skus is None or (isinstance(skus, MappingNode) and not len(skus))):
        yield Finding(at, "physicalCluster has no skuTypes", "add skuTypes with cpu and memory of each device type")


@rule("HVD539", "sku-without-gpu", WARNING)
def sku_without_gpu(document: Document) -> Findings:
    """A SKU gives no devices, and its name does not say that it is for CPUs.

    Why: Jobs of this SKU that ask for a gpu are refused; a SKU of CPU cores alone is fine and best named so.

    Fails with::

        # hivedscheduler.yaml
        -    GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
        +    GPU: {cpu: 8, memory: 65536Mi}
    """
    # Each SKU with neither gpu nor CPU in its name.
    for entry in hived(document).skus:
        spec = entry.value
        if (
            isinstance(spec, MappingNode)
            and spec.get("gpu") is None
            and "cpu" in spec
            and "cpu" not in entry.name.lower()
        ):
            message = text("SKU {sku} has no gpu", sku=entry.name)
            yield Finding(entry.key, message, "add gpu: 1, or put CPU into its name")
