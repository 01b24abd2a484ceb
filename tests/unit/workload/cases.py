"""Case files of this package: YAML under ``tests/cases/workload/<kind>/``; dropping one in adds a test.

A job in a case need not be complete: the head, an image, one command and modest resources are filled in.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from paictl.cells.spec import ClusterSpec
from paictl.workload.feasible import Judge
from paictl.workload.supply import Supply
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "cases" / "workload"

Json = dict[str, Any]


def cases(kind: str) -> list[Path]:
    found = sorted((FOLDER / kind).glob("*.yaml"))
    assert found, f"no cases in {FOLDER / kind}"
    return found


def load(path: Path) -> Json:
    data: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return data


@cache
def judge(cluster: str) -> Judge:
    spec = ClusterSpec.from_mapping(load(FOLDER / "clusters" / f"{cluster}.yaml"))
    return Judge(spec, Supply.from_spec(spec))


def complete_job(patch: Json | None = None) -> Json:
    """A whole job of protocol v2 from what a case says of it."""
    patch = dict(patch or {})
    roles = {
        name: {
            "dockerImage": "image",
            "commands": ["python train.py"],
            "resourcePerInstance": {"gpu": 1, "cpu": 1, "memoryMB": 1024},
        }
        | (role or {})
        for name, role in (patch.pop("taskRoles", None) or {"w": {}}).items()
    }
    image = {"name": "image", "type": "dockerimage", "uri": "openpai/standard"}
    prerequisites = [image, *patch.pop("prerequisites", [])]
    head = {"protocolVersion": 2, "name": "job", "type": "job", "prerequisites": prerequisites, "taskRoles": roles}
    return head | patch
