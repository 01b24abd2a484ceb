"""Golden material beside the repository: configurations, traces and how a result is compared."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import yaml

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.replay import Replayer
from tests.conftest import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable

    from paictl.scheduler.engine import Engine

GOLDEN = SHARED / "golden"


def load_spec(path: Path) -> ClusterSpec:
    return ClusterSpec.from_mapping(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader))


def parse(text: str) -> object:
    try:
        return yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def replayer(config: Path, check: Callable[[Engine], None] | None = None) -> Replayer:
    return Replayer(load_spec(config), load=lambda name: load_spec(config.parent / name), parse=parse, check=check)


def read_trace(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        meta = json.loads(stream.readline())["meta"]
        return meta, [json.loads(line) for line in stream]


def checker() -> ModuleType:
    """`check.py` of the golden folder: what of a result counts as the decision is said there, once."""
    spec = importlib.util.spec_from_file_location("golden_check", GOLDEN / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unnumbered(result: Any) -> Any:
    """A comparable result without the addresses of virtual cells: whether there are any is left."""
    if isinstance(result, dict):
        hidden = ("virtual", "virtualPlacement")
        return {key: bool(value) if key in hidden else unnumbered(value) for key, value in result.items()}
    if isinstance(result, str) and result.startswith("{"):
        return json.dumps(unnumbered(json.loads(result)), sort_keys=True)
    if isinstance(result, list):
        rows = [unnumbered(item) for item in result]
        return sorted(rows) if rows and all(isinstance(row, str) for row in rows) else rows
    return result


def first_difference(path: Path, check: Callable[[Engine], None] | None = None, *, numbers: bool = True) -> str | None:
    """Replay a trace in process; the first operation whose result differs, None if all agree.

    Without `numbers` the addresses of virtual cells do not count.
    """
    meta, trace = read_trace(path)
    rules = checker()
    player = replayer(GOLDEN / "traces" / meta["config"] / meta["yaml"], check)
    told: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for index, entry in enumerate(trace):
        result = json.loads(json.dumps(player.run(entry["op"])))
        if entry["result"] is None:
            continue
        want, have = rules.comparable(entry["op"], entry["result"]), rules.comparable(entry["op"], result)
        if not numbers:
            want, have = unnumbered(want), unnumbered(have)
        # what a Bind changes besides its own pod may be told with the decision or when it takes effect
        if entry["op"]["op"] == "schedule" and want.get("r") == have.get("r") == "bind":
            told = (want.pop("ev", None) or {}, have.pop("ev", None) or {})
        elif entry["op"]["op"] == "add_allocated":
            for old, new in zip(told, (want, have), strict=True):
                new["ev"] = {**old, **(new.get("ev") or {})}
            told = ({}, {})
        if want != have:
            return f"operation {index} {json.dumps(entry['op'])[:300]}\n  expected {want}\n  got      {have}"
    return None
