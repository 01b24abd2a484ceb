"""Reading jobs: what is understood, what is refused and where."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.workload.fields import JobError
from paictl.workload.job import Completion, HivedExtras, Job, Resources
from paictl.workload.template import MOST_EXPANDED, Leftover, Values
from tests.unit.workload.cases import Json, complete_job


def test_defaults() -> None:
    data = complete_job()
    job = Job.from_mapping(data)
    role = job.roles[0]
    assert (job.name, job.vc, job.priority_class, job.priority, job.retry_count) == ("job", "default", "test", 10, 0)
    assert job.gang
    assert not job.opportunistic
    assert (role.name, role.instances, role.image, role.retry_count) == ("w", 1, "openpai/standard", 0)
    assert role.resources == Resources(gpu=1, cpu=1, memory=1024)
    assert role.completion == Completion(1, 1)
    assert role.wishes == HivedExtras()


def test_roles_keep_the_order_of_the_file() -> None:
    job = Job.from_mapping(complete_job({"taskRoles": {"z": {}, "a": {}, "m": {}}}))
    assert [role.name for role in job.roles] == ["z", "a", "m"]


def test_null_means_not_given() -> None:
    wishes = {"skuType": None, "pinnedCellId": None, "affinityGroupName": None, "skuNum": 4}
    job = Job.from_mapping(complete_job({"extras": {"hivedScheduler": {"taskRoles": {"w": wishes}}}}))
    assert job.roles[0].wishes == HivedExtras()


def test_commands_come_between_those_of_the_default_deployment() -> None:
    around = {"preCommands": ["pre <% $parameters.x %> "], "postCommands": ["sleep 10"]}
    patch = {
        "parameters": {"x": 1},
        "deployments": [{"name": "e", "taskRoles": {"w": {}}}, {"name": "d", "taskRoles": {"w": around}}],
        "defaults": {"deployment": "d"},
    }
    assert Job.from_mapping(complete_job(patch)).roles[0].commands == ("pre 1", "python train.py", "sleep 10")


TEMPLATES: Json = {
    "parameters": {"n": 3, "f": 1.0, "yes": True, "deep": {"er": "x"}, "none": None, "list": [7, 8]},
    "secrets": {"password": "hunter2", "nested": {"key": "hunter3"}},
    "prerequisites": [
        {"name": "cifar", "type": "data", "uri": ["https://a", "https://b"]},
        {"name": "model", "type": "output", "uri": "hdfs://c"},
    ],
}


def rendered(command: str, **options: bool) -> tuple[str, tuple[Leftover, ...]]:
    role = {"commands": [command], "data": "cifar", "output": "model"}
    job = Job.from_mapping(complete_job(TEMPLATES | {"taskRoles": {"w": role}}), **options)
    return job.roles[0].commands[0], job.leftovers


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("a <% $parameters.n %> b", "a 3 b"),
        ("<%$parameters.f%><%\n $parameters.yes\n%>", "1true"),
        ("<% $parameters.deep.er %> <% $parameters.list[1] %>", "x 8"),
        ("<% $data.name %> <% $data.uri[0] %> <% $output.uri %>", "cifar https://a hdfs://c"),
        ("login <% $secrets.password %> <% $secrets.nested.key %>", "login ****** ******"),
    ],
)
def test_templates_are_filled_in(command: str, text: str) -> None:
    assert rendered(command) == (text, ())


@pytest.mark.parametrize(
    "template",
    [
        "<% $parameters.missing %>",
        "<% $parameters.none %>",
        "<% $parameters.deep %>",
        "<% $parameters.list[2] %>",
        "<% $parameters.n[0] %>",
        "<% $script.name %>",
        "<% $other.x %>",
        "<% nonsense %>",
        "<% $secrets.missing %>",
    ],
)
def test_what_names_nothing_stays_and_is_named(template: str) -> None:
    assert rendered(f"x {template} y") == (f"x {template} y", (Leftover("taskRoles.w.commands[0]", template),))


def test_secrets_are_revealed_only_on_request() -> None:
    assert rendered("<% $secrets.password %>", reveal_secrets=True)[0] == "hunter2"
    job = Job.from_mapping(complete_job(TEMPLATES | {"taskRoles": {"w": {"commands": ["<% $secrets.password %>"]}}}))
    assert "hunter" not in repr(job)


ROLE: Json = complete_job()["taskRoles"]["w"]


def role(**changes: Any) -> Json:
    return {"taskRoles": {"w": ROLE | changes}}


def hived(**changes: Any) -> Json:
    return {"extras": {"hivedScheduler": changes}}


@pytest.mark.parametrize(
    ("patch", "path", "message"),
    [
        ({"protocolVersion": 1}, "protocolVersion", "must be 2, is 1"),
        ({"protocolVersion": True}, "protocolVersion", "must be 2"),
        ({"type": "data"}, "type", "must be the word job"),
        ({"name": "a b"}, "name", "1 to 255 letters"),
        ({"name": "x" * 256}, "name", "1 to 255 letters"),
        ({"name": 7}, "name", "expected a text, found 7"),
        ({"jobRetries": 1}, "jobRetries", "no such field"),
        ({"jobRetryCount": -2}, "jobRetryCount", "at least 0, is -2"),
        ({"jobRetryCount": True}, "jobRetryCount", "whole number, found True"),
        ({"taskRoles": []}, "taskRoles", "expected a mapping, found a list"),
        ({"taskRoles": {}}, "taskRoles", "at least one task role"),
        ({"taskRoles": {"1w": ROLE}}, "taskRoles.1w", "must not begin with a digit"),
        ({"taskRoles": {1: ROLE}}, "taskRoles.1", "must not begin with a digit"),
        ({"taskRoles": {"w": None}}, "taskRoles.w", "expected a mapping, found nothing"),
        (role(instance=2), "taskRoles.w.instance", "no such field"),
        (role(instances=0), "taskRoles.w.instances", "at least 1, is 0"),
        (role(instances="2"), "taskRoles.w.instances", "whole number, found a text"),
        (role(taskRetryCount=-3), "taskRoles.w.taskRetryCount", "at least -2"),
        (role(dockerImage="imag"), "taskRoles.w.dockerImage", "no prerequisite imag"),
        (role(dockerImage=None), "taskRoles.w.dockerImage", "found nothing"),
        (role(data="cifar"), "taskRoles.w.data", "no prerequisite cifar"),
        (role(commands=[]), "taskRoles.w.commands", "at least one command"),
        (role(commands="date"), "taskRoles.w.commands", "expected a list"),
        (role(commands=[{"run": "date"}]), "taskRoles.w.commands[0]", "expected a text, found a mapping"),
        ({"type": "job", "name": {1}}, "name", "expected a text, found set"),
        (role(commands=["date", 1]), "taskRoles.w.commands[1]", "expected a text, found 1"),
        (role(resourcePerInstance=None), "taskRoles.w.resourcePerInstance", "expected a mapping"),
        (role(resourcePerInstance={"gpu": 1, "cpu": 1}), "taskRoles.w.resourcePerInstance.memoryMB", "found nothing"),
        (
            role(resourcePerInstance={"gpu": -1, "cpu": 1, "memoryMB": 1}),
            "taskRoles.w.resourcePerInstance.gpu",
            "at least 0",
        ),
        (
            role(resourcePerInstance={"gpu": 0, "cpu": 0, "memoryMB": 0}),
            "taskRoles.w.resourcePerInstance",
            "asks for nothing",
        ),
        (role(completion={"minFailedInstances": -2}), "taskRoles.w.completion.minFailedInstances", "at least -1"),
        (role(completion={"minFailed": 1}), "taskRoles.w.completion.minFailed", "no such field"),
        ({"prerequisites": [{"name": "x", "type": "image"}]}, "prerequisites[1].type", "no type image"),
        ({"prerequisites": [{"name": "image", "type": "dockerimage"}]}, "prerequisites[1].name", "called image too"),
        ({"prerequisites": ["x"]}, "prerequisites[1]", "expected a mapping, found a text"),
        ({"defaults": {"deployment": "d"}}, "defaults.deployment", "no deployment d"),
        ({"deployments": [{"name": "d", "taskRoles": {}}] * 2}, "deployments[1].name", "called d too"),
        ({"defaults": {"virtualCluster": ""}}, "defaults.virtualCluster", "expected a text"),
        ({"extras": {"gangAllocation": "false"}}, "extras.gangAllocation", "true or false, found a text"),
        (hived(jobPriorityClass="Prod"), "extras.hivedScheduler.jobPriorityClass", "no priority class Prod"),
        (hived(taskRoles={"v": {}}), "extras.hivedScheduler.taskRoles.v", "no such task role"),
        (
            hived(taskRoles={"w": {"skuType": "a", "pinnedCellId": "b"}}),
            "extras.hivedScheduler.taskRoles.w.pinnedCellId",
            "only one of the two",
        ),
        (
            hived(lazyPreemptionEnable="yes"),
            "extras.hivedScheduler.lazyPreemptionEnable",
            "true or false",
        ),
        (
            hived(taskRoles={"w": {"affinityGroupName": ""}}),
            "extras.hivedScheduler.taskRoles.w.affinityGroupName",
            "expected a text",
        ),
    ],
)
def test_errors_name_the_field(patch: Json, path: str, message: str) -> None:
    roles = patch.get("taskRoles")
    data = complete_job({key: value for key, value in patch.items() if key != "taskRoles"})
    with pytest.raises(JobError) as caught:
        Job.from_mapping(data | ({} if roles is None else {"taskRoles": roles}))
    assert caught.value.path == caught.value.where == path
    assert message in caught.value.message
    assert "\n" not in str(caught.value)


def test_a_document_that_is_no_mapping_is_an_error() -> None:
    with pytest.raises(JobError, match="expected a mapping, found a list") as caught:
        Job.from_mapping([])  # type: ignore[arg-type]
    assert caught.value.path == "(job)"


def test_a_misspelt_name_gets_a_suggestion() -> None:
    with pytest.raises(JobError) as caught:
        Job.from_mapping(complete_job({"taskRoles": {"w": {"instance": 2}}}))
    assert (caught.value.hint or "").startswith("did you mean 'instances'?")


def commands(*texts: str, **more: Any) -> Json:
    return complete_job({**more, "taskRoles": {"w": {"commands": list(texts)}}})


def test_commands_have_a_bound_with_their_templates_filled_in() -> None:
    values = {"parameters": {"a": "x" * 1000}}
    fitting = commands(*["<% $parameters.a %>" * 500] * 2, **values)
    assert sum(map(len, Job.from_mapping(fitting).roles[0].commands)) == MOST_EXPANDED
    with pytest.raises(JobError, match="more than 1,000,000 bytes") as caught:
        Job.from_mapping(commands(*["<% $parameters.a %>" * 500] * 2, "y", **values))
    assert caught.value.path == "taskRoles.w.commands[2]"


def test_a_hidden_secret_counts_with_its_real_size() -> None:
    large = commands("<% $secrets.a %>" * 2, secrets={"a": "x" * 500_001})
    with pytest.raises(JobError, match="more than 1,000,000 bytes"):
        Job.from_mapping(large)


def test_what_is_refused_for_its_size_is_never_made() -> None:
    large = commands("<% $parameters.a %>" * 15_000, parameters={"a": "x" * 200_000})
    tracemalloc.start()
    try:
        with pytest.raises(JobError):
            Job.from_mapping(large)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@given(
    st.lists(st.sampled_from(["<%", "%>", " ", "$parameters.a", "$parameters.b[0]", "$parameters.c", "x", "é"])).map(
        "".join
    )
)
def test_the_size_is_that_of_the_text_that_is_made(text: str) -> None:
    values = Values({"parameters": {"a": "ü" * 9, "b": ["", 1]}})
    assert values.size(text) == len(values.render(text, "here")[0].encode())


@pytest.mark.parametrize("text", ["<%" + " " * 100_000, "<%" * 100_000, "<% $parameters.a[" + "9" * 5000 + "] %>"])
def test_a_template_takes_no_longer_than_its_length(text: str) -> None:
    assert Values({"parameters": {"a": [1]}}).render(text, "here")[0] == text
