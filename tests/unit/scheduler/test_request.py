from __future__ import annotations

from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.errors import RequestError
from paictl.scheduler.replay import Replayer
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import read_request
from tests.unit.scheduler.support import config

GOOD: dict[str, Any] = {"virtualCluster": "A", "priority": 0, "leafCellNumber": 1}


def read(**change: Any) -> PodRequest:
    return read_request({**GOOD, **change}, "uid", "default/pod")


def test_defaults() -> None:
    request = read()
    assert (request.group, request.members) == ("default/pod", ((1, 1),))
    assert (request.ignore_suggested, request.lazy_preemption, request.pinned_id) == (True, False, "")


def test_members_of_one_size_are_merged_and_sorted() -> None:
    members = [
        {"podNumber": 2, "leafCellNumber": 4},
        {"podNumber": 1, "leafCellNumber": 1},
        {"podNumber": 3, "leafCellNumber": 4},
    ]
    assert read(affinityGroup={"name": "g", "members": members}).members == ((1, 1), (4, 5))


def test_old_names_are_read() -> None:
    old = {"virtualCluster": "A", "priority": 1, "gpuType": "V100", "gpuNumber": 2}
    request = read_request(old, "uid", "default/pod")
    assert (request.leaf_type, request.leaf_number) == ("V100", 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"virtualCluster": ""}, "virtualCluster"),
        ({"virtualCluster": 3}, "virtualCluster"),
        ({"priority": 1001}, "priority"),
        ({"priority": -2}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"priority": True}, "priority"),
        ({"leafCellNumber": 0}, "leafCellNumber"),
        ({"leafCellNumber": None}, "leafCellNumber"),
        ({"lazyPreemptionEnable": "yes"}, "lazyPreemptionEnable"),
        ({"affinityGroup": []}, "affinityGroup"),
        ({"affinityGroup": {"name": "", "members": []}}, "affinityGroup.name"),
        ({"affinityGroup": {"name": "g (repair x)", "members": []}}, "affinityGroup.name"),
        ({"affinityGroup": {"name": "g", "members": []}}, "affinityGroup.members"),
        ({"affinityGroup": {"name": "g", "members": ["x"]}}, "affinityGroup.members[0]"),
        (
            {"affinityGroup": {"name": "g", "members": [{"podNumber": 0, "leafCellNumber": 1}]}},
            "affinityGroup.members[0].podNumber",
        ),
        (
            {"affinityGroup": {"name": "g", "members": [{"podNumber": 1, "leafCellNumber": -3}]}},
            "affinityGroup.members[0].leafCellNumber",
        ),
    ],
)
def test_a_malformed_spec_names_pod_and_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(**change)
    assert (caught.value.pod, caught.value.field) == ("default/pod", field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"virtualCluster": "nope"}, "virtualCluster"),
        ({"leafCellType": "TPU"}, "leafCellType"),
        ({"pinnedCellId": "pin"}, "pinnedCellId"),
    ],
)
def test_a_request_the_cluster_cannot_know_leaves_the_state_alone(change: dict[str, Any], field: str) -> None:
    player = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})))
    before = player.engine.state.digest()
    result = player.run({"op": "schedule", "pod": {"uid": "p", "name": "p", "spec": {**GOOD, **change}}})
    assert (result["r"], result["pod"], result["field"]) == ("error", "default/p", field)
    assert player.engine.state.digest() == before


def test_a_broken_annotation_is_an_error() -> None:
    def parse(text: str) -> object:
        raise ValueError(text)

    player = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})), parse=parse)
    for pod in ({"uid": "p", "annotation": "virtualCluster: [x"}, {"uid": "p"}, {"uid": "p", "spec": [1]}):
        assert player.run({"op": "schedule", "pod": pod})["field"] == "pod-scheduling-spec"
    assert player.run({"op": "dance"})["r"] == "error"
