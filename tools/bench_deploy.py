"""How long deployment takes on test hosts: ``bench_deploy.py [HOSTS ...]``, 3 and 10 by default.

For each number: from bare hosts (one master, the others workers; artifacts at hand) until all nodes are Ready; a second
apply, which changes nothing; one worker more by `paictl node add`, configuration included. Wall time, for that is what
an administrator waits for: nothing else should run on the machine. Needs `make kube-hosts`. Ends with 1 where a wanted
figure is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.remote.ansible.environment import ansible_environment
from tests.e2e_hosts.deploying import DevBox
from tools.hosts import artifacts as packing
from tools.hosts.lab import Lab, obstacle
from tools.images.build import build

WANTED: Final = {3: 90.0, 10: 180.0}
"""Seconds from bare hosts to Ready, by number of hosts."""
ADD: Final = 45.0
"""Seconds of `node add`, whatever the size."""
SERVICES: Final = """\
rest-server:
  default-pai-admin-username: bench
  default-pai-admin-password: of a bench
  jwt-secret: of hosts
hivedscheduler:
  config: |
"""


def main(sizes: list[int]) -> int:
    """Print the figures; the exit code."""
    if reason := obstacle():
        sys.exit(reason)
    ansible_environment(say=print)
    folder = packing.folder(images=[built.path for built in build(print) if built.image == "paictl"])
    return max(measure(size, folder) for size in sizes)


def measure(size: int, artifacts: Path) -> int:
    """The figures of one size; whether one is missed."""
    lab = Lab(f"bench-{size}", owner=os.getpid())
    with tempfile.TemporaryDirectory(prefix="paictl-bench-") as home:
        try:
            lab.up(size + 1)
            lab.trust()
            box = DevBox(lab, Path(home))
            box.files([1], range(2, size + 1), artifacts, f"user: deploy\nssh_key_file_path: {lab.key}\n")
            wanted = WANTED.get(size, float("inf"))
            bare = timed(lambda: box.paictl("apply", "--yes", "--kubernetes-only"))
            again = timed(lambda: box.paictl("apply", "--yes", "--kubernetes-only"))
            push(box, size)
            added = timed(lambda: box.node("add", f"h{size + 1}", "--address", lab.address(size + 1)))
        finally:
            lab.down()
    missed = bare > wanted or again > bare / 4 or added > ADD
    print(
        f"{size} hosts: bare to Ready {bare:.0f} s (wanted {wanted:.0f}), second apply {again:.1f} s (wanted "
        f"{bare / 4:.0f}), node add {added:.0f} s (wanted {ADD:.0f}){', MISSED' * missed}",
        flush=True,
    )
    return int(missed)


def timed(action: Callable[[], object]) -> float:
    """Seconds on the wall."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def push(box: DevBox, size: int) -> None:
    """A configuration of which the machine that comes is to be a part."""
    names = [f"h{number}" for number in range(1, size + 1)]
    machines = [
        {
            "hostname": name,
            "hostip": box.lab.address(number),
            "machine-type": "box",
            "pai-master" if number == 1 else "pai-worker": "true",
        }
        for number, name in enumerate(names, 1)
    ]
    layout = {"machine-sku": {"box": {"mem": "8Gi", "cpu": {"vcore": 2}}}, "machine-list": machines}
    cells = {
        "physicalCluster": {
            "skuTypes": {"box": {"gpu": 0, "cpu": 1, "memory": "1024Mi"}},
            "cellTypes": {
                "NODE": {"childCellType": "box", "childCellNumber": 1, "isNodeLevel": True},
                "POOL": {"childCellType": "NODE", "childCellNumber": size - 1},
            },
            "physicalCells": [{"cellType": "POOL", "cellChildren": [{"cellAddress": name} for name in names[1:]]}],
        },
        "virtualClusters": {"default": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 1}]}},
    }
    folder = box.home / "cluster"
    folder.mkdir()
    (folder / "layout.yaml").write_text(yaml.safe_dump(layout, sort_keys=False))
    (folder / "services-configuration.yaml").write_text(SERVICES + textwrap.indent(yaml.safe_dump(cells), "    "))
    box.other("config", "push", "-p", str(folder), "--cluster-id", "lab")


if __name__ == "__main__":
    try:
        sys.exit(main([int(word) for word in sys.argv[1:]] or [3, 10]))
    except subprocess.SubprocessError as error:
        sys.exit(str(error))
