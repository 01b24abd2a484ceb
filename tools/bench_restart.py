"""How much processor time a restart costs: ``bench_restart.py [PODS] [NODES]``, 10,000 and 1,280 by default.

`paictl extender serve` as a process against a played API server that lists pods as a real one writes them; no cluster
is needed. Half of the pods are alone, half in gangs of 8. It prints the process's own seconds until it is ready.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import orjson
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Allocation, Book
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth
from paictl.scheduler.wire import BIND_INFO, ISOLATION, SCHEDULING_SPEC, bind_info_text, isolation_text, read_request
from tests.e2e_kube.controlplane import Program, answers, free_ports
from tools.bench_kube import configuration

Json = dict[str, Any]
PAGE = 500
FIELDS = {
    "manager": "kube-scheduler",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-11-22T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{i}": {} for i in range(20)}}},
}
"""Half of a real object is what its fields' managers wrote down."""


def running(number: int, config: Json) -> list[Json]:
    """Pods with their bind annotations, as the API server has them."""
    book = Book(Engine(ClusterSpec.from_mapping(config)))
    for node in book.engine.state.physical.nodes:
        book.engine.observe(NodeHealth(node, healthy=True))
    return [_bound(book, i, gang=i >= number // 2) for i in range(number)]


def _bound(book: Book, i: int, *, gang: bool) -> Json:
    name, spec = f"r{i}", {"virtualCluster": "abcd"[i // 8 % 4], "priority": 0, "leafCellNumber": 1}
    if gang:
        spec["affinityGroup"] = {"name": f"default/g{i // 8}", "members": [{"podNumber": 8, "leafCellNumber": 1}]}
    found = book.place(read_request(spec, name, f"default/{name}"))
    assert isinstance(found, Allocation)
    noted = {
        SCHEDULING_SPEC: orjson.dumps(spec).decode(),
        ISOLATION: isolation_text(found.info.devices),
        BIND_INFO: bind_info_text(found.info),
    }
    about = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(i), "annotations": noted}
    body = {"nodeName": found.info.node, "containers": [{"name": "c", "image": "none", "resources": {}}] * 2}
    conditions = [{"type": str(j), "status": "True", "lastTransitionTime": "2026-11-22T00:00:00Z"} for j in range(5)]
    return {
        "metadata": about | {"managedFields": [FIELDS] * 3},
        "spec": body,
        "status": {"phase": "Running", "conditions": conditions},
    }


def nodes(names: list[str]) -> list[Json]:
    """Node objects with everything that makes real ones large."""
    status = {
        "capacity": {"nvidia.com/gpu": "8"},
        "allocatable": {"nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": ["image" * 20] * 2}] * 30,
    }
    return [
        {
            "metadata": {"name": name, "uid": name, "resourceVersion": "1", "managedFields": [FIELDS] * 3},
            "spec": {},
            "status": status,
        }
        for name in names
    ]


class Played(BaseHTTPRequestHandler):
    """Lists page by page; a watch never has anything to say."""

    protocol_version = "HTTP/1.1"
    pages: ClassVar[dict[str, list[bytes]]] = {}
    done = threading.Event()

    def do_GET(self) -> None:
        """A page of a list, or the silence of a watch."""
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        if "watch" in query:
            self.done.wait(300)
            self.close_connection = True
            return
        data = self.pages[parts.path][int(query.get("continue", ["0"])[0])]
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing: standard output is for the figures."""


def paged(items: list[Json]) -> list[bytes]:
    """A list as the bodies of its pages."""
    parts = [items[i : i + PAGE] for i in range(0, len(items), PAGE)]
    return [
        orjson.dumps(
            {
                "metadata": {"resourceVersion": "9"} | ({"continue": str(i + 1)} if i + 1 < len(parts) else {}),
                "items": part,
            }
        )
        for i, part in enumerate(parts)
    ]


def main() -> None:
    """Run what the command line says."""
    pods, size = (int(word) for word in (sys.argv[1:] + ["10000", "1280"][len(sys.argv) - 1 :]))
    config = configuration(size)
    Played.pages = {
        "/api/v1/pods": paged(running(pods, config)),
        "/api/v1/nodes": paged(nodes([f"w{i:05}" for i in range(size)])),
    }
    server = ThreadingHTTPServer(("127.0.0.1", 0), Played)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        file, kubeconfig, port = Path(folder) / "hived.yaml", Path(folder) / "kubeconfig", free_ports(1)[0]
        file.write_text(yaml.safe_dump(config))
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "x",
                    "users": [{"name": "u", "user": {}}],
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
        words = [
            sys.executable,
            "-m",
            "paictl",
            "extender",
            "serve",
            "--config",
            str(file),
            "--kubeconfig",
            str(kubeconfig),
            "--listen",
            f"127.0.0.1:{port}",
        ]
        began = time.perf_counter()
        program = Program("extender", words, Path(folder) / "log")
        program.start()
        while not answers(f"http://127.0.0.1:{port}/readyz"):
            assert program.running, program.tail()
            time.sleep(0.02)
        print(
            f"restart with {pods:,} bound pods, {size:,} nodes: {program.processor_seconds():.1f} s of processor, "
            f"{time.perf_counter() - began:.1f} s by the clock, {program.memory() >> 20} MB"
        )
        program.stop()
    Played.done.set()


if __name__ == "__main__":
    main()
