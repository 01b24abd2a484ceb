"""The shortfall of a promise is said in the singular and in the plural."""

from __future__ import annotations

import pytest

from paictl.config.linting.validate import validate
from paictl.config.reading.load import load_memory

HIVED = """\
physicalCluster:
  cellTypes:
    NODE: {{childCellType: GPU, childCellNumber: 2, isNodeLevel: true}}
  physicalCells:
{cells}
virtualClusters:
  default:
    virtualCells: [{{cellType: NODE, cellNumber: 4}}]
"""


@pytest.mark.parametrize(("nodes", "said"), [(1, ", 1 is available"), (3, ", 3 are available")])
def test_what_is_available_has_its_verb(nodes: int, said: str) -> None:
    cells = "\n".join(f"  - {{cellType: NODE, cellAddress: n{number}}}" for number in range(nodes))
    report = validate(load_memory({"hived.yaml": HIVED.format(cells=cells).encode()}))
    (found,) = [problem.message for problem in report.problems if problem.rule == "HVD525"]
    assert found.endswith(said)
