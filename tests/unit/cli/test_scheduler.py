"""`paictl scheduler` and input that cannot be used: one line with the place, a hint, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from paictl.scheduler.engine import Engine
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl

CONFIG = """\
physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n0}
  - {cellType: NODE, cellAddress: n1}
virtualClusters:
  A:
    virtualCells:
    - {cellType: NODE, cellNumber: 1}
"""
UP = {"op": "nodes", "names": ["n0", "n1"], "healthy": True}


def pod(uid: str, size: int = 4, **fields: object) -> dict[str, object]:
    spec = {"virtualCluster": "A", "priority": 0, "leafCellNumber": size, **fields}
    return {"op": "filter", "pod": {"uid": uid, "name": f"{uid}-name", "spec": spec}}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG)
    return path


def written(folder: Path, *operations: object) -> Path:
    path = folder / "ops.jsonl"
    path.write_text("\n".join(map(json.dumps, operations)))
    return path


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("childCellNumber: 4", "childCellNumber: x", ":3:49: physicalCluster.cellTypes.NODE.childCellNumber: expected"),
        ("cellNumber: 1", "cellNumber: 3", ":7:1: virtualClusters: cells of NODE in chain NODE: 3 assigned"),
        (
            "{cellType: NODE, cellNumber",
            "{cellType: NODES, cellNumber",
            ":10:18: virtualClusters.A.virtualCells[0].cellType",
        ),
        ("{cellType: NODE, cellAddress: n1}", "{cellType: NOD}", ":6:16: physicalCluster.physicalCells[1].cellType"),
        ("virtualClusters:", "virtualClusters: [", "c.yaml:"),
        (CONFIG, "", "c.yaml: is empty"),
        (CONFIG, "[" * 5000, "c.yaml"),
    ],
)
def test_an_unusable_configuration_is_said_with_its_place(
    config: Path, paictl: Paictl, old: str, new: str, said: str
) -> None:
    config.write_text(CONFIG.replace(old, new))
    for command in (["replay"], ["explain"]):
        words = ["scheduler", *command, "--config", str(config), str(written(config.parent, UP))]
        done = paictl(*words, *(["a"] if command == ["explain"] else []))
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        assert "internal error" not in done.err
        assert done.err.count("\n") <= 2


@pytest.mark.parametrize("data", [b"\xff\xfe", None])
def test_a_file_that_is_not_text_or_not_there_is_an_error(
    config: Path, tmp_path: Path, paictl: Paictl, data: bytes | None
) -> None:
    odd = tmp_path / "odd"
    if data is not None:
        odd.write_bytes(data)
    ops = written(tmp_path, UP)
    for words in (
        ["replay", "--config", str(odd), str(ops)],
        ["replay", "--config", str(config), str(odd)],
        ["replay", "--config", str(config), "--load", str(odd), str(ops)],
        ["explain", "--config", str(config), str(odd), "a"],
        ["replay", "--config", str(config), str(tmp_path)],
    ):
        done = paictl("scheduler", *words)
        assert done.code == 2
        assert done.err.startswith((f"error: {odd}: ", f"error: {tmp_path}: "))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"op": "mark"', ":2:14: not JSON"),
        ("[1]", ":2: expected an object, found a list"),
        ("[" * 100_000, ":2: not JSON"),
        ('{"op": ' + "9" * 5000 + "}", ":2: not JSON"),
    ],
)
def test_a_line_that_is_no_operation_ends_it_with_its_number(
    config: Path, paictl: Paictl, line: str, said: str
) -> None:
    ops = config.parent / "ops.jsonl"
    ops.write_text(f"{json.dumps(UP)}\n{line}\n")
    done = paictl("scheduler", "replay", "--config", str(config), str(ops))
    assert done.code == 2
    assert json.loads(done.out) == {"r": "ok"}, "what came before is answered"
    assert f"{ops}{said}" in done.err
    assert "hint: write one operation per line" in done.err


def test_line_ends_of_any_kind_and_odd_characters_are_read(config: Path, paictl: Paictl) -> None:
    ops = config.parent / "ops.jsonl"
    name = {"op": "node", "name": "a\u2028b", "healthy": True}
    ops.write_bytes(f"\ufeff{json.dumps(UP)}\r\n\r\n  \r\n{json.dumps(name, ensure_ascii=False)}\r\n".encode())
    done = paictl("scheduler", "replay", "--config", str(config), str(ops))
    assert done.code == 0
    ok, warned = map(json.loads, done.out.splitlines())
    assert (ok, warned["_warnings"]) == ({"r": "ok"}, ["node a\u2028b is not in the configuration"])


def test_a_restart_with_an_unusable_configuration_is_refused_and_the_old_process_goes_on(
    config: Path, paictl: Paictl
) -> None:
    (config.parent / "over.yaml").write_text(CONFIG.replace("cellNumber: 1", "cellNumber: 3"))
    (config.parent / "broken.yaml").write_text("[")
    restarts = [{"op": "restart", "config": name} for name in ("none.yaml", "over.yaml", "broken.yaml")]
    ops = written(config.parent, UP, pod("a"), *restarts, {"op": "status", "view": "pods"})
    done = paictl("scheduler", "replay", "--validate", "--config", str(config), str(ops))
    assert done.code == 0
    results = [json.loads(line) for line in done.out.splitlines()]
    assert [result["r"] for result in results] == ["ok", "bind", "error", "error", "error", "status"]
    assert [result["field"] for result in results[2:5]] == ["config"] * 3
    assert "none.yaml" in results[2]["message"]
    assert "3 assigned, 2 there" in results[3]["message"]
    assert "broken.yaml:" in results[4]["message"]
    assert results[5]["pods"] == [{"uid": "a", "node": "n0", "devices": [0, 1, 2, 3]}]


def test_whatever_is_ignored_is_warned_of(config: Path, paictl: Paictl) -> None:
    (config.parent / "less.yaml").write_text(CONFIG.replace("  - {cellType: NODE, cellAddress: n1}\n", ""))
    ops = written(
        config.parent, UP, {"op": "bound", "uid": "x"}, {"op": "restart", "config": "less.yaml", "lost": ["y"]}
    )
    done = paictl("scheduler", "replay", "--config", str(config), str(ops))
    warnings = [json.loads(line).get("_warnings") for line in done.out.splitlines()]
    assert warnings == [None, ["pod x is not known"], ["pod y is not known", "node n1 is not in the configuration"]]


@pytest.mark.parametrize("bug", [KeyError("nowhere"), AssertionError("never")])
def test_any_bug_leaves_a_dump_that_replay_takes_up(
    config: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch, bug: Exception
) -> None:
    ops, dump = written(config.parent, UP, pod("a"), pod("b")), config.parent / "dump.json"
    words = ["scheduler", "replay", "--config", str(config), "--dump", str(dump), str(ops)]

    def broken(*_: object) -> None:
        raise bug

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_bind_new", broken)
        done = paictl(*words)
        lost = paictl(*words[:5], str(config.parent), str(ops))
    assert done.code == 2
    assert f"{ops}:2: the scheduler has stopped: {type(bug).__name__}" in done.err
    assert "Traceback" not in done.err
    assert "could not be written" in lost.err
    written_dump = json.loads(dump.read_text())
    assert written_dump["operations"] == [UP, pod("a")]
    done = paictl(*words[:-1], "--load", str(dump), str(written(config.parent, pod("a"))))
    assert (done.code, json.loads(done.out)["r"]) == (0, "bind")


@pytest.mark.parametrize(
    "text", ["{", "{}", "3", '{"engine": 3}', '{"engine": {"format": "paictl-scheduler-state/2"}}', "[" * 100_000]
)
def test_a_file_that_is_no_dump_is_refused(config: Path, paictl: Paictl, text: str) -> None:
    dump = config.parent / "dump.json"
    dump.write_text(text)
    done = paictl("scheduler", "replay", "--config", str(config), "--load", str(dump), str(written(config.parent, UP)))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {dump}: ")


def test_an_explanation_is_the_same_in_json_and_yaml(config: Path, paictl: Paictl) -> None:
    words = ["scheduler", "explain", "--config", str(config), str(written(config.parent, UP, pod("a"), pod("b")))]
    as_json, as_yaml = (paictl(*words, "b", "-o", form) for form in ("json", "yaml"))
    assert (as_json.code, as_yaml.code) == (1, 1)
    assert json.loads(as_json.out) == yaml.safe_load(as_yaml.out)
    assert json.loads(as_json.out)["explanation"]["decision"] == "wait"


REPLAY = f"{sys.executable} -m paictl scheduler replay --config c.yaml"


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (f"{REPLAY} <&-", 2, "error: standard input is closed"),
        (f"{REPLAY} ops.jsonl >&-", 0, ""),
        (f"{REPLAY} ops.jsonl > /dev/full", 2, "error: the output cannot be written"),
        (f"set -o pipefail; (cat ops.jsonl; echo; sleep 1; cat ops.jsonl) | {REPLAY} | true", 141, ""),
        (f"set -o pipefail; {sys.executable} -m paictl config schema show job | (exec <&-; sleep 1)", 141, ""),
        (f"printf '\\377' | {REPLAY}", 2, "error: standard input"),
    ],
)
def test_streams_that_are_closed_or_full(config: Path, line: str, code: int, said: str) -> None:
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    written(config.parent, UP)
    environment = {"PYTHONPATH": str(ROOT), "HOME": str(config.parent), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=config.parent, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
