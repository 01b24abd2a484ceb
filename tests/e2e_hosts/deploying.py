"""`paictl deploy` on test hosts: the three files, the command as a user types it, what it leaves behind."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tools.hosts.lab import Lab

CGROUPS_V1 = """
  ignore_preflight_errors: [SystemVerification]
  kubelet: {failCgroupV1: false, cgroupDriver: cgroupfs, imageGCHighThresholdPercent: 100}
  swap: allowed
  etcd_arguments: {unsafe-no-fsync: 'true'}
  containerd: {restrict_oom_score_adj: true}
  kube_proxy: {conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"""
"""What test hosts need because their machine has control groups of version 1 and no disks to speak of."""
PASSWORD = f"kelp-{secrets.token_hex(8)}"
"""Of the user ops on the hosts of this session: found anywhere, it has come from here."""


@dataclass(frozen=True)
class DevBox:
    """A home of its own on the dev box, in which paictl is used."""

    lab: Lab
    home: Path

    def files(
        self, masters: Sequence[int], workers: Sequence[int], artifacts: Path, login: str, more: str = ""
    ) -> None:
        """Write the three files."""
        for name, numbers in (("master.csv", masters), ("worker.csv", workers)):
            (self.home / name).write_text("".join(f"h{i},{self.lab.address(i)}\n" for i in numbers))
        section = f"deploy:\n  cluster_name: lab\n  artifacts: {artifacts}\n{more}{CGROUPS_V1}"
        (self.home / "config.yaml").write_text(f"{login}docker_image_tag: v1.8.1\n{section}")
        config = self.home / "xdg/paictl"
        config.mkdir(parents=True, exist_ok=True)
        (config / "known_hosts").write_bytes(self.lab.known_hosts.read_bytes())

    def words(self, verb: str, *more: str) -> list[str]:
        """The command line, inside the network of the lab."""
        named = [f"-{name[0]}{self.home / name}" for name in ("master.csv", "worker.csv", "config.yaml")]
        return self.inside("deploy", verb, *named, *more)

    def inside(self, *words: str) -> list[str]:
        """Any command line of paictl, inside the network of the lab."""
        return [str(word) for word in (*self.lab.network.inside(), sys.executable, "-m", "paictl", *words)]

    @property
    def environment(self) -> dict[str, str]:
        """A user who has nothing yet, but for the caches of this machine."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        own = {"HOME": self.home, "XDG_CONFIG_HOME": self.home / "xdg", "XDG_STATE_HOME": self.home / "state"}
        return {
            **kept,
            "XDG_CACHE_HOME": cache,
            "PYTHONPATH": str(ROOT),
            **{name: str(path) for name, path in own.items()},
        }

    def paictl(self, verb: str, *more: str, codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        """Run `paictl deploy VERB` to its end."""
        return self._run(self.words(verb, *more), codes)

    def node(self, verb: str, *more: str, codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        """Run `paictl node VERB` with the three files to its end."""
        files = ["-m", "master.csv", "-w", "worker.csv", "-c", "config.yaml"]
        return self._run(self.inside("node", verb, *more, *files), codes)

    def other(self, *words: str, codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
        """Run any other command of paictl on the cluster to its end."""
        return self._run(self.inside(*words, "--cluster", "lab"), codes)

    def _run(self, words: Sequence[str], codes: Sequence[int]) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=1500,
            check=False,
            cwd=self.home,
        )
        assert done.returncode in codes, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, verb: str, *more: str) -> subprocess.Popen[bytes]:
        """Begin it, in a process group of its own as a shell does."""
        log = (self.home / "started.log").open("ab")
        with log:
            return subprocess.Popen(
                self.words(verb, *more), env=self.environment, stdout=log, stderr=log, cwd=self.home, process_group=0
            )

    def runs(self) -> list[Path]:
        """The folders of all runs, the oldest first."""
        return sorted((self.home / "state/paictl/runs").glob("*"))

    def events(self) -> list[dict[str, Any]]:
        """The events of the newest run that applies."""
        files = [path / "events.jsonl" for path in self.runs() if path.name.endswith("-deploy")]
        files = [path for path in files if path.is_file()]  # the folder is there before they are
        whole, _, _ = files[-1].read_text().rpartition("\n") if files else ("", "", "")  # the last may be half written
        return [json.loads(line) for line in whole.splitlines()]


def interrupt_in(box: DevBox, phase: str, how: signal.Signals, look: Callable[[], object]) -> int:
    """Apply, look around in the middle of a phase, and end it there; its exit code, 0 if the phase was not reached."""
    seen = len(box.events())
    process = box.start("apply", "--yes", "--kubernetes-only")
    end = time.monotonic() + 1200
    while process.poll() is None and time.monotonic() < end:
        fresh = box.events()[seen:]
        if any(one["event"] == "phase-said" and one["phase"] == phase for one in fresh):
            look()
            (os.killpg if how is signal.SIGINT else os.kill)(process.pid, how)
            break
        time.sleep(0.05)
    return process.wait(timeout=240)
