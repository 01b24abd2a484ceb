"""An administrator's shell: `paictl` as a process, with a registry of clusters of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.e2e_kube.accounts import PAICTL
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.stages import DOOR


class Shell:
    """The control plane is known to it as the cluster pai."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        names = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        self.environment: Mapping[str, str] = {
            **os.environ,
            **{name: str(folder / name) for name in names},
            "PAICTL_CLUSTER": "pai",
            "COLUMNS": "200",
        }
        self.done("cluster", "add", "pai", "--kubeconfig", str(plane.kubeconfig), "--context", "x")

    def begun(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PAICTL, *words],
            cwd=ROOT,
            env=self.environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def tried(self, *words: str) -> tuple[int, str, str]:
        process = self.begun(*words)
        out, err = process.communicate(timeout=180)
        return process.returncode, out, err

    def done(self, *words: str) -> str:
        code, out, err = self.tried(*words)
        assert code == 0, f"{words}: {code}\n{out}\n{err}"
        return out

    def replayed(self, door: str, port: int, file: Path) -> tuple[str, dict[str, Any]]:
        """The record of a door whose process listens on a port, in a bundle, and what its replay says.

        The door's pod is one that kwok runs.
        """
        (self.plane.folder / DOOR).write_text(str(port))
        made = json.loads(self.tried("support", "bundle", "--file", str(file), "-o", "json")[1])
        assert "scheduler" not in made["missing"], made["missing"]
        assert {f"scheduler/{door}/metrics.txt", f"scheduler/{door}/readyz.txt"} <= set(made["files"])
        with tarfile.open(file) as tar:
            (member,) = [one for one in tar if one.name.endswith(f"/scheduler/{door}/decisions.json")]
            record = tar.extractfile(member)
            assert record is not None
            text = record.read().decode()
        return text, json.loads(self.done("support", "replay", str(file), "-o", "json"))

    def listed(self) -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in json.loads(self.done("service", "list", "-o", "json"))["items"]}

    def push(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.done("config", "push", "-p", str(self.folder), "--cluster-id", "pai")
