"""kube-scheduler and the extender on a control plane, as processes, as `paictl extender config` configures them.

Each has a token of the service account that it runs under in a cluster, and no right beyond those of the manifests.
"""

from __future__ import annotations

import contextlib
import http
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.e2e_kube.accounts import EXTENDER, PAICTL, RESTRICTED, SCHEDULER, SPACE, install, printed, refused, token
from tests.e2e_kube.controlplane import HOST, ControlPlane, Program, answers, free_ports, kubeconfig
from tests.e2e_kube.kubeapi import PLUGIN, ApiError, Json, KubeApi


class Rig:
    """One extender (or more, with an election) and one kube-scheduler that asks the first of them."""

    program = "extender"
    """What decides, as its process and its metrics are called."""

    def __init__(self, plane: ControlPlane, api: KubeApi, config: Mapping[str, Any], folder: Path) -> None:
        self.plane = plane
        self.api = api
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "hivedscheduler.yaml"
        self.config.write_text(yaml.safe_dump(dict(config), sort_keys=False))
        self.port = free_ports(1)[0]
        self.reading: ssl.SSLContext | None = None
        """How `get` reaches an extender that speaks HTTPS, and `token` what it shows; None: by plain HTTP."""
        self.asking: ssl.SSLContext | None = None
        """How kube-scheduler does."""
        self.token = ""
        self.objects: list[Json] = []
        """What `install` has applied, as the API server has it."""

    @property
    def url(self) -> str:
        return f"http{'s' if self.reading else ''}://{HOST}:{self.port}"

    def conf(self, account: str) -> Path:
        """The kubeconfig of a service account."""
        return self.folder / f"{account}.conf"

    def install(self, *words: str) -> None:
        """Apply what `paictl extender config` prints, and take tokens of the accounts that it makes."""
        with contextlib.suppress(ApiError):  # it already exists
            self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE, "labels": RESTRICTED}})
        self.objects = install(self.api, printed("--config", str(self.config), *words))
        for account in (EXTENDER, SCHEDULER):
            kubeconfig(self.conf(account), self.plane.server, self.plane.folder / "ca.crt", token(self.api, account))

    def start_extender(
        self, *words: str, port: int | None = None, name: str = "extender", wait: bool = True
    ) -> Program:
        """Start the extender, or start it again; other words make it another program."""
        at = port or self.port
        program = self.plane.run(
            name,
            [
                *PAICTL,
                "extender",
                "serve",
                "--config",
                str(self.config),
                "--kubeconfig",
                str(self.conf(EXTENDER)),
                "--context",
                "x",
                "--listen",
                f"{HOST}:{at}",
                "--dump",
                str(self.folder),
                "--accounts",
                SPACE,
                "--maintenance",
                SPACE,
                *words,
            ],
        )
        if wait:
            program.wait_until(lambda: answers(f"http://{HOST}:{at}/readyz"))
        return program

    def start(self, *words: str, port: int | None = None, name: str = "extender", wait: bool = True) -> Program:
        """Start what decides, whichever door this is."""
        return self.start_extender(*words, port=port, name=name, wait=wait)

    def ask(self, port: int) -> None:
        """From now on the one at that port is asked; kube-scheduler knows one address, a Service in a cluster."""
        self.port = port
        self.start_scheduler()

    def start_scheduler(self, **changes: Any) -> None:
        """kube-scheduler with the configuration that paictl prints, but for this machine."""
        self.plane.start_scheduler(json.dumps(self.scheduler_configuration(**changes)), self.conf(SCHEDULER))

    def scheduler_configuration(self, **changes: Any) -> dict[str, Any]:
        (found,) = printed("--scheduler-only", "--no-tls")
        found["clientConnection"] = {"kubeconfig": "@KUBECONFIG@", "qps": 500, "burst": 1000}
        found["leaderElection"] = {"leaderElect": False}
        found["extenders"][0]["urlPrefix"] = f"{self.url}/v1/extender"
        return found | changes

    def get(self, path: str) -> Any:
        """A GET to the extender, as JSON."""
        return json.loads(self.text(path))

    def post(self, path: str, body: object) -> Any:
        """A POST to the extender, as kube-scheduler sends it."""
        request = urllib.request.Request(  # noqa: S310 - our own process
            f"{self.url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with _opener(self.asking).open(request, timeout=20) as reply:
            return json.load(reply)

    def text(self, path: str, accept: str = "*/*") -> str:
        headers = {"Accept": accept} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        request = urllib.request.Request(f"{self.url}{path}", headers=headers)  # noqa: S310
        end = time.monotonic() + 120
        while True:
            try:
                with _opener(self.reading).open(request, timeout=60) as reply:
                    return str(reply.read().decode())
            except urllib.error.HTTPError as error:  # after an explanation that took long, others have to wait
                if error.code != http.HTTPStatus.TOO_MANY_REQUESTS or time.monotonic() > end:
                    raise
            time.sleep(1)

    def stop(self) -> None:
        for name in ("kube-scheduler", self.program):
            if name in self.plane.programs:
                self.plane.programs[name].stop()


def _opener(context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    secure = [urllib.request.HTTPSHandler(context=context)] if context is not None else []
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *secure)


@contextlib.contextmanager
def rig(
    plane: ControlPlane, api: KubeApi, config: Mapping[str, Any], folder: Path, *words: str, plugin: bool = False
) -> Iterator[Rig]:
    """Both run inside the block, on the nodes that the configuration names; `words` are for `paictl extender serve`.

    With `plugin` the nodes have their devices as ``nvidia.com/gpu``, as a device plugin says it, and pods ask for them.
    """
    made = Rig(plane, api, config, folder)
    api.plugin = plugin
    try:
        made.install()
        since = plane.audit.stat().st_size if plane.audit.exists() else 0
        add_nodes(api, config, plugin=plugin)
        api.await_nodes(len(api.get("/api/v1/nodes")["items"]))
        made.start_extender(*words)
        made.start_scheduler()
        yield made
        assert not refused(plane, made.objects, since), "the manifests lack a right"
    finally:
        made.stop()
        api.plugin = False
        api.delete_all()
        api.call("DELETE", "/api/v1/nodes")


def add_nodes(api: KubeApi, config: Mapping[str, Any], *, plugin: bool) -> None:
    """The nodes of a configuration that are not there yet; those that are get the devices that it promises."""
    known = {node["metadata"]["name"]: node["status"]["allocatable"] for node in api.get("/api/v1/nodes")["items"]}
    by_size: dict[int, list[str]] = {}
    for name, devices in nodes_of(config).items():
        if name not in known:
            by_size.setdefault(devices, []).append(name)
        elif plugin and known[name].get(PLUGIN) != str(devices):
            amount = {PLUGIN: str(devices)}
            api.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": amount, "allocatable": amount}})
    for devices, names in by_size.items():
        api.add_nodes(names, **({"nvidia_com__gpu": str(devices)} if plugin else {}))


def nodes_of(config: Mapping[str, Any]) -> dict[str, int]:
    """The nodes of a configuration and their devices, by the same code that the engine uses."""
    from paictl.cells.spec import ClusterSpec
    from paictl.cells.tree import build_physical

    tree = build_physical(ClusterSpec.from_mapping(config))
    return {name: sum(len(tree.leaves(cell)) for cell in cells) for name, cells in tree.nodes.items()}
