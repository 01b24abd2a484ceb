"""Hivedscheduler configurations for tests, and the way from a text to its document."""

from __future__ import annotations

from textwrap import dedent

from paictl.config.reading.document import Document
from paictl.config.reading.load import load_memory

RACKS = """
    physicalCluster:
      cellTypes:
        SWITCH: {childCellType: V100, childCellNumber: 2}
        NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
        RACK: {childCellType: NODE, childCellNumber: 2}
      physicalCells:
      - cellType: RACK
        cellChildren:
        - {cellAddress: n1}
        - {cellAddress: n2, pinnedCellId: box}
      - cellType: RACK
        cellChildren:
        - {cellAddress: n3}
        - cellAddress: n4
          cellChildren:
          - cellChildren: [{cellAddress: 7}, {cellAddress: 5}]
          - {pinnedCellId: corner}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: RACK.NODE, cellNumber: 1}
        - {cellType: RACK.NODE.SWITCH, cellNumber: 1}
        pinnedCells:
        - {pinnedCellId: box}
      web:
        pinnedCells:
        - {pinnedCellId: corner}
"""


def document_of(text: str) -> Document:
    """The document of a hivedscheduler.yaml with this text."""
    return next(load_memory({"hivedscheduler.yaml": dedent(text).encode()}).documents)
