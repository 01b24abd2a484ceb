"""What was submitted can be read back from every kind of cluster, and pages of jobs are the same everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paictl.cluster.interface import ClusterError, JobState, Port
from paictl.cluster.jobpages import ForgetsJobs, JobQuery, KeepsJobData, page_of
from paictl.operate.history import history
from paictl.workload.tags import TagError
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


@pytest.mark.needs(Port.JOBS)
def test_tags_are_submitted_with_a_job_and_changed_whether_it_has_ended_or_not(contract: Contract) -> None:
    request = contract.request("one", vc="vc1")
    (job,) = contract.cluster.submit([replace(request, data={**request.data, "extras": {"tags": ["paper", "sweep"]}})])
    assert job.tags == ("paper", "sweep")
    assert contract.cluster.tag_job(job.key, add=["best"], remove=["paper", "nosuch"]) == ("sweep", "best")
    contract.cluster.stop_job(job.key)
    contract.job_in(job.key, JobState.STOPPED)
    assert contract.cluster.tag_job(job.key, remove=["best"]) == ("sweep",)
    for bad in ("a b", "a,b", ""):
        with pytest.raises(TagError):
            contract.cluster.tag_job(job.key, add=["fine", bad])
    assert contract.again().job(job.key).tags == contract.cluster.jobs()[0].tags == ("sweep",)

    def keys(query: JobQuery) -> list[str]:
        return [one.key for one in page_of(contract.cluster, query).jobs]

    with_tags, without = JobQuery(tags=frozenset({"sweep", "x"})), JobQuery(not_tags=frozenset({"x"}))
    assert keys(with_tags) == keys(without) == [job.key]
    assert keys(JobQuery(tags=frozenset({"best"}))) == keys(JobQuery(not_tags=frozenset({"sweep"}))) == []
    assert contract.cluster.tag_job(job.key, remove=["sweep"]) == ()
    assert contract.again().job(job.key).tags == ()
    with pytest.raises(ClusterError):
        contract.cluster.tag_job("ann~nobody", add=["x"])


@pytest.mark.needs(Port.JOBS)
def test_what_ended_is_a_trace_with_times_tenant_and_sizes(contract: Contract) -> None:
    short = contract.submit("short", seconds=2, instances=2, vc="vc1", priority="oppo")
    contract.pass_time(5)
    contract.job_in(short, JobState.SUCCEEDED)
    contract.job_in(contract.submit("long"), JobState.RUNNING)
    found = history(contract.cluster.jobs(), contract.cluster.name)
    (job,) = found.jobs
    assert (job.id, job.user, job.vc, job.gpus, job.pod, job.share.value) == (
        "ann~short",
        "ann",
        "vc1",
        2,
        1,
        "opportunistic",
    )
    assert 2000 <= job.work <= (2000 if contract.imagined else 30_000)
    assert [row.message for row in found.bad] == ["job ann~long: is running, its duration is not known"]
    if not contract.imagined:
        assert isinstance(contract.cluster, ForgetsJobs)
        assert contract.cluster.jobs_kept() == 30 * 86_400_000
