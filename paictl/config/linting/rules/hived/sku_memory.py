"""The memory of a SKU is written in a form that OpenPAI misreads.

Why: The REST server reads whole numbers of Ki, Mi, Gi or Ti, or of bytes, in quotes. 64G and 500M become 0, 1.5Gi
becomes 9 MiB, and a bare number stops it at start.

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

Fails with::

    # hivedscheduler.yaml
    -    GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
    +    GPU: {gpu: 1, cpu: 8, memory: 64G}
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.reading.nodes import MappingNode

_GOOD = re.compile(r"(\d+)(Ki|Mi|Gi|Ti)?")
_DECIMAL = re.compile(r"(\d+)\s*([KMGT])B?", re.IGNORECASE)
_BYTES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


@rule("HVD527", "sku-memory", ERROR)
def check(document: Document) -> Findings:
    """Each memory that is not a whole number of MiB or more in a form that is read."""
    for entry in hived(document).skus:
        memory = entry.value.scalar("memory") if isinstance(entry.value, MappingNode) else None
        if memory is None or memory.tag == "null":
            continue
        text = memory.text.strip()
        good = _GOOD.fullmatch(text)
        if not isinstance(memory.value, str):
            if memory.tag in ("int", "float"):
                message = f"memory of SKU {entry.name} is the number {text}, which stops the REST server"
                yield Finding(memory, message, f"add a unit, e.g. {text}Mi")
        elif good is None:
            yield Finding(memory, f"memory of SKU {entry.name} is {text!r}, which OpenPAI misreads", _advice(text))
        elif int(good[1]) * _BYTES[good[2] or ""] < 2**20:
            message = f"memory of SKU {entry.name} is {text}, less than 1 MiB"
            yield Finding(memory, message, "write what one device gets, e.g. 8192Mi")


def _advice(text: str) -> str:
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None:
        return "write a whole number of Mi, e.g. 8192Mi"
    number, unit = decimal[1], decimal[2].upper()
    exact = int(number) * 1000 ** ("KMGT".index(unit) + 1) // 2**20
    return f"write {number}{unit}i, or {exact}Mi if powers of ten are meant" if exact else f"write {number}{unit}i"
