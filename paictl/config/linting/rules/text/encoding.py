r"""The file is not UTF-8 text.

Why: OpenPAI's tools and HiveD read UTF-8 only; other encodings fail or turn names into other names.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails::

    # hivedscheduler.yaml (escaped)
    physicalCluster: {}  # caf\xe9
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity
from paictl.config.reading.yamltree import Trouble

ID = "TXT003"
NAME = "not-utf-8"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """The first byte that is not UTF-8."""
    for mishap in document.mishaps:
        if mishap.trouble is Trouble.ENCODING:
            yield Finding(mishap.at, mishap.detail, "save the file as UTF-8 (iconv -t UTF-8)")
