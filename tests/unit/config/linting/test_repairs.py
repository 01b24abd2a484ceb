"""Repairs never guess: not across numbers, not to what is another tenant's, and a second run finds nothing to do."""

from __future__ import annotations

import pytest

from paictl.config.linting.fix import fix
from paictl.config.linting.rule import same_numbers
from paictl.config.reading.load import load_memory
from tests.unit.config.cases import Case, all_cases

HIVED = """\
physicalCluster:
  skuTypes:
    V100: {gpu: 1, cpu: 4, memory: 8192Mi}
  cellTypes:
    V100-NODE-4: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
    P100-NODE: {childCellType: V100, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: V100-NODE-4, cellAddress: node-1, pinnedCellId: vision-box}
  - {cellType: V100-NODE-4, cellAddress: node-2, pinnedCellId: 'VC2-K80 '}
  - {cellType: P100-NODE, cellAddress: node-3}
virtualClusters:
  default:
    virtualCells:
    - {cellType: P100-NODE, cellNumber: 1}
  vision:
    pinnedCells:
    - {pinnedCellId: vision-box}
"""
LAYOUT = """\
machine-sku:
  master: {mem: 60Gi, cpu: {vcore: 24}}
  v100-x4: {computing-device: {type: nvidia.com/gpu, model: V100, count: 4}, mem: 220Gi, cpu: {vcore: 24}}
machine-list:
- {hostname: m0, hostip: 10.0.0.1, machine-type: master, pai-master: "true"}
- {hostname: w1, hostip: 10.0.0.2, machine-type: v100-x4, pai-worker: "true"}
"""


def repaired(text: str, name: str = "hivedscheduler.yaml") -> str:
    (file,) = fix(load_memory({name: text.encode()})).files
    return file.after.decode()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("{cellType: V100-NODE-4, cellAddress: node-1,", "{cellType: V100-NODE-8, cellAddress: node-1,"),
        ("{cellType: P100-NODE, cellNumber", "{cellType: P101-NODE, cellNumber"),
        ("{cellType: P100-NODE, cellNumber", "{cellType: A100-NODE, cellNumber"),
        ("{cellType: P100-NODE, cellNumber", "{cellType: P100-NODE.V10, cellNumber"),
        ("{pinnedCellId: vision-box}", "{pinnedCellId: vision-box2}"),
        ("  vision:\n", "  other: {pinnedCells: [{pinnedCellId: visoin-box}]}\n  vision:\n"),
    ],
)
def test_a_cell_of_another_number_or_tenant_is_never_put_in(right: str, wrong: str) -> None:
    assert right in HIVED
    text = HIVED.replace(right, wrong)
    assert repaired(text) == text


def test_a_machine_gets_no_other_hardware() -> None:
    text = LAYOUT.replace("machine-type: v100-x4", "machine-type: v100-x8")
    assert repaired(text, "layout.yaml") == text


def test_an_obvious_slip_is_repaired() -> None:
    assert repaired(HIVED.replace("cellType: P100-NODE, cellNumber", "cellType: P100-NDOE, cellNumber")) == HIVED
    assert repaired(HIVED.replace("- {pinnedCellId: vision-box}", "- {pinnedCellId: visoin-box}")) == HIVED


def test_a_name_is_written_so_that_it_is_read_back() -> None:
    once = repaired(HIVED.replace("- {pinnedCellId: vision-box}", "- {pinnedCellId: VC2-K80}"))
    assert 'pinnedCellId: "VC2-K80 "' in once
    assert repaired(once) == once


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_a_second_run_repairs_nothing(case: Case) -> None:
    once = {file.path: file.after for file in fix(load_memory(case.files)).files}
    twice = {file.path: file.after for file in fix(load_memory(once)).files}
    assert twice == once


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("worker-1", "worekr-1", True),
        ("worker-01", "worker-1", True),
        ("worker-1", "worker-2", False),
        ("V100-NODE", "v100-nde", True),
        ("V100-NODE", "A100-NODE", False),
        ("node", "nodes", True),
        ("node", "node-1", False),
    ],
)
def test_names_that_differ_in_letters_alone(one: str, other: str, same: bool) -> None:
    assert same_numbers(one, other) is same
