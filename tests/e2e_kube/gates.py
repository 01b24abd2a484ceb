"""The placer on a control plane, beside a stock kube-scheduler: nothing of that is configured but its kubeconfig."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from paictl.scheduler.wire import GATE
from tests.conftest import ROOT
from tests.e2e_kube.accounts import PAICTL, RESTRICTED, SPACE, install, refused, token, uninstall
from tests.e2e_kube.controlplane import HOST, ControlPlane, Program, answers, kubeconfig
from tests.e2e_kube.kubeapi import ApiError, KubeApi
from tests.e2e_kube.rig import Rig, add_nodes

STOCK: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"kubeconfig": "@KUBECONFIG@"},
    "leaderElection": {"leaderElect": False},
}
ACCOUNT: Final = "hivedscheduler-placer"


class Placer(Rig):
    """One placer (or more, with an election) with the rights of the printed manifests."""

    program = "placer"

    def install(self, *words: str) -> None:
        """Apply what `paictl placer config` prints."""
        with contextlib.suppress(ApiError):  # it already exists
            self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE, "labels": RESTRICTED}})
        command = [*PAICTL, "placer", "config", "--config", str(self.config), *words]
        text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
        self.objects = install(self.api, yaml.safe_load_all(text))
        kubeconfig(self.conf(ACCOUNT), self.plane.server, self.plane.folder / "ca.crt", token(self.api, ACCOUNT))

    def start(self, *words: str, port: int | None = None, name: str = "placer", wait: bool = True) -> Program:
        """Start a placer."""
        at = port or self.port
        command = [
            *PAICTL,
            "placer",
            "serve",
            "--config",
            str(self.config),
            "--kubeconfig",
            str(self.conf(ACCOUNT)),
            "--context",
            "x",
            "--listen",
            f"{HOST}:{at}",
            "--dump",
            str(self.folder),
            "--accounts",
            SPACE,
            *words,
        ]
        program = self.plane.run(name, command)
        if wait:
            program.wait_until(lambda: answers(f"http://{HOST}:{at}/readyz"))
        return program

    def ask(self, port: int) -> None:
        """From now on the one at that port is asked; kube-scheduler asks nobody."""
        self.port = port


@contextlib.contextmanager
def gates(
    plane: ControlPlane,
    api: KubeApi,
    config: Mapping[str, Any],
    folder: Path,
    *words: str,
    plugin: bool = False,
    setup: Iterable[str] = ("--no-policy",),
) -> Iterator[Placer]:
    """Placer and kube-scheduler run inside the block; `words` are for `paictl placer serve`, `setup` for its manifests.

    With `plugin` the nodes have their devices as ``nvidia.com/gpu``, and pods that ask the extender elsewhere carry the
    gate here.
    """
    made = Placer(plane, api, config, folder)
    api.plugin = api.gated = plugin
    try:
        made.install(*setup)
        api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {GATE: "enabled"}}})
        since = plane.audit.stat().st_size if plane.audit.exists() else 0
        add_nodes(api, config, plugin=plugin)
        api.await_nodes(len(api.get("/api/v1/nodes")["items"]))
        plane.start_scheduler(json.dumps(STOCK))
        made.start(*words)
        yield made
        assert not refused(plane, made.objects, since, account=ACCOUNT), "the manifests lack a right"
    finally:
        made.stop()
        api.plugin = api.gated = False
        api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {GATE: None}}})
        uninstall(api, made.objects)
        api.delete_all()
        api.call("DELETE", "/api/v1/nodes")
