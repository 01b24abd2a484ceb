from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.invariants import validate
from paictl.scheduler.replay import Replayer, info_from_json, info_json
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
    assert info_json(info_from_json(dump["pods"][0]["info"])) == dump["pods"][0]["info"]


def test_the_command_reads_operations_and_prints_results(tmp_path: Path) -> None:
    path = tmp_path / "hived.yaml"
    path.write_text(yaml.safe_dump(config(A={"NODE": 1})))
    text = "\n".join(map(json.dumps, OPERATIONS))
    command = [sys.executable, "-m", "paictl.cli.scheduler", "replay", "--config", str(path), "--validate"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["r"] for result in results] == ["ok", "bind", "wait"]
    wrong = subprocess.run(command, input="{", capture_output=True, text=True, check=False, cwd=ROOT)
    assert (wrong.returncode, wrong.stderr.startswith("error: line 1: not JSON")) == (2, True)
