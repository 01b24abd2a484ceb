"""Limits of run times: what a job may say, and what its virtual cluster makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.errors import PaictlError
from paictl.workload.fields import JobError
from paictl.workload.job import Job
from paictl.workload.runlimits import limit_of
from paictl.workload.runtimerules import RunTimeRules
from paictl.workload.sharing import read_sharing

HOUR = 3_600_000
RULES: list[dict[str, Any]] = [
    {"vc": "most", "max": "2h"},
    {"vc": "default", "default": 3600, "max": "1d"},
    {"vc": "must", "required": True},
    {"vc": "free"},
]


def job(vc: str, **extras: Any) -> Job:
    return Job.from_mapping(
        {
            "protocolVersion": 2,
            "name": "j",
            "type": "job",
            "defaults": {"virtualCluster": vc},
            "extras": extras,
            "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "x"}],
            "taskRoles": {
                "r": {
                    "dockerImage": "i",
                    "commands": ["true"],
                    "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 1},
                }
            },
        }
    )


@pytest.mark.parametrize(("said", "millis"), [(90, 90_000), ("90", 90_000), ("1h30m", 5_400_000), ("2d", 48 * HOUR)])
def test_a_limit_is_seconds_or_a_duration(said: object, millis: int) -> None:
    assert limit_of(said) == millis
    assert job("free", maxRunTime=said).max_run_time == millis


@pytest.mark.parametrize("said", [0, -1, 0.2, "soon", "infinity", True, [], {}, 1e12])
def test_what_is_no_limit_is_refused_with_the_field(said: object) -> None:
    with pytest.raises(JobError) as refused:
        job("free", maxRunTime=said)
    assert refused.value.path == "extras.maxRunTime"
    assert refused.value.hint


@pytest.mark.parametrize(
    ("vc", "said", "limit"),
    [
        ("most", None, 2 * HOUR),
        ("most", "2h", 2 * HOUR),
        ("most", "1s", 1000),
        ("default", None, HOUR),
        ("default", "1d", 24 * HOUR),
        ("must", "900d", 900 * 24 * HOUR),
        ("free", None, None),
        ("unnamed", None, None),
        ("unnamed", "5m", 300_000),
    ],
)
def test_the_limit_of_a_job_in_its_virtual_cluster(vc: str, said: str | None, limit: int | None) -> None:
    rules = RunTimeRules.read(RULES, "f.yaml")
    assert rules.limited(job(vc, **({} if said is None else {"maxRunTime": said}))).max_run_time == limit


@pytest.mark.parametrize(("vc", "said"), [("most", "2h1s"), ("default", "25h"), ("must", None)])
def test_a_job_that_breaks_a_rule_is_refused_with_the_field_and_what_to_write(vc: str, said: str | None) -> None:
    with pytest.raises(JobError) as refused:
        RunTimeRules.read(RULES, "f.yaml").limited(job(vc, **({} if said is None else {"maxRunTime": said})))
    assert refused.value.path == "extras.maxRunTime"
    assert vc in refused.value.message
    assert refused.value.hint


def test_a_rule_that_is_no_duration_names_file_and_key() -> None:
    with pytest.raises(PaictlError) as refused:
        read_sharing({"run-times": [{"vc": "a"}, {"vc": "b", "max": "much"}]}, "f.yaml: sharing")
    assert refused.value.where == "f.yaml: sharing.run-times, entry 2: max"
