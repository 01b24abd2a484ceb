"""An administrator's dev box: CSV files, config.yaml, a home of its own, and paictl in the network of the lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.hosts.lab import Lab

GROUP_V1: Mapping[str, Any] = {
    "ignore_preflight_errors": ["SystemVerification"],
    "kubelet": {"failCgroupV1": False, "cgroupDriver": "cgroupfs"},
    "containerd": {"restrict_oom_score_adj": True},
    "etcd_arguments": {"unsafe-no-fsync": "true"},
    "kube_proxy": {
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    },
}
"""What the test hosts need of Kubernetes because they are no real machines (docs/test-hosts.md)."""


@dataclass(frozen=True, slots=True)
class Site:
    """A deployment from the folder, on hosts of the lab; `login` and `deploy` go into config.yaml."""

    lab: Lab
    folder: Path
    masters: tuple[int, ...]
    workers: tuple[int, ...]
    login: Mapping[str, Any]
    deploy: Mapping[str, Any]

    def write(self) -> Site:
        """Write the files; itself."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, numbers in (("master.csv", self.masters), ("worker.csv", self.workers)):
            rows = [f"h{number},{self.lab.address(number)}\n" for number in numbers]
            (self.folder / name).write_text("".join(rows))
        config = {**self.login, "docker_image_tag": "v1.8.1", "deploy": dict(self.deploy)}
        (self.folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        return self

    def trusting(self) -> Site:
        """Know the hosts by the keys that they have now."""
        self.lab.trust()
        at = self.folder / "home/.config/paictl"
        at.mkdir(parents=True, exist_ok=True)
        (at / "known_hosts").write_bytes(self.lab.known_hosts.read_bytes())
        return self

    def having(self, **login: Any) -> Site:
        """The same site with another way to log in, its config.yaml written."""
        return replace(self, login=login).write()

    @property
    def files(self) -> list[str]:
        """The options that name the three files."""
        return ["-m", "master.csv", "-w", "worker.csv", "-c", "config.yaml"]

    def paictl(self, *words: str, seconds: float = 900) -> subprocess.CompletedProcess[str]:
        """Run paictl on the dev box, in the folder; its virtual environments stay in the real cache."""
        return self.lab.run(
            self.words(*words), check=False, seconds=seconds, environment=self.environment, folder=self.folder
        )

    def words(self, *words: str) -> list[str]:
        """The command line of paictl."""
        return [sys.executable, "-m", "paictl", *words]

    @property
    def environment(self) -> dict[str, str]:
        """A home of its own."""
        home = self.folder / "home"
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folders = {"XDG_CONFIG_HOME": home / ".config", "XDG_STATE_HOME": home / ".local/state"}
        return {"HOME": str(home), "XDG_CACHE_HOME": cache, **{name: str(path) for name, path in folders.items()}}


def site_of(lab: Lab, folder: Path, artifacts: Path, masters: Sequence[int], workers: Sequence[int]) -> Site:
    """A site whose user is `deploy` and whose hosts are known."""
    login = {"user": "deploy", "ssh_key_file_path": str(lab.key)}
    deploy = {"artifacts": str(artifacts), **GROUP_V1}
    return Site(lab, folder, tuple(masters), tuple(workers), login, deploy).write().trusting()
