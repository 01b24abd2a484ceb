"""A containerd store with the images of an artifact folder, for tests that are not about how images come to a host."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tools.hosts.artifacts import programs
from tools.hosts.places import hosts, kept
from tools.hosts.shell import run, wait_until

_NAMESPACE = "k8s.io"
_NOT_NEEDED = ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")


def seed(artifacts: Path) -> Path:
    """The store, made if it is not in the cache; ``Lab(…, seed=…)`` gives each host a copy.

    Raises:
        LabError: containerd did not take an image.
    """
    return kept(hosts() / "seeds" / artifacts.parent.name, lambda at: _fill(at, artifacts))


def _fill(root: Path, artifacts: Path) -> None:
    """A containerd of our own on this machine: it only unpacks, so it needs no host."""
    state = root.with_suffix(".state")
    socket = state / "containerd.sock"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(mode=0o700)
    configuration = state / "config.toml"
    configuration.write_text(f"version = 3\ndisabled_plugins = {json.dumps(_NOT_NEEDED)}\n")
    server = programs("containerd") / "containerd"
    words: list[str | Path] = [server, "--config", configuration, "--root", root, "--state", state / "run"]
    with (state / "log").open("w") as log:
        process = subprocess.Popen([*words, "--address", socket], stdout=log, stderr=log)
    try:
        wait_until(socket.exists, "containerd answers")
        ctr = str(programs("containerd") / "ctr")
        for image in sorted((artifacts / "images").iterdir()):
            words = ["--address", socket, "--namespace", _NAMESPACE, "images", "import", image]
            run([ctr, *words], seconds=300)
    finally:
        process.terminate()
        process.wait()
    shutil.rmtree(state)
