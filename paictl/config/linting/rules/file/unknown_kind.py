"""It cannot be told which kind of file this is.

Why: nothing but the YAML itself can be checked then. A kind is told by the file's name (`master.csv`,
`services-configuration.yaml`, …) and by keys that only one kind has.

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

    # notes.yaml
    shopping: [milk, bread]
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.kinds import FileKind


@rule("TXT015", "unknown-kind", ERROR)
def check(document: Document) -> Findings:
    """A file that could be read but is of no known kind; in a folder such files are passed over."""
    if document.kind is FileKind.UNKNOWN and document.root is not None:
        kinds = ", ".join(kind.value for kind in FileKind if kind is not FileKind.UNKNOWN)
        yield Finding(document.beginning, "cannot tell what kind of file this is", f"say it with --kind: {kinds}")
