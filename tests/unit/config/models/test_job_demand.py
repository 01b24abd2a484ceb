"""The arithmetic of OpenPAI's server: what a pod needs in leaf cells, and what a VC has for it."""

from __future__ import annotations

import pytest
import yaml

from paictl.cells.spec import ClusterSpec
from paictl.config.linting.validate import Choice, validate
from paictl.config.models.job_demand import submissions
from paictl.config.reading.load import load_memory
from paictl.config.reading.problem import Severity
from paictl.workload.feasible import Judge
from paictl.workload.fields import JobError
from paictl.workload.job import Job
from paictl.workload.pods import plan_job
from paictl.workload.supply import Supply

CLUSTER = """\
physicalCluster:
  skuTypes:
    V100: {gpu: 1, cpu: 8, memory: 65536Mi}
    K80: {gpu: 2, cpu: 6, memory: 32Gi}
    CPU: {cpu: 8, memory: 64Gi}
  cellTypes:
    V100-NODE: {childCellType: V100, childCellNumber: 4, isNodeLevel: true}
    V100-POOL: {childCellType: V100-NODE, childCellNumber: 3}
    K80-NODE: {childCellType: K80, childCellNumber: 2, isNodeLevel: true}
    CPU-NODE: {childCellType: CPU, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - cellType: V100-POOL
    cellChildren: [{cellAddress: v1}, {cellAddress: v2}, {cellAddress: v3, pinnedCellId: box}]
  - {cellType: K80-NODE, cellAddress: k1}
  - {cellType: CPU-NODE, cellAddress: o1}
virtualClusters:
  mixed:
    virtualCells:
    - {cellType: V100-POOL.V100-NODE, cellNumber: 2}
    - {cellType: K80-NODE, cellNumber: 1}
    pinnedCells: [{pinnedCellId: box}]
  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
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


def refused(wish: str, priority: str, amounts: dict[str, int]) -> bool:
    """Whether `job submit` would refuse the job for what it asks for."""
    given = {name: yaml.safe_load(text) for name, text in files(wish, priority, **amounts).items()}
    spec = ClusterSpec.from_mapping(given["hivedscheduler.yaml"])
    supply = Supply.from_spec(spec)
    try:
        plan = plan_job(Job.from_mapping(given["job.yaml"]), supply, "me")
    except JobError:
        return True
    return Judge(spec, supply).refusal(plan) is not None


WISHES = ["{}", "{skuType: V100}", "{skuType: K80}", "{skuType: CPU}", "{skuType: P4}", "{pinnedCellId: box}"]
AMOUNTS: list[dict[str, int]] = [
    {"gpu": 1},
    {"gpu": 3},
    {"gpu": 4},
    {"gpu": 5},
    {"gpu": 8},
    {"cpu": 8},
    {"cpu": 32},
    {"cpu": 33},
    {"cpu": 8, "gpu": 1},
    {"memory": 65536, "gpu": 1},
    {"memory": 262145, "gpu": 1},
    {"gpu": 2, "instances": 3},
    {"gpu": 3, "instances": 3},
    {"gpu": 1, "instances": 8},
    {"gpu": 1, "instances": 9},
    {"gpu": 1, "instances": 10**12},
]


@pytest.mark.parametrize("priority", ["prod", "oppo"])
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("amounts", AMOUNTS, ids=str)
def test_validate_and_submit_say_the_same(wish: str, priority: str, amounts: dict[str, int]) -> None:
    """No error and "can never run", or the other way round: one of them would be a lie."""
    problems = validate(load_memory(files(wish, priority, **amounts))).problems
    errors = {problem.rule for problem in problems if problem.severity is Severity.ERROR}
    assert bool(errors) is refused(wish, priority, amounts), errors


def test_a_sku_without_gpu_is_no_reason_to_forget_the_devices_of_the_others() -> None:
    """The one that had drifted: CPU {cpu: 8}, no gpu, made validate count no devices at all."""
    cluster = CLUSTER.replace("{cellType: K80-NODE, cellNumber: 1}", "{cellType: CPU-NODE, cellNumber: 1}").replace(
        "  default: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}",
        "  default: {virtualCells: [{cellType: K80-NODE, cellNumber: 1}]}",
    )
    given = {**files("{}", gpu=8), "hivedscheduler.yaml": cluster.encode()}
    assert "XRF954" in {problem.rule for problem in validate(load_memory(given)).problems}


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


def test_of_a_gang_only_the_role_with_the_large_pod_is_blamed() -> None:
    given = files("{skuType: V100}", gpu=5)
    role = "dockerImage: image, resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 1}, commands: [run]"
    given["job.yaml"] = given["job.yaml"].replace(b"  train:\n", f"  ps: {{{role}}}\n  train:\n".encode())
    problems = validate(load_memory(given), Choice(select=("XRF954",))).problems
    assert [problem.message.split("'")[1] for problem in problems] == ["train"]
