from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cells.spec import ClusterSpec
from paictl.cli.main import run
from paictl.cli.scheduler.input import parse_yaml
from paictl.scheduler import groups
from paictl.scheduler.book import Book
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import InvariantError
from paictl.scheduler.invariants import validate
from paictl.scheduler.replay import Replayer
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import bind_info_json, read_bind_info
from tests.conftest import ROOT
from tests.unit.scheduler.support import NODES, config

OPERATIONS: list[dict[str, Any]] = [
    {"op": "nodes", "names": list(NODES), "healthy": True},
    {
        "op": "filter",
        "pod": {"uid": "a", "name": "a", "spec": {"virtualCluster": "A", "priority": 0, "leafCellNumber": 4}},
    },
    {
        "op": "schedule",
        "pod": {"uid": "b", "name": "b", "spec": {"virtualCluster": "A", "priority": 0, "leafCellNumber": 4}},
    },
]


def test_a_dump_can_be_taken_up_again() -> None:
    spec = ClusterSpec.from_mapping(config(A={"NODE": 1}))
    first = Replayer(spec)
    for operation in OPERATIONS:
        first.run(operation)
    dump = json.loads(json.dumps(first.dump()))
    assert dump["operations"] == OPERATIONS
    second = Replayer(spec)
    second.restore(dump)
    validate(second.engine.state)
    assert second.engine.state.digest() == first.engine.state.digest()
    assert bind_info_json(read_bind_info(dump["pods"][0]["info"])) == dump["pods"][0]["info"]


def test_the_command_writes_a_dump_when_an_invariant_breaks_and_can_load_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dump, ops = tmp_path / "hived.yaml", tmp_path / "dump.json", tmp_path / "ops.jsonl"
    path.write_text(yaml.safe_dump(config(A={"NODE": 1})))
    ops.write_text("\n".join(map(json.dumps, OPERATIONS)))
    words = ["scheduler", "replay", "--config", str(path), "--dump", str(dump), str(ops)]

    def broken(*_: object) -> None:
        raise InvariantError("a cell is nowhere")

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_bind_new", broken)
        assert run(words) == 2
    said = capsys.readouterr().err
    assert f"{ops}:2: the scheduler has stopped: a cell is nowhere" in said
    assert str(dump) in said
    written = json.loads(dump.read_text())
    assert "is nowhere" in written["error"]
    assert written["operations"] == OPERATIONS[:2]
    ops.write_text(json.dumps(OPERATIONS[1]))
    assert run([*words, "--load", str(dump)]) == 0
    assert json.loads(capsys.readouterr().out)["r"] == "bind"


def test_a_state_that_contradicts_itself_can_be_dumped_and_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, dump, ops = tmp_path / "hived.yaml", tmp_path / "dump.json", tmp_path / "ops.jsonl"
    path.write_text(yaml.safe_dump(config(A={"NODE": 1})))
    ops.write_text("\n".join(map(json.dumps, OPERATIONS)))
    words = ["scheduler", "replay", "--config", str(path), "--dump", str(dump), str(ops)]
    right = groups.new_group

    def broken(request: PodRequest, *rest: Any) -> groups.Group:
        return right(replace(request, members=((4, 1), (8, 2))), *rest)  # has more members than places

    with monkeypatch.context() as patch:
        patch.setattr("paictl.scheduler.recovery.new_group", broken)
        assert run(words) == 2
    assert f"{ops}:2: the scheduler has stopped: ValueError" in capsys.readouterr().err
    again = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})))
    again.restore(json.loads(dump.read_text()))
    assert len(again.engine.state.groups.by_name["default/a"].members) == 2


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({}, "op"),
    ({"op": ["x"]}, "op"),
    ({"op": "schedule"}, "pod"),
    ({"op": "schedule", "pod": {"name": "a"}}, "pod.uid"),
    ({"op": "schedule", "pod": {"uid": "a", "name": 5}}, "pod.name"),
    ({"op": "nodes", "healthy": True}, "names"),
    ({"op": "nodes", "names": 5, "healthy": True}, "names"),
    ({"op": "nodes", "names": ["n"]}, "healthy"),
    ({"op": "schedule", "pod": {"uid": "a", "name": "a", "spec": {}}, "phase": "Nope"}, "phase"),
    ({"op": "schedule", "pod": {"uid": "a", "name": "a", "spec": {}}, "suggested": 5}, "suggested"),
    ({"op": "add_allocated"}, "uid"),
    ({"op": "restart", "lost": "p1"}, "lost"),
    ({"op": "restart", "order": "pods_last"}, "order"),
    ({"op": "restart", "order": True}, "order"),
]


@pytest.mark.parametrize(("operation", "field"), MALFORMED, ids=lambda value: str(value))
def test_a_malformed_operation_is_refused_by_its_field(operation: dict[str, Any], field: str) -> None:
    player = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})))
    before = player.engine.state.digest()
    result = player.run(operation)
    assert (result["r"], result["field"]) == ("error", field)
    assert field in result["message"]
    assert player.engine.state.digest() == before


