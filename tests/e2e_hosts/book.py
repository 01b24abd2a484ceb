"""The textbook's lab on test hosts: its files, its jobs, its two reconfigurations, and the pods that come of them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from tests.conftest import ROOT
from tests.e2e_hosts.deploying import CGROUPS_V1, DevBox
from tools.hosts.artifacts import BUSYBOX, programs
from tools.hosts.shell import wait_until

T = TypeVar("T")
Json = dict[str, Any]

NAMES: Final = {1: "master1", 2: "worker1", 3: "worker2"}
"""As the textbook calls the machines; the hosts call themselves h1 to h3."""
SYSTEM: Final = "paictl-system"
JOBS: Final = "paictl-jobs"
KEY: Final = "paictl.io/key"
ISOLATION: Final = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"
TRAINING: Final = "python3 examples/mnist/main.py"
"""What the textbook's jobs run, in an image that no machine here can have."""
CHAPTERS: Final = (
    "01_deploy",
    "03_priority_preemption",
    "02_vc_safety",
    "02_vc_safety",
    "04_opportunistic",
    "02_vc_safety",
    "06_gang",
    "07_incremental",
)
"""The labs that have its jobs 0 to 7."""
DIVIDED: Final = {"vc1": ["worker1"], "default": ["worker2"]}
UNITED: Final = {"default": ["worker1", "worker2"]}
CELL: Final = {"gpu": 1, "cpu": 1, "memory": "4096Mi"}


