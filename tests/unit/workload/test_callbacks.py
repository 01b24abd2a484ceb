"""The plugin cmd of OpenPAI's runtime: in extras and in prerequisites, before a task's commands and after them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml

from paictl.controller.runtime import commands_script
from paictl.workload.fields import JobError
from paictl.workload.job import Job
from paictl.workload.plugins import KNOWN
from tests.conftest import ROOT

Json = dict[str, Any]

JOB = """\
protocolVersion: 2
name: mnist
type: job
parameters: {place: /data}
prerequisites:
- {name: image, type: dockerimage, uri: "openpai/standard"}
- name: base
  type: data
  plugin: com.microsoft.pai.runtimeplugin.cmd
  callbacks: [{event: taskStarts, commands: [base]}]
- name: set
  type: data
  plugin: com.microsoft.pai.runtimeplugin.cmd
  require: [base]
  callbacks:
  - {event: taskStarts, commands: [fetch <% $parameters.place %>, unpack]}
  - {event: taskSucceeds, commands: [save]}
taskRoles:
  train:
    dockerImage: image
    prerequisites: [set, base]
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
    commands: [run]
  ps:
    dockerImage: image
    resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 0}
    commands: [serve]
deployments:
- {name: d, taskRoles: {train: {preCommands: [pre], postCommands: [post]}}}
defaults: {deployment: d}
extras:
  com.microsoft.pai.runtimeplugin:
  - plugin: cmd
    taskRoles: [train]
    parameters: {callbacks: [{event: taskStarts, commands: [first]}, {event: taskSucceeds, commands: [last]}]}
  - plugin: cmd
    failurePolicy: ignore
    parameters: {callbacks: [{event: taskStarts, commands: [perhaps]}]}
  - {plugin: ssh, parameters: {jobssh: true}}
