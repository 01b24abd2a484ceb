"""Real jobs: those of OpenPAI's repository, of HiveD's feature demo and of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cells.spec import ClusterSpec
from paictl.workload.feasible import Cause, Judge
from paictl.workload.job import Job
from paictl.workload.pods import plan_job
from paictl.workload.supply import Supply
from tests.conftest import SHARED
from tests.unit.workload.cases import Json, judge


def files(folder: str) -> list[Any]:
    found = sorted((SHARED / "corpus" / folder).glob("*.yaml"))
    absent = pytest.mark.skip(reason=f"no test material at {SHARED} (set PAICTL_SHARED)")
    return [pytest.param(path, id=path.stem) for path in found] or [pytest.param(None, marks=absent)]


def load_job(path: Path) -> Job:
    return Job.from_mapping(yaml.safe_load(path.read_text(encoding="utf-8")))


def big_cluster() -> Json:
    """Room for every job of the corpus: K80 and M60, the three VCs that the jobs name, a pinned node."""
    cell_types: Json = {}
    physical: list[Json] = []
    for sku, nodes in (("K80", 20), ("M60", 4)):
        cell_types[f"{sku}-NODE"] = {"childCellType": sku, "childCellNumber": 16, "isNodeLevel": True}
        cell_types[f"{sku}-POOL"] = {"childCellType": f"{sku}-NODE", "childCellNumber": nodes}
        children: list[Json] = [{"cellAddress": f"{sku.lower()}-{i}"} for i in range(nodes)]
        physical.append({"cellType": f"{sku}-POOL", "cellChildren": children})
    physical[0]["cellChildren"][0]["pinnedCellId"] = "VC1-K80"
    half = [{"cellType": "K80-POOL.K80-NODE", "cellNumber": 9}, {"cellType": "M60-POOL.M60-NODE", "cellNumber": 2}]
    sku_types = {sku: {"gpu": 1, "cpu": 4, "memory": "8192Mi"} for sku in ("K80", "M60")}
    return {
        "physicalCluster": {"skuTypes": sku_types, "cellTypes": cell_types, "physicalCells": physical},
        "virtualClusters": {
            "cpu": {"virtualCells": [{"cellType": "K80-POOL.K80-NODE", "cellNumber": 1}]},
            "default": {"virtualCells": half},
            "vc1": {"virtualCells": half, "pinnedCells": [{"pinnedCellId": "VC1-K80"}]},
        },
    }


@pytest.fixture(scope="module")
def big() -> Judge:
    spec = ClusterSpec.from_mapping(big_cluster())
    return Judge(spec, Supply.from_spec(spec))


@pytest.mark.parametrize("path", files("jobs"))
def test_every_job_of_the_corpus_becomes_a_plan_that_can_run(path: Path, big: Judge) -> None:
    job = load_job(path)
    plan = plan_job(job, big.supply, "alice")
    assert plan.tasks == len(plan.pods()) == sum(role.instances for role in job.roles)
    assert job.leftovers == ()
    refusal = big.refusal(plan)
    assert refusal is None, refusal.message


@pytest.mark.parametrize("path", files("lab6"))
def test_every_job_of_the_lab_becomes_a_plan(path: Path) -> None:
    job = load_job(path)
    lab = judge("lab")
    refusal = lab.refusal(plan_job(job, lab.supply, "student"))
    # The sixth job is the lab's gang of two, which waits in a VC of one node until the VCs are merged into one.
    if job.name == "job-config-6":
        assert refusal is not None
        assert refusal.cause is Cause.GROUP_TOO_LARGE
    else:
        assert refusal is None


def test_the_demos_pinned_job_has_two_groups(shared: Path, big: Judge) -> None:
    plan = plan_job(load_job(shared / "corpus" / "jobs" / "hived-feature_itc-pin.yaml"), big.supply, "alice")
    assert {group.name: (group.leaf_type, group.pinned_id, group.members) for group, _ in plan.groups} == {
        "alice~itc-pin/vc1nopinned": ("K80", "", ((1, 4),)),
        "alice~itc-pin/vc1pinned": ("", "VC1-K80", ((1, 4),)),
    }


def test_the_demos_lazy_job_is_lazy(shared: Path, big: Judge) -> None:
    path = shared / "corpus" / "jobs" / "hived-feature_itc-intra-lazy-preempt-test.yaml"
    plan = plan_job(load_job(path), big.supply, "alice")
    assert plan.request(plan.roles[0].pod()).lazy_preemption


def test_the_supply_of_every_configuration_of_the_corpus_can_be_read(shared: Path) -> None:
    read = 0
    for path in sorted((shared / "corpus" / "hived").glob("*.yaml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "physicalCluster" in (data or {}):  # one example is all comments
            supply = Supply.from_spec(ClusterSpec.from_mapping(data))
            assert all(supply.vc(name) for name in supply.vcs)
            read += 1
    assert read >= 11