@dataclass(frozen=True)
class Book:
    """A reader of the textbook at the dev box."""

    box: DevBox

    def write(self, artifacts: Path, password: str) -> None:
        """master.csv, worker.csv and config.yaml as printed, but for what test hosts need of Kubernetes."""
        lines = {number: f"{name},{self.box.lab.address(number)}\n" for number, name in NAMES.items()}
        (self.box.home / "master.csv").write_text(lines[1])
        (self.box.home / "worker.csv").write_text(lines[2] + lines[3])
        section = f"deploy:\n  artifacts: {artifacts}\n  offline: true{CGROUPS_V1}"
        login = f"user: ops\npassword: {password}\ndocker_image_tag: v1.8.1\n"
        (self.box.home / "config.yaml").write_text(login + section)
        config = self.box.home / "xdg/paictl"
        config.mkdir(parents=True, exist_ok=True)
        (config / "known_hosts").write_bytes(self.box.lab.known_hosts.read_bytes())

    def run(self, *words: str, text: str | None = None, codes: Sequence[int] = (0,)) -> str:
        """What a command of paictl writes."""
        done = subprocess.run(
            self.box.inside(*words),
            env=self.box.environment,
            cwd=self.box.home,
            input=text,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
        )
        assert done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def answering(self, answer: str, *words: str) -> str:
        """What a command shows on a terminal where somebody answers its question."""
        ours, its = pty.openpty()
        try:
            with subprocess.Popen(
                self.box.inside(*words),
                env=self.box.environment,
                cwd=self.box.home,
                stdin=its,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process:
                os.write(ours, f"{answer}\n".encode())
                shown, _ = process.communicate(timeout=400)
        finally:
            os.close(ours)
            os.close(its)
        assert process.returncode == 0, shown
        return shown

    def kubectl(self, *words: str) -> str:
        """As the administrator, beside paictl."""
        at = self.box.home / ".kube/config"
        return self.box.lab.run([programs("kubectl") / "kubectl", "--kubeconfig", at, *words]).stdout

    def items(self, kind: str, space: str = JOBS) -> list[Json]:
        """All objects of a kind in a namespace."""
        found: list[Json] = json.loads(self.kubectl("get", kind, "-n", space, "-o", "json"))["items"]
        return found

    def pods(self, name: str) -> list[Json]:
        """The pods of a job, in the order of their tasks, that nobody has deleted."""
        mine = [
            pod
            for pod in self.items("pods")
            if pod["metadata"]["annotations"].get(KEY, "").endswith(f"~{name}")
            and "deletionTimestamp" not in pod["metadata"]
        ]
        return sorted(mine, key=lambda pod: str(pod["metadata"]["name"]))

    def until(self, ask: Callable[[], T], wanted: Callable[[T], bool], what: str, seconds: float = 400) -> T:
        """Ask until the answer is as wanted; the answer."""
        found: list[T] = []

        def there() -> bool:
            found[:] = [ask()]
            return wanted(found[0])

        wait_until(there, what, seconds=seconds, pause=0.5)
        return found[0]

    def job(self, number: int, name: str = "", vc: str = "", training: str = "echo epochs of") -> str:
        """Submit a job of the textbook; its name.

        Its image and its program are others, and it asks for no more CPU and memory than the hosts have.
        """
        text = (ROOT / "labs" / CHAPTERS[number] / f"job-{number}.yaml").read_text()
        assert TRAINING in text
        data: Json = yaml.safe_load(text.replace(TRAINING, training))
        data["name"] = name or data["name"]
        data["prerequisites"][0]["uri"] = BUSYBOX
        data["taskRoles"]["train"]["resourcePerInstance"] |= {"cpu": 1, "memoryMB": 256}
        data["defaults"]["virtualCluster"] = vc or data["defaults"]["virtualCluster"]
        return self.submit(data)

    def submit(self, data: Mapping[str, Any], *words: str) -> str:
        """Submit a job; its name."""
        path = self.box.home / f"{data['name']}.yaml"
        path.write_text(yaml.safe_dump(dict(data)))
        self.run("job", "submit", str(path), *words)
        return str(data["name"])

    def runs(self, name: str, tasks: int = 1) -> list[Json]:
        """Wait until all tasks of a job run; their pods."""
        return self.until(
            lambda: self.pods(name), lambda pods: [phase(pod) for pod in pods] == ["Running"] * tasks, f"{name} runs"
        )

    def waits(self, name: str, tasks: int = 1) -> list[Json]:
        """Wait until the scheduler has said of all tasks of a job that they cannot run now; their pods."""
        return self.until(
            lambda: self.pods(name), lambda pods: len(pods) == tasks and all(map(refused, pods)), f"{name} waits"
        )

    def stop(self, *names: str) -> None:
        """End jobs, and wait until their pods have gone."""
        for name in names:
            self.run("job", "stop", name)
        gone = lambda: not any(phase(pod) in ("Running", "Pending") for name in names for pod in self.pods(name))  # noqa: E731
        wait_until(gone, f"{', '.join(names)} ended", seconds=400, pause=0.5)

    def reconfigure(self, vcs: Mapping[str, Sequence[str]], rest_server: Mapping[str, Any] | None = None) -> str:
        """The textbook's three commands, with a file of the sections that change; what they show."""
        folder = self.box.home / "-".join(("cluster", *vcs))
        folder.mkdir(exist_ok=True)
        sections = {
            "hivedscheduler": {"config": hived(vcs)},
            **({"rest-server": dict(rest_server)} if rest_server else {}),
        }
        text = yaml.safe_dump(sections)
        (folder / "services-configuration.yaml").write_text(text)
        services = ("-n", "rest-server", "hivedscheduler")
        shown = self.run("service", "stop", *services)
        shown += self.answering("pai", "config", "push", "-p", str(folder), "-m", "service")
        return shown + self.run("service", "start", *services)


def hived(vcs: Mapping[str, Sequence[str]]) -> str:
    """HiveD's configuration that promises workers of one GPU each to virtual clusters; each has a chain of its own."""
    kinds: Json = {}
    types: Json = {}
    cells: list[Json] = []
    promises: Json = {}
    for vc, workers in vcs.items():
        sku, node, pool = (f"GPU-{vc}{end}".upper() for end in ("", "-NODE", "-POOL"))
        kinds[sku] = CELL
        types[node] = {"childCellType": sku, "childCellNumber": 1, "isNodeLevel": True}
        types[pool] = {"childCellType": node, "childCellNumber": len(workers)}
        cells.append({"cellType": pool, "cellChildren": [{"cellAddress": worker} for worker in workers]})
        promises[vc] = {"virtualCells": [{"cellType": f"{pool}.{node}", "cellNumber": len(workers)}]}
    physical = {"skuTypes": kinds, "cellTypes": types, "physicalCells": cells}
    return yaml.safe_dump({"physicalCluster": physical, "virtualClusters": promises})


def phase(pod: Json) -> str:
    """Of a pod."""
    return str(pod["status"].get("phase"))


def refused(pod: Json) -> bool:
    """Whether the scheduler has looked at a pod and found no place."""
    conditions = pod["status"].get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def places(pods: Sequence[Json]) -> list[str]:
    """The nodes of pods, sorted; a pod that nobody has placed has none."""
    return sorted(pod["spec"].get("nodeName", "-") for pod in pods)


def lives(pods: Sequence[Json]) -> list[tuple[str, int]]:
    """What tells whether anything has happened to pods: their ids, and how often their containers began anew."""
    return [(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in pods]
