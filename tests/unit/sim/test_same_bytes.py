"""The same run gives the same bytes, with any hash seed and on every installed Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

SCRIPT = """
import hashlib
from dataclasses import replace
from paictl.sim.cluster import homogeneous
from paictl.sim.job import Job, Share
from paictl.sim.simulate import simulate

jobs = [
    Job(f"j{i}", 1000 * (i * i * 7 % 991), 1 << i % 4, 1000 * (5 + i * 37 % 300), vc="abc"[i % 3], model=f"m{i % 5}",
        share=Share.OPPORTUNISTIC if i % 7 == 0 else Share.GUARANTEED, skew=i % 10 / 10, gpu_util=i % 9 / 9,
        elastic=(1, 8) if i % 5 == 0 else None, priority=i % 2)
    for i in range(150)
]
spec = replace(homogeneous(5, 4), quotas={"a": 8, "b": 8, "c": 4})
for policy in ("fifo", "backfill:placement=consolidate", "sjf", "srtf:resume=3", "srsf", "las:queues=60/300,knob=2",
               "gittins:queues=100", "tiresias", "yarn-cs", "gandiva:resume=1", "hived"):
    result = replace(simulate(jobs, spec, policy, log=True), wall_seconds=0)
    print(policy, hashlib.sha256(repr(result).encode()).hexdigest())
"""


def digest(python: str, seed: str) -> str:
    # only our sources and PyYAML, which are pure Python: other packages are compiled for this version
    path = os.pathsep.join([str(ROOT), *([] if python == sys.executable else [str(Path(yaml.__file__).parent.parent)])])
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([python, "-c", SCRIPT], check=True, capture_output=True, text=True, env=env).stdout


def others() -> list[str]:
    """Other Pythons that work: pyenv's, or on the path; one of each version."""
    pythons: list[str] = []
    for minor in range(11, 16):
        pyenv = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        candidates = [*map(str, pyenv), shutil.which(f"python3.{minor}") or ""]
        if minor != sys.version_info.minor:
            pythons += [python for python in candidates if python and _works(python)][:1]
    return pythons


def _works(python: str) -> bool:
    return subprocess.run([python, "-c", "0"], capture_output=True, check=False).returncode == 0


def test_with_any_hash_seed() -> None:
    first = digest(sys.executable, "0")
    assert len(first.splitlines()) == 11
    assert digest(sys.executable, "4711") == first


@pytest.mark.parametrize("python", others() or [""])
def test_on_every_python(python: str) -> None:
    if not python:
        pytest.skip("no other Python on this machine")
    assert digest(python, "0") == digest(sys.executable, "0")
