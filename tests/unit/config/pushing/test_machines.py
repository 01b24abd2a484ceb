"""Machines put into, and struck off, configuration files; and the promises that break without them."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from paictl.config.pushing.machines import csv_with, csv_without, with_machine, without_machine
from paictl.config.quotas.diff import broken
from paictl.errors import PaictlError

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "machines/cases.yaml").read_text())
LAYOUT = """# mine
machine-sku:
  big: {mem: 4Gi, cpu: {vcore: 2}}
machine-list:
  - hostname: m1
    hostip: 10.0.0.1
    machine-type: big
    pai-master: "true"
  - hostip: 10.0.0.2   # the address stands first
    hostname: w1
    machine-type: big
    pai-worker: "true"
# the end
"""


def services(pools: str, number: int, promises: str = "") -> str:
    hived = f"""physicalCluster:
  skuTypes:
    S: {{gpu: 1, cpu: 1, memory: 100Mi}}
  cellTypes:
    NODE: {{childCellType: S, childCellNumber: 4, isNodeLevel: true}}
    POOL:
      childCellType: NODE
      childCellNumber: {number} # nodes
  physicalCells:
{indent(pools, "  ")}virtualClusters:
{indent(promises or "default: {virtualCells: []}", "  ")}
"""
    return f"hivedscheduler:\n  config: |\n{indent(hived, '    ')}rest-server: {{x: 1}}\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"].replace(" ", "-"))
def test_cells(case: dict[str, Any]) -> None:
    files = {"services-configuration.yaml": services(case["pools"], case["number"])}

    def change() -> dict[str, str]:
        if "remove" in case:
            return without_machine(files, case["remove"])
        return with_machine(files, case["add"], "10.0.0.99", case["like"])

    if "refused" in case:
        with pytest.raises(PaictlError, match=case["refused"]):
            change()
        return
    assert change() == {"services-configuration.yaml": services(case["after"], case["number_after"])}


def test_a_layout_gets_a_machine_and_loses_it_again() -> None:
    files = {"layout.yaml": LAYOUT, "worker.csv": "w1,10.0.0.2"}
    more = with_machine(files, "w2", "10.0.0.3", "w1")
    assert more["worker.csv"] == "w1,10.0.0.2\nw2,10.0.0.3\n"
    added = "  - hostip: 10.0.0.3   # the address stands first\n    hostname: w2\n"
    assert more["layout.yaml"] == LAYOUT.replace("# the end\n", "") + added + (
        '    machine-type: big\n    pai-worker: "true"\n# the end\n'
    )
    assert with_machine(more, "w2", "10.0.0.3", "w1") == more
    assert without_machine(more, "w2") == {"layout.yaml": LAYOUT, "worker.csv": "w1,10.0.0.2\n"}


def test_an_address_is_taken_once() -> None:
    with pytest.raises(PaictlError, match=r"10\.0\.0\.1 is already the address of m1"):
        with_machine({"layout.yaml": LAYOUT}, "w2", "10.0.0.1", "w1")
    with pytest.raises(PaictlError, match="no machine w7"):
        with_machine({"layout.yaml": LAYOUT}, "w2", "10.0.0.3", "w7")


def test_a_list_keeps_what_it_does_not_know() -> None:
    rows = "w1,10.0.0.1\n\nw12,10.0.0.2\n"
    assert csv_without(rows, "w1") == "\nw12,10.0.0.2\n"
    assert csv_with(rows, "w12", "10.9.9.9") == rows


POOL = "- cellType: POOL\n  cellChildren:\n  - cellAddress: w1\n  - cellAddress: w2\n  - cellAddress: w3\n"
PINNED = POOL.replace("  - cellAddress: w3\n", "  - cellAddress: w3\n    pinnedCellId: mine\n")


def words(pools: str, promises: str, name: str) -> list[str]:
    files = {"services-configuration.yaml": services(pools, 3, promises)}
    return [one.words for one in broken(files, without_machine(files, name))]


@pytest.mark.parametrize(
    ("pools", "promises", "said"),
    [
        (POOL, "a: {virtualCells: [{cellType: POOL.NODE, cellNumber: 2}]}", []),
        (
            POOL,
            "a: {virtualCells: [{cellType: POOL.NODE, cellNumber: 2}]}\n"
            "b: {virtualCells: [{cellType: POOL.NODE, cellNumber: 1}]}",
            ["3 cells of type NODE are promised (a 2, b 1), and 2 would be left: 1 too many"],
        ),
        (
            POOL,
            "a: {virtualCells: [{cellType: POOL, cellNumber: 1}]}",
            ["1 cells of type POOL are promised (a), and each would lose devices: 12 devices before, 8 after"],
        ),
        (
            PINNED,
            "a: {pinnedCells: [{pinnedCellId: mine}]}",
            ["this would remove pinned cell mine, which is assigned to a"],
        ),
    ],
)
def test_promises(pools: str, promises: str, said: list[str]) -> None:
    assert words(pools, promises, "w3") == said
