"""The contract of named storages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paictl.cluster.interface import ClusterError, ConflictError, Port
from paictl.cluster.storages import Storage
from paictl.workload.fields import JobError
from tests.contract.conftest import Contract

DATA = Storage("contract", "nfs", "10.0.0.9:/data", ("vc1",), read_only=True)


def test_a_storage_is_added_seen_by_others_granted_and_removed(contract: Contract) -> None:
    cluster = contract.cluster
    assert [one.name for one in cluster.storages()] == []
    with pytest.raises(ClusterError, match="no storage 'contract'"):
        cluster.remove_storage("contract")
    cluster.add_storage(DATA)
    try:
        assert list(contract.again().storages()) == [DATA]
        with pytest.raises(ConflictError):
            contract.again().add_storage(DATA)
        assert cluster.grant_storage("contract", ("default",), ("vc1",)).vcs == ("default",)
        assert list(contract.again().storages()) == [replace(DATA, vcs=("default",))]
    finally:
        cluster.remove_storage("contract")
    assert list(contract.again().storages()) == []


@pytest.mark.needs(Port.JOBS)
def test_a_job_gets_what_its_virtual_cluster_may_use_and_all_or_none_are_taken(contract: Contract) -> None:
    cluster = contract.cluster
    cluster.add_storage(DATA)
    try:
        asked = contract.request("asked", vc="vc1", seconds=1)
        wishing = replace(asked, data={**asked.data, "extras": {"storages": [{"name": "contract"}]}})
        with pytest.raises(JobError, match="virtual cluster default has no storage 'contract'") as refused:
            cluster.submit([contract.request("before"), replace(wishing, vc="default")])
        assert refused.value.request == 1
        assert cluster.jobs() == []
        (job,) = cluster.submit([wishing])
        assert job.vc == "vc1"
    finally:
        cluster.remove_storage("contract")
