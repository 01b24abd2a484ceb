"""What was submitted can be read back from every kind of cluster, and pages of jobs are the same everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paictl.cluster.interface import ClusterError, Port
from paictl.cluster.jobpages import JobQuery, KeepsJobData, page_of
from tests.contract.conftest import Contract


@pytest.mark.needs(Port.JOBS)
def test_what_a_job_was_submitted_with_is_kept_without_its_secrets(contract: Contract) -> None:
    request = contract.request("one", vc="vc1")
    data = {**request.data, "secrets": {"key": "hunter2-secret"}}
    (job,) = contract.cluster.submit([replace(request, data=data)])
    assert isinstance(contract.cluster, KeepsJobData)
    kept = contract.cluster.job_data(job.key)
    assert (kept["name"], kept["taskRoles"]) == ("one", request.data["taskRoles"])
    assert "hunter2" not in repr(kept)
    with pytest.raises(ClusterError):
        contract.cluster.job_data("ann~nobody")
    page = page_of(contract.cluster, JobQuery(users=frozenset({"ann"}), limit=1))
    assert ([one.key for one in page.jobs], page.total) == (["ann~one"], 1)