"""


def commands(job: Json) -> dict[str, tuple[str, ...]]:
    return {role.name: role.commands for role in Job.from_mapping(job).roles}


def test_commands_run_around_those_of_the_task() -> None:
    ignored = "(\nperhaps\n) || true"
    assert commands(yaml.safe_load(JOB)) == {
        "train": ("base", "fetch /data", "unpack", "first", ignored, "pre", "run", "post", "save", "last"),
        "ps": (ignored, "serve"),
    }


def changed(path: str, value: object) -> Json:
    job: Json = yaml.safe_load(JOB)
    inner: Any = job
    *above, last = path.split("/")
    for step in above:
        inner = inner[int(step) if step.isdigit() else step]
    inner[last] = value
    return job


@pytest.mark.parametrize(
    ("path", "value", "where", "said"),
    [
        (
            "prerequisites/2/callbacks",
            [{"event": "taskStart", "commands": ["x"]}],
            "prerequisites[2].callbacks[0].event",
            "no event taskStart",
        ),
        ("prerequisites/2/require", ["bass"], "prerequisites[2].require[0]", "no prerequisite bass"),
        ("taskRoles/train/prerequisites", ["sets"], "taskRoles.train.prerequisites[0]", "no prerequisite sets"),
        ("prerequisites/2/failurePolicy", "never", "prerequisites[2].failurePolicy", "no failure policy never"),
        (
            "prerequisites/2/callbacks",
            [{"event": "taskStarts", "commands": "x"}],
            "prerequisites[2].callbacks[0].commands",
            "expected a list",
        ),
        (
            "extras/com.microsoft.pai.runtimeplugin",
            [{"plugin": "cmd", "parameters": {"callbacks": [{}]}}],
            "extras['com.microsoft.pai.runtimeplugin'][0].parameters.callbacks[0].event",
            "expected a text",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(path: str, value: object, where: str, said: str) -> None:
    with pytest.raises(JobError, match=said) as caught:
        commands(changed(path, value))
    assert caught.value.path == where


def test_prerequisites_that_need_each_other_run_once() -> None:
    job = changed("prerequisites/1/require", ["set"])
    assert commands(job)["train"][:3] == ("base", "fetch /data", "unpack")


def test_a_shell_runs_them_so() -> None:
    job = changed("taskRoles/train/commands", ["echo run"])
    for one in job["prerequisites"][1:]:
        one["callbacks"] = [{"event": "taskStarts", "commands": [f"echo {one['name']}"]}]
    job["deployments"][0]["taskRoles"]["train"] = {"postCommands": ["false"]}
    job["extras"]["com.microsoft.pai.runtimeplugin"][1]["parameters"]["callbacks"][0]["commands"] = ["exit 3"]
    job["extras"]["com.microsoft.pai.runtimeplugin"][0]["parameters"]["callbacks"] = [
        {"event": "taskSucceeds", "commands": ["echo never"]}
    ]
    script = commands_script(commands(job)["train"])
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=10)
    assert (done.returncode, done.stdout.split()) == (1, ["base", "set", "run"]), "after a failure nothing is done"


WORKS = "it does what it says"
PEOPLE = "for people, or for the program that wrote the job"
TOLD = "JOB630 or a rule of its own says that it has no effect"
TOP: Json = {
    "protocolVersion": WORKS,
    "name": WORKS,
    "type": WORKS,
    "version": PEOPLE,
    "contributor": PEOPLE,
    "description": PEOPLE,
    "prerequisites": WORKS,
    "parameters": WORKS,
    "secrets": WORKS,
    "jobRetryCount": WORKS,
    "taskRoles": WORKS,
    "deployments": WORKS,
    "defaults": WORKS,
    "extras": WORKS,
}
PREREQUISITE: Json = {
    "protocolVersion": PEOPLE,
    "name": WORKS,
    "type": WORKS,
    "version": PEOPLE,
    "contributor": PEOPLE,
    "description": PEOPLE,
    "uri": WORKS,
    "auth": WORKS,
    "plugin": WORKS,
    "require": WORKS,
    "callbacks": WORKS,
    "failurePolicy": WORKS,
}
ROLE: Json = {
    "protocolVersion": PEOPLE,
    "instances": WORKS,
    "completion": WORKS,
    "taskRetryCount": WORKS,
    "dockerImage": WORKS,
    "data": WORKS,
    "output": WORKS,
    "script": WORKS,
    "prerequisites": WORKS,
    "extraContainerOptions": WORKS,
    "resourcePerInstance": WORKS,
    "commands": WORKS,
}
EXTRAS: Json = {
    "submitFrom": PEOPLE,
    "gangAllocation": WORKS,
    "maxRunTime": WORKS,
    "checkpointEvery": WORKS,
    "restart": WORKS,
    "saveOnSigterm": WORKS,
    "reservation": WORKS,
    "tags": WORKS,
    "hivedScheduler": WORKS,
    "storages": WORKS,
    "com.microsoft.pai.runtimeplugin": TOLD,
    "jobStatusChangeNotification": TOLD,
}
STORAGE_ITEM: Json = {"name": WORKS, "mountPath": WORKS, "readOnly": WORKS, "share": WORKS}
PLUGIN: Json = {
    "cmd": WORKS,
    "ssh": WORKS,
    "teamwise_storage": WORKS,
    "tensorboard": WORKS,
    "image_checker": WORKS,
    "git": TOLD,
}
HIVED: Json = {
    "jobPriorityClass": WORKS,
    "lazyPreemptionEnable": WORKS,
    "gangReleaseEnable": TOLD,
    "ignoreK8sSuggestedNodes": WORKS,
    "taskRoles": WORKS,
}


def test_of_every_field_of_a_job_it_is_known_whether_it_works() -> None:
    """A new key of the schema has to be decided about: nothing of a job is ignored in silence."""
    schema = json.loads((ROOT / "schemas" / "job.schema.json").read_text(encoding="utf-8"))
    parts = schema["definitions"]
    for known, part in (
        (TOP, schema),
        (PREREQUISITE, parts["prerequisite"]),
        (ROLE, parts["taskRole"]),
        (EXTRAS, parts["extras"]),
        (HIVED, parts["hivedScheduler"]),
        (STORAGE_ITEM, parts["extras"]["properties"]["storages"]["items"]),
    ):
        assert known.keys() == part["properties"].keys()


def test_of_every_plugin_of_openpai_s_runtime_it_is_known_whether_it_works() -> None:
    """`tests/unit/config/linting/test_plugins.py` has what is said about each."""
    assert PLUGIN.keys() == set(KNOWN)
