"""HiveD's annotations, there and back, and every way in which they can be malformed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.scheduler import wire
from paictl.scheduler.decision import BindInfo, PodPlacement
from paictl.scheduler.errors import RequestError
from paictl.scheduler.request import PodRequest


def parse(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


HIVED = """\
node: 10.151.41.26
gpuIsolation: [0, 1]
cellChain: K80-NODE-POOL
affinityGroupBindInfo:
- podPlacements:
  - physicalNode: 10.151.41.26
    physicalGpuIndices: [0, 1]
    preassignedCellTypes: [K80-NODE, K80-NODE]
  - physicalNode: 10.151.41.25
    physicalGpuIndices: [2, 3]
"""
INFO = BindInfo(
    "10.151.41.26",
    (0, 1),
    "K80-NODE-POOL",
    (
        (
            PodPlacement("10.151.41.26", (0, 1), ("K80-NODE", "K80-NODE")),
            PodPlacement("10.151.41.25", (2, 3), None),
        ),
    ),
)


def test_bind_info_is_read_as_hived_writes_it_old_keys_too() -> None:
    assert wire.parse_bind_info(HIVED, "default/p", parse) == INFO
    assert wire.parse_bind_info(wire.bind_info_text(INFO), "default/p", parse) == INFO


names = st.text(min_size=1, max_size=8)
devices = st.lists(st.integers(0, 99), min_size=1, max_size=4).map(tuple)
places = st.builds(PodPlacement, names, devices, st.none() | st.lists(names, max_size=4).map(tuple))
infos = st.builds(
    BindInfo, names, devices, names, st.lists(st.lists(places, max_size=3).map(tuple), max_size=3).map(tuple)
)


@given(st.lists(infos, min_size=1, max_size=4), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_one_writer_writes_each_annotation_as_if_it_were_the_first(
    groups: list[BindInfo], pods: list[tuple[int, int]]
) -> None:
    """Pods of a few gangs in any order; those of one gang share their rows, and some count repairs."""
    texts = wire.BindInfoTexts()
    for group, number in pods:
        info = replace(groups[group % len(groups)], devices=(number,), repairs=number)
        assert texts.text(info) == json.dumps(wire.bind_info_json(info), separators=(",", ":"))


@given(infos)
def test_bind_info_there_and_back(info: BindInfo) -> None:
    assert wire.read_bind_info(json.loads(wire.bind_info_text(info))) == info


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3, unique_by=lambda one: one[0]),
    st.booleans(),
    st.booleans(),
    st.integers(-1, 1000),
    st.sampled_from(["", "GPU"]),
    st.sampled_from(["", "PIN"]),
)
def test_requests_there_and_back(
    members: list[tuple[int, int]], lazy: bool, ignore: bool, priority: int, leaf_type: str, pinned: str
) -> None:
    ordered = tuple(sorted(members))
    request = PodRequest("u", "default/p", "vc", priority, ordered[0][0], "g", ordered, leaf_type, pinned, lazy, ignore)
    text = json.dumps(wire.request_json(request))
    assert wire.parse_request(text, "u", "default/p", parse) == request


def test_a_pod_that_is_its_own_group_names_none() -> None:
    request = PodRequest("u", "default/p", "vc", 0, 2, "default/p", ((2, 1),))
    assert "affinityGroup" not in wire.request_json(request)
    assert wire.read_request(wire.request_json(request), "u", "default/p") == request


def changed(path: list[str | int], value: object) -> dict[str, Any]:
    data = wire.bind_info_json(INFO)
    here: Any = data
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    return data


PLACE: list[str | int] = ["affinityGroupBindInfo", 0, "podPlacements", 0]
MALFORMED: list[tuple[object, str]] = [
    ([], "pod-bind-info"),
    (changed(["node"], None), "pod-bind-info.node"),
    (changed(["leafCellIsolation"], ["0"]), "pod-bind-info.leafCellIsolation"),
    (changed(["leafCellIsolation"], [True]), "pod-bind-info.leafCellIsolation"),
    (changed(["cellChain"], 5), "pod-bind-info.cellChain"),
    (changed(["affinityGroupBindInfo"], {}), "pod-bind-info.affinityGroupBindInfo"),
    (changed(["affinityGroupBindInfo", 0], "x"), "pod-bind-info.affinityGroupBindInfo[0]"),
    (changed(["affinityGroupBindInfo", 0, "podPlacements"], 1), "pod-bind-info.affinityGroupBindInfo[0].podPlacements"),
    (changed(PLACE, 1), "pod-bind-info.affinityGroupBindInfo[0].podPlacements[0]"),
    (
        changed([*PLACE, "preassignedCellTypes"], [None]),
        "pod-bind-info.affinityGroupBindInfo[0].podPlacements[0].preassignedCellTypes",
    ),
    (
        changed([*PLACE, "physicalLeafCellIndices"], [0.5]),
        "pod-bind-info.affinityGroupBindInfo[0].podPlacements[0].physicalLeafCellIndices",
    ),
]


@pytest.mark.parametrize(("data", "field"), MALFORMED, ids=lambda value: value if isinstance(value, str) else "")
def test_malformed_bind_info_is_refused_by_its_field(data: object, field: str) -> None:
    with pytest.raises(RequestError) as caught:
        wire.read_bind_info(data, "default/p")
    assert (caught.value.pod, caught.value.field) == ("default/p", field)


@pytest.mark.parametrize("text", [None, "", "  ", "a: [", "just words"])
def test_an_annotation_that_is_no_mapping_is_refused(text: str | None) -> None:
    with pytest.raises(RequestError):
        wire.parse_bind_info(text, "default/p", parse)
    with pytest.raises(RequestError):
        wire.parse_request(text, "u", "default/p", parse)


def test_isolation_there_and_back() -> None:
    assert wire.parse_isolation(wire.isolation_text((0, 3, 12)), "default/p") == (0, 3, 12)
    for text in ("", "0,", "0,x", "-1", "9" * 30, "²", "0:0"):
        with pytest.raises(RequestError):
            wire.parse_isolation(text, "default/p")


def test_mig_instances_are_named_as_the_container_toolkit_reads_them() -> None:
    assert wire.isolation_text((0, 1, 6, 7, 55), 7) == "0:0,0:1,0:6,1:0,7:6"
    assert wire.isolation_text((0, 1), 1) == "0:0,1:0", "a GPU that is one instance is no whole GPU"
    for text in ("", "0", "0:2", "0:0,", "0:-1", "0:0:0", "x:0"):
        with pytest.raises(RequestError, match="MIG instances as in 0:0,0:1"):
            wire.parse_isolation(text, "default/p", 2)


@given(st.lists(st.integers(0, 511), min_size=1, max_size=16, unique=True), st.integers(0, 7))
def test_leaf_cells_come_back_from_what_a_pod_is_told(devices: list[int], instances: int) -> None:
    text = wire.isolation_text(tuple(devices), instances)
    assert wire.parse_isolation(text, "default/p", instances) == tuple(devices)
    parts = text.split(",")
    assert len(set(parts)) == len(devices), "no two leaf cells are one device"
    info = BindInfo("n", tuple(devices), "NODE", ((PodPlacement("n", (1, 2), ("a", "b")),),))
    noted = {wire.ISOLATION: text, wire.BIND_INFO: wire.bind_info_text(info)}
    assert wire.noted_devices(noted) == tuple(devices)


@pytest.mark.parametrize(
    ("noted", "devices"),
    [
        ({}, ()),
        ({wire.ISOLATION: "0, 3"}, (0, 3)),
        ({wire.ISOLATION: "0,x,2"}, (0, 2)),
        ({wire.ISOLATION: ""}, ()),
        ({wire.ISOLATION: "0:3"}, ()),
        ({wire.ISOLATION: "0:3", wire.BIND_INFO: "not what we write"}, ()),
        ({wire.ISOLATION: "1:0", wire.BIND_INFO: '{"node": "n", "leafCellIsolation": [7], "cellChain": "N"}'}, (7,)),
    ],
)
def test_devices_that_a_pod_has_noted(noted: dict[str, object], devices: tuple[int, ...]) -> None:
    assert wire.noted_devices(noted) == devices


@pytest.mark.parametrize(
    ("text", "devices", "instances", "agrees"),
    [
        ("0:0,0:1", (0, 1), 2, True),
        ("1:1", (3,), 2, True),
        ("1:1", (3,), 0, False),
        ("1:1", (3,), 3, False),
        ("3", (3,), 2, False),
        ("3", (3,), 0, True),
        ("0,1", (1, 0), 0, True),
        ("", (3,), 2, True),
        ("0:3", (3,), 2, False),
    ],
)
def test_isolation_is_compared_with_the_present_division(
    text: str, devices: tuple[int, ...], instances: int, agrees: bool
) -> None:
    assert wire.isolation_agrees(text, devices, instances) is agrees
