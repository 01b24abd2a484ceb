"""Task roles have the order of the job's file, whichever process looks at the job next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paictl.cluster.embedded import store
from paictl.cluster.interface import FOREVER, JobRequest, JobState
from tests.contract.conftest import Contract, embedded

FAST, SLOW = "sleep 5", "sleep 9"


@pytest.fixture
def three(tmp_path: Path) -> Contract:
    return embedded(tmp_path, "three-tenants")


def request(roles: dict[object, tuple[int, str]], **more: object) -> JobRequest:
    """A job with some task roles: instances and commands of each."""
    data = {
        "protocolVersion": 2,
        "name": "job",
        "type": "job",
        "defaults": {"virtualCluster": "tenanta"},
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "x"}],
        "taskRoles": {
            name: {
                "instances": instances,
                "dockerImage": "i",
                "commands": [command],
                "completion": {"minFailedInstances": 1, "minSucceededInstances": -1},
                "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 64},
            }
            for name, (instances, command) in roles.items()
        },
        **more,
    }
    return JobRequest("ann", data, None, "test", None)


def sorted_json(data: object) -> str:
    return json.dumps(data, sort_keys=True)


@pytest.mark.parametrize("earlier", [False, True], ids=["now", "stored by an earlier version"])
@pytest.mark.parametrize(
    "roles",
    [
        {"worker": (1, FAST), "ps": (1, FAST)},
        {"worker": (1, SLOW), "ps": (1, FAST)},
        {"worker": (2, FAST), "ps": (1, SLOW)},
        {"c": (1, FAST), "a": (1, SLOW), "b": (1, FAST)},
        {"a": (1, FAST), "b": (1, SLOW)},
    ],
)
def test_a_job_ends_with_its_last_task_whatever_its_roles_are_called(
    three: Contract, monkeypatch: pytest.MonkeyPatch, roles: dict[object, tuple[int, str]], *, earlier: bool
) -> None:
    with monkeypatch.context() as patch:
        if earlier:
            patch.setattr(store, "_json", sorted_json)
        three.again().submit([request(roles)])
    wanted = [(name, index) for name, (instances, _) in roles.items() for index in range(instances)]
    assert [(task.role, task.index) for task in three.again().job("ann~job").tasks] == wanted
    three.pass_time(6)
    ends = {task.role: task.state for task in three.again().job("ann~job").tasks}
    assert ends == {
        name: JobState.SUCCEEDED if command == FAST else JobState.RUNNING for name, (_, command) in roles.items()
    }
    three.pass_time(60)
    assert three.again().job("ann~job").state is JobState.SUCCEEDED


@pytest.mark.parametrize("key", [True, 1, 1.5, None])
def test_a_key_that_is_no_word_breaks_nothing(three: Contract, key: object) -> None:
    asked = request({"a": (1, FAST)}, parameters={key: "x", "b": "y"})
    three.again().submit([asked])
    three.pass_time(60)
    assert three.again().job("ann~job").state is JobState.SUCCEEDED


def test_a_job_that_no_controller_has_begun_is_loaded(three: Contract) -> None:
    three.cluster.set_service("frameworkcontroller", running=False)
    three.again().submit([JobRequest("ann", request({"b": (1, FAST), "a": (1, FAST)}).data, None, "test", FOREVER)])
    assert three.again().job("ann~job").state is JobState.WAITING
