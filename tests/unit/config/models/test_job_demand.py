"""The arithmetic of OpenPAI's server: what a pod needs in leaf cells, and what a VC has for it."""

from __future__ import annotations

import pytest

from paictl.config.linting.validate import Choice, validate
from paictl.config.models.job_demand import Submission, submissions
from paictl.config.reading.load import load_memory

CLUSTER = """\
physicalCluster:
  skuTypes:
    V100: {gpu: 1, cpu: 8, memory: 65536Mi}
    K80: {gpu: 2, cpu: 6, memory: 32Gi}
    ODD: {gpu: 1, memory: lots}
  cellTypes:
    V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
    V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
    K80-NODE: {childCellType: K80, childCellNumber: 2, isNodeLevel: true}
    ODD-NODE: {childCellType: ODD, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - cellType: V100-POOL
    cellChildren: [{cellAddress: v1}, {cellAddress: v2}, {cellAddress: v3, pinnedCellId: box}]
  - {cellType: K80-NODE, cellAddress: k1}
  - {cellType: ODD-NODE, cellAddress: o1}
virtualClusters:
  mixed:
    virtualCells:
    - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
    - {cellType: K80-NODE, cellNumber: 1}
    pinnedCells: [{pinnedCellId: box}]
  default: {virtualCells: [{cellType: ODD-NODE, cellNumber: 1}]}
"""
JOB = """\
protocolVersion: 2
name: a
type: job
prerequisites: [{name: image, type: dockerimage, uri: some/image}]
taskRoles:
  train:
    instances: %(instances)d
    dockerImage: image
    resourcePerInstance: {cpu: %(cpu)d, memoryMB: %(memory)d, gpu: %(gpu)d}
    commands: [run]
defaults: {virtualCluster: mixed}
extras: {hivedScheduler: {jobPriorityClass: %(priority)s, taskRoles: {train: %(wish)s}}}
"""


def files(wish: str, priority: str = "prod", **amounts: int) -> dict[str, bytes]:
    values = {"instances": 1, "cpu": 0, "memory": 0, "gpu": 0, "wish": wish, "priority": priority, **amounts}
    return {"hivedscheduler.yaml": CLUSTER.encode(), "job.yaml": (JOB % values).encode()}


def submitted(wish: str, priority: str = "prod", **amounts: int) -> Submission:
    (found,) = submissions(load_memory(files(wish, priority, **amounts)).bundles[0])
    return found


@pytest.mark.parametrize(
    ("wish", "amounts", "cells"),
    [
        ("{skuType: V100}", {"gpu": 3}, 3),
        ("{skuType: V100}", {"gpu": 1, "cpu": 8}, 1),
        ("{skuType: V100}", {"gpu": 1, "cpu": 9}, 2),
        ("{skuType: V100}", {"gpu": 1, "memory": 65536}, 1),
        ("{skuType: V100}", {"gpu": 1, "memory": 65537}, 2),
        ("{skuType: K80}", {"gpu": 3}, 2),
        ("{}", {"gpu": 3}, 3),
        ("{}", {"cpu": 8}, 2),
        ("{}", {"memory": 65536}, 2),
        ("{skuType: ODD}", {"gpu": 1, "memory": 65536, "cpu": 64}, 1),
        ("{skuType: NONE}", {"gpu": 4}, 0),
    ],
)
def test_the_largest_demand_rounded_up_counts(wish: str, amounts: dict[str, int], cells: int) -> None:
    one = submitted(wish, "prod", **amounts)
    assert one.leaf_cells(one.job.roles["train"]) == cells


@pytest.mark.parametrize(
    ("wish", "priority", "largest"),
    [
        ("{skuType: V100}", "prod", 4),
        ("{skuType: K80}", "prod", 2),
        ("{skuType: ODD}", "prod", 0),
        ("{skuType: ODD}", "oppo", 2),
        ("{pinnedCellId: box}", "prod", 4),
        ("{pinnedCellId: other}", "prod", 0),
    ],
)
def test_the_largest_pod_is_that_of_the_best_promise(wish: str, priority: str, largest: int) -> None:
    one = submitted(wish, priority)
    assert one.largest_pod(one.job.roles["train"]) == largest


@pytest.mark.parametrize(
    ("wish", "instances", "gpu", "fits"),
    [
        ("{skuType: V100}", 8, 1, True),
        ("{skuType: V100}", 9, 1, False),
        ("{skuType: V100}", 4, 2, True),
        ("{skuType: V100}", 2, 3, True),
        ("{skuType: V100}", 2, 4, True),
        ("{pinnedCellId: box}", 4, 1, True),
        ("{pinnedCellId: box}", 5, 1, False),
        ("{}", 9, 1, False),
    ],
)
def test_a_gang_fits_into_one_chain_node_by_node(wish: str, instances: int, gpu: int, fits: bool) -> None:
    loaded = load_memory(files(wish, instances=instances, gpu=gpu))
    assert (validate(loaded, Choice(select=("XRF954", "XRF955"))).problems == ()) is fits


def test_nothing_is_said_beside_two_configurations_or_none() -> None:
    two = {**files("{}"), "hived2.yaml": CLUSTER.encode()}
    assert submissions(load_memory(two).bundles[0]) == []
    assert submissions(load_memory({"job.yaml": files("{}")["job.yaml"]}).bundles[0]) == []
