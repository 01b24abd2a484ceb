"""Plugins of OpenPAI's runtime: what has no effect is reported with its line, and with what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from paictl.workload.job import Job
from tests.unit.config.cases import problems_of

PLUGINS = "com.microsoft.pai.runtimeplugin"
WORKING = ("submitFrom", "gangAllocation", "hivedScheduler", "storages", PLUGINS)
WORKING_PLUGINS = ("cmd", "ssh", "teamwise_storage")
JOB = f"""\
protocolVersion: 2
name: mnist
type: job
prerequisites:
- {{name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}}
taskRoles:
  train:
    dockerImage: image
    resourcePerInstance: {{cpu: 4, memoryMB: 8192, gpu: 1}}
    commands: [python3 train.py]
extras:
  {PLUGINS}:
  - plugin: NAME
"""


def test_a_plugin_without_effect_has_a_remedy() -> None:
    (problem,) = problems_of({"job.yaml": JOB.replace("NAME", "git").encode()})
    assert (problem.rule, problem.place.line, problem.hint) == ("JOB630", 13, "run git clone in commands")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cdm", "did you mean 'cmd'?"),
        ("team_wise_storage", "did you mean 'teamwise_storage'?"),
        ("nonsuch", "name one of: cmd, ssh, tensorboard, teamwise_storage, image_checker, git"),
    ],
)
def test_a_plugin_that_nobody_knows_is_an_error(name: str, hint: str) -> None:
    (problem,) = problems_of({"job.yaml": JOB.replace("NAME", name).encode()})
    assert (problem.rule, problem.place.line, problem.hint) == ("JOB631", 13, hint)


@pytest.mark.parametrize("name", WORKING_PLUGINS)
def test_a_plugin_that_works_is_no_finding(name: str) -> None:
    assert problems_of({"job.yaml": JOB.replace("NAME", name).encode()}) == []


def test_of_every_example_job_each_extra_works(shared: Path) -> None:
    """The job is taken, and nothing of it is left out but `sshbarrier`, which is reported."""
    seen = 0
    for path in sorted((shared / "corpus" / "jobs").glob("*.yaml")):
        data = path.read_bytes()
        job = yaml.safe_load(data)
        assert Job.from_mapping(job).roles
        extras = job.get("extras") or {}
        seen += len(extras) + len(extras.get(PLUGINS) or ())
        silent = {name for name in extras if name not in WORKING}
        silent |= {one["plugin"] for one in extras.get(PLUGINS) or () if one["plugin"] not in WORKING_PLUGINS}
        found = [one for one in problems_of({path.name: data}) if one.rule in ("JOB630", "JOB631", "JOB632", "JOB633")]
        told = [one.message for one in found]
        assert silent == set(), path.name
        assert set(told) <= {"the parameter sshbarrier has no effect here"}, path.name
    assert seen >= 20
