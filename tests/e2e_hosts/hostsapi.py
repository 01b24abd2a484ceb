"""The API server of test hosts, asked from this process; it may be killed at any moment."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tools.hosts.network import Network

Json = dict[str, Any]
T = TypeVar("T")
PATIENCE = 180.0
"""Seconds that an API server may be away; kubelet starts it again."""


class RefusedError(AssertionError):
    """An answer outside 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status} {body[:500]}")
        self.status = status


class _Connection(http.client.HTTPSConnection):
    """To a host of a lab: the connection is opened on the dev box."""

    def __init__(self, network: Network, host: str, context: ssl.SSLContext) -> None:
        super().__init__(host, context=context, timeout=30)
        self._network = network

    def connect(self) -> None:
        with self._network.entered():
            super().connect()


class HostsApi:
    """Requests as the administrator of a kubeconfig; a connection for each thread."""

    def __init__(self, network: Network, kubeconfig: Path) -> None:
        data = yaml.safe_load(kubeconfig.read_text())
        cluster, user = data["clusters"][0]["cluster"], data["users"][0]["user"]
        self._context = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        pair = kubeconfig.with_name("admin.pem")
        pair.touch(mode=0o600)
        pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
        self._context.load_cert_chain(pair)
        self._host = cluster["server"].removeprefix("https://")
        self._network = network
        self._own = threading.local()
        self._all: list[http.client.HTTPSConnection] = []

    def open(self) -> http.client.HTTPSConnection:
        """A connection of one's own."""
        return _Connection(self._network, self._host, self._context)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer as JSON, once. Raises `RefusedError`, `OSError`, `http.client.HTTPException`."""
        connection = self._connection()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": kind})
            reply = connection.getresponse()
            text = reply.read().decode()
        except (OSError, http.client.HTTPException):
            connection.close()  # it opens itself again
            raise
        if reply.status >= 300:
            raise RefusedError(reply.status, text)
        return json.loads(text)

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._all:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        if getattr(self._own, "connection", None) is None:
            self._own.connection = self.open()
            self._all.append(self._own.connection)
        return self._own.connection  # type: ignore[no-any-return]

    def patiently(self, method: str, path: str, body: object = None) -> Any:
        """The same, asked again while there is no API server; what it has refused for good is raised."""
        return patiently(lambda: self.call(method, path, body))

    def listed(self, path: str) -> list[Json]:
        """All objects there."""
        items: list[Json] = self.patiently("GET", path)["items"]
        return items

    def create(self, path: str, body: Json) -> None:
        """Made, perhaps by an API server that was killed before it could say so."""
        try:
            self.patiently("POST", path, body)
        except RefusedError as error:
            if error.status != 409:
                raise

    def delete(self, path: str) -> None:
        """Gone or going."""
        try:
            self.patiently("DELETE", path)
        except RefusedError as error:
            if error.status != 404:
                raise

    def watch(self, path: str, version: str) -> Iterator[Json]:
        """What happens to objects from a version on, until the server ends the stream or dies."""
        connection = self.open()
        try:
            connection.request("GET", f"{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}")
            reply = connection.getresponse()
            if reply.status >= 300:
                raise RefusedError(reply.status, reply.read().decode())
            while line := reply.readline():
                yield json.loads(line)
        finally:
            connection.close()


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while nobody answers, or the server cannot answer yet."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except (OSError, http.client.HTTPException, ValueError):
            if time.monotonic() > end:
                raise
        except RefusedError as error:
            if not _passing(error) or time.monotonic() > end:
                raise
        time.sleep(0.2)


def _passing(error: RefusedError) -> bool:
    """An API server that has just started knows neither accounts nor rights."""
    return error.status in (401, 403, 429, 500, 502, 503, 504)
