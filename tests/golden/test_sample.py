"""Decisions recorded on configurations of ours: the proof that runs in any clone (``tools/record_decisions.py``)."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from paictl.scheduler.invariants import validate
from tests.golden.support import replayer

SAMPLE = Path(__file__).parent / "sample"
FREE_TEXT = ("reason", "message", "_warnings")
TRACES = sorted(SAMPLE.glob("*.jsonl.gz"))


def lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def decision(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in FREE_TEXT}


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_decisions_are_those_recorded(path: Path) -> None:
    player = replayer(SAMPLE / f"{path.name.rsplit('-', 1)[0]}.yaml")
    for number, line in enumerate(lines(path), 1):
        result = json.loads(json.dumps(player.run(line["op"])))
        assert decision(result) == decision(line["result"]), f"operation {number}: {line['op']}"
        if not number % 20:
            validate(player.engine.state)


def test_the_sample_has_every_kind_of_operation_and_answer() -> None:
    seen = Counter((line["op"]["op"], line["result"]["r"]) for path in TRACES for line in lines(path))
    for kind in ("bind", "wait", "preempt", "insist"):
        assert sum(count for (_, answer), count in seen.items() if answer == kind) > 10, kind
    assert {kind for kind, _ in seen} >= {
        "nodes",
        "node",
        "filter",
        "schedule",
        "delete_allocated",
        "restart",
        "status",
    }
    words = {word for path in TRACES for line in lines(path) for word in line["result"].get("ev", {}).values()}
    assert any(word.startswith("lazy by") for word in words)
    assert {"new Preempting", "Preempting->Allocated", "deleted Preempting"} <= words
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < 500_000
