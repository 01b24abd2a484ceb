"""A job is bounded by what its cluster can ever hold, before anything is made of each task."""

from __future__ import annotations

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.workload.fields import JobError
from paictl.workload.job import Job
from paictl.workload.pods import LEAST_TASKS, ROUNDS, plan_job
from paictl.workload.supply import Supply


def supply(nodes: int) -> Supply:
    cells = [{"cellType": "NODE", "cellAddress": f"n{number}"} for number in range(nodes)]
    types = {"NODE": {"childCellType": "GPU", "childCellNumber": 8, "isNodeLevel": True}}
    vcs = {"default": {"virtualCells": [{"cellType": "NODE", "cellNumber": nodes}]}}
    physical = {"cellTypes": types, "physicalCells": cells}
    return Supply.from_spec(ClusterSpec.from_mapping({"physicalCluster": physical, "virtualClusters": vcs}))


def job(instances: int, *, gang: bool) -> Job:
    role = {
        "instances": instances,
        "dockerImage": "i",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 1},
        "commands": ["run"],
    }
    return Job.from_mapping(
        {
            "protocolVersion": 2,
            "name": "a",
            "type": "job",
            "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "u"}],
            "taskRoles": {"train": role},
            "extras": {"gangAllocation": gang},
        }
    )


@pytest.mark.parametrize("gang", [True, False])
@pytest.mark.parametrize(("nodes", "most"), [(1, LEAST_TASKS), (20, ROUNDS * 160)])
def test_more_tasks_than_the_cluster_can_work_off_are_refused(nodes: int, most: int, gang: bool) -> None:
    assert plan_job(job(most, gang=gang), supply(nodes), "me").tasks == most
    for number in (most + 1, 10**15):
        with pytest.raises(JobError, match=f"{number:,} tasks") as caught:
            plan_job(job(number, gang=gang), supply(nodes), "me")
        assert caught.value.path == "taskRoles.train.instances"