def test_what_is_not_known_is_ignored_with_a_warning() -> None:
    player = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})))
    before = player.engine.state.digest()
    for operation in ({"op": "node", "name": "nowhere", "healthy": True}, {"op": "delete_allocated", "uid": "nobody"}):
        result = player.run(operation)
        assert result["r"] == "ok"
        assert len(result["_warnings"]) == 1
    assert player.engine.state.digest() == before


def test_the_command_reads_operations_and_prints_results(tmp_path: Path) -> None:
    path = tmp_path / "hived.yaml"
    path.write_text(yaml.safe_dump(config(A={"NODE": 1})))
    text = "\n".join(map(json.dumps, OPERATIONS))
    command = [sys.executable, "-m", "paictl.cli.scheduler.commands", "replay", "--config", str(path), "--validate"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["r"] for result in results] == ["ok", "bind", "wait"]
    wrong = subprocess.run(command, input="{", capture_output=True, text=True, check=False, cwd=ROOT)
    assert (wrong.returncode, wrong.stderr.startswith("error: standard input:1:2: not JSON")) == (2, True)


@pytest.mark.parametrize("order", ["nodes_first", "pods_first"])
def test_the_order_of_a_restart_is_followed(order: str) -> None:
    player = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})))
    for operation in OPERATIONS[:2]:
        player.run(operation)
    calls: list[str] = []
    recover, report = Book.recover, Book._recover_nodes

    def noted(book: Book, *pods: Any) -> Any:
        calls.append("pods")
        return recover(book, *pods)

    def reported(book: Book) -> Any:
        calls.append("nodes")
        return report(book)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Book, "recover", noted)
        patch.setattr(Book, "_recover_nodes", reported)
        player.run({"op": "restart", "order": order})
    validate(player.engine.state)
    assert calls[0] == order.removesuffix("_first")


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: " + "[" * 100_000, "nested deeper than 64 levels"),
        (BOMB + "physicalCluster: *i\n", "(the last is e) expand to too much"),
        ("a: [1", "not YAML"),
        ("a: *b", "no anchor b is defined"),
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("x" * (33 << 20), "is larger than 32 MiB"),
        ("physicalCluster: {cellTypes: 5}", "1:"),
    ],
    ids=["deep", "bomb", "syntax", "alias", "empty", "comment", "large", "field"],
)
def test_a_configuration_is_read_as_safely_as_validate_reads_it(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ops = tmp_path / "hived.yaml", tmp_path / "ops.jsonl"
    path.write_text(text)
    ops.write_text("")
    assert run(["scheduler", "replay", "--config", str(path), str(ops)]) == 2
    assert said in capsys.readouterr().err


def test_an_annotation_is_read_as_safely() -> None:
    with pytest.raises(ValueError, match="nested deeper than"):
        parse_yaml("[" * 100_000)
    assert parse_yaml("{a: [1, 2]}") == {"a": [1, 2]}


def test_a_stale_bind_is_refused_instead_of_losing_its_guarantee() -> None:
    player = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})), check=lambda engine: validate(engine.state))
    player.run(OPERATIONS[0])
    spec = {"virtualCluster": "A", "priority": 0, "leafCellNumber": 4, "ignoreK8sSuggestedNodes": False}
    pod = {"uid": "p", "name": "p", "spec": spec}
    assert player.run({"op": "schedule", "pod": pod, "suggested": ["n2"]})["r"] == "bind"
    assert player.run({"op": "filter", "pod": {**pod, "uid": "q", "name": "q"}, "suggested": ["n1"]})["r"] == "bind"
    before = player.engine.state.digest()
    answer = player.run({"op": "add_allocated", "uid": "p"})
    assert (answer["r"], "the cluster has changed since" in answer["message"]) == ("error", True)
    assert player.engine.state.digest() == before


def test_a_stale_bind_takes_no_guarantee_that_its_plan_did_not_see() -> None:
    player = Replayer(ClusterSpec.from_mapping(config(A={"NODE": 1})), check=lambda engine: validate(engine.state))
    player.run(OPERATIONS[0])
    spec = {"virtualCluster": "A", "priority": 10, "leafCellNumber": 4, "ignoreK8sSuggestedNodes": False}
    other = {**spec, "priority": 0, "lazyPreemptionEnable": False}
    pod = {"uid": "p", "name": "p", "spec": spec}
    assert player.run({"op": "schedule", "pod": pod, "suggested": ["n2"]})["r"] == "bind"
    bound = player.run({"op": "filter", "pod": {"uid": "q", "name": "q", "spec": other}, "suggested": ["n1"]})
    assert bound["r"] == "bind"
    before = player.engine.state.digest()
    assert player.run({"op": "add_allocated", "uid": "p"})["r"] == "error"
    assert player.engine.state.digest() == before
