"""kube-scheduler's own recorded calls are read, and what is none is refused with a word about it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paictl.doors.table import pod_ref
from paictl.extender import wire
from paictl.extender.wire import FilterResult, Victims, WireError


def test_recorded_calls_are_read(shared: Path) -> None:
    seen = set()
    for line in (shared / "design" / "extender-wire.jsonl").read_text().splitlines():
        call = json.loads(line)
        body = json.dumps(call["body"]).encode()
        seen.add(call["verb"])
        match call["verb"]:
            case "filter":
                args = wire.read_filter(body)
                assert pod_ref(args.pod).name == call["body"]["Pod"]["metadata"]["name"]
                nodes = call["body"]["NodeNames"] or [
                    node["metadata"]["name"] for node in (call["body"]["Nodes"] or {"items": []})["items"]
                ]
                assert args.names == nodes
            case "bind":
                assert wire.read_bind(body).node == call["body"]["Node"]
            case "preempt":
                found = wire.read_preempt(body)
                offered = call["body"]["NodeNameToMetaVictims"] or call["body"]["NodeNameToVictims"]
                assert set(found.victims) == set(offered)
                assert all(one.uids for one in found.victims.values())
    assert {"filter", "bind", "preempt"} <= seen


def test_answers_have_gos_keys() -> None:
    answer = json.loads(wire.write_filter(FilterResult(("n1",), {"n2": "busy"}, {"n3": "bad"})))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["n1"],
        "FailedNodes": {"n2": "busy"},
        "FailedAndUnresolvableNodes": {"n3": "bad"},
        "Error": "",
    }
    assert json.loads(wire.write_bind("no")) == {"Error": "no"}
    assert json.loads(wire.write_preempt({"n": Victims(("u",), 1)})) == {
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}
    }
    assert json.loads(wire.write_preempt({})) == {"NodeNameToMetaVictims": None}


def test_whole_nodes_come_back_where_whole_nodes_came() -> None:
    nodes = [{"metadata": {"name": name}, "status": {}} for name in ("a", "b")]
    pod = {"metadata": {"name": "p", "uid": "u"}}
    args = wire.read_filter(json.dumps({"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None}).encode())
    answer = json.loads(wire.write_filter(FilterResult(("b",)), args))
    assert answer["NodeNames"] is None
    assert answer["Nodes"] == {"items": [nodes[1]]}


POD = {"metadata": {"name": "p", "uid": "u"}}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{bad", "not valid JSON"),
        (b"[]", "ExtenderArgs: expected an object, found a list"),
        (b"{}", "Pod field should not be nil"),
        (b'{"Pod": 3}', "Pod: expected an object, found a number"),
        (b'{"Pod": {}}', "metadata"),
        (b'{"Pod": {"metadata": {"name": "p"}}}', "needs a name and a uid"),
        (b'{"Pod": {"metadata": {"name": 1, "uid": "u"}}}', "metadata.name: expected a text"),
        (json.dumps({"Pod": POD, "NodeNames": "n"}).encode(), "NodeNames: expected a list of names"),
        (json.dumps({"Pod": POD, "NodeNames": [1]}).encode(), "NodeNames: expected a list of names"),
        (json.dumps({"Pod": POD, "Nodes": {"items": [None]}}).encode(), "expected an object, found nothing"),
    ],
)
def test_what_is_no_filter_call_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(WireError, match=said):
        wire.read_filter(body)


@pytest.mark.parametrize("key", ["PodName", "PodNamespace", "PodUID", "Node"])
def test_a_binding_names_everything(key: str) -> None:
    body = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"} | {key: ""}
    with pytest.raises(WireError, match="must not be empty"):
        wire.read_bind(json.dumps(body).encode())
    with pytest.raises(WireError, match=f"{key}: expected a text"):
        wire.read_bind(json.dumps(body | {key: 1}).encode())


@pytest.mark.parametrize(
    "victims", [{"n": "x"}, {"n": {"Pods": 1}}, {"n": {"Pods": [1]}}, {"n": {"NumPDBViolations": "1"}}]
)
def test_victims_are_objects(victims: object) -> None:
    with pytest.raises(WireError):
        wire.read_preempt(json.dumps({"Pod": POD, "NodeNameToMetaVictims": victims}).encode())
