"""What Alertmanager sends its news to: a web server on loopback that keeps them."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.e2e_kube.controlplane import HOST


class Hook:
    """The alerts that arrived, in their order."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.url = ""

    def has(self, name: str, status: str, **labels: str) -> bool:
        """Whether an alert of a name and with these labels has arrived: ``firing`` or ``resolved``."""
        wanted = {"alertname": name, **labels}.items()
        return any(one["status"] == status and wanted <= one["labels"].items() for one in self.alerts)


@contextlib.contextmanager
def hook() -> Iterator[Hook]:
    """It listens inside the block."""
    kept = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.alerts += json.loads(body)["alerts"]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    kept.url = f"http://{HOST}:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
