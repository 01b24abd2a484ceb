"""An API server in memory: core objects by path, resource versions, conflicts; it can be cut off at any request."""

# ruff: noqa: ARG002 - the signatures are those of the client
from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from paictl.remote.kube.client import JSON, READ, Json, KubeClient, KubeError

START = datetime(2026, 11, 22, 5, 0, tzinfo=UTC)


class FakeKube(KubeClient):
    """`before` and `after` are called with the number of each request, around its effect."""

    def __init__(self, objects: dict[str, Json] | None = None) -> None:
        self.server, self.context, self.authority, self.date = "https://fake:6443", "fake", "system", START
        self.objects: dict[str, Json] = {} if objects is None else objects
        oldest = {"metadata": {"name": "kube-system", "creationTimestamp": _stamp()}}
        self.objects.setdefault("/api/v1/namespaces/kube-system", oldest)
        self.requests: list[tuple[str, str]] = []
        self.user = "ann"
        """As whom it knows this client; empty: it does not say."""
        self.lacks: tuple[str, ...] = ()
        """Kinds that it does not have."""
        self.before: Callable[[int], None] = lambda _: None
        self.after: Callable[[int], None] = lambda _: None

    def again(self) -> FakeKube:
        """The same server, as another process reaches it."""
        return FakeKube(self.objects)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, object] | None = None,
        kind: str = JSON,
        timeout: float = READ,
    ) -> Json:
        number = len(self.requests)
        self.requests.append((method, path))
        self.before(number)
        try:
            return copy.deepcopy(self._done(method, path, copy.deepcopy(body), dict(query or {})))
        finally:
            self.after(number)

    def _done(self, method: str, path: str, body: Any, query: dict[str, object]) -> Json:
        if path == "/version":
            return {"gitVersion": "v1.37.1"}
        if any(f"/{kind}" in path for kind in self.lacks):
            raise _error(404, "the server could not find the requested resource")
        if method == "POST":
            return self._posted(path, body)
        if method == "GET" and path.rpartition("/")[2] in (
            "configmaps",
            "secrets",
            "nodes",
            "pods",
            "daemonsets",
            "poddisruptionbudgets",
            "usagebooks",
            "namespaces",
        ):
            return {"items": self._listed(path, query)}
        if path not in self.objects:
            raise _error(404, "is not there")
        if method == "DELETE":
            wanted = ((body or {}).get("preconditions") or {}).get("resourceVersion")
            if wanted not in (None, self.objects[path]["metadata"].get("resourceVersion")):
                raise _error(409, "the object has been modified")
            return self.objects.pop(path)
        if method == "PUT":
            if body["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
                raise _error(409, "the object has been modified")
            return self._kept(path, body)
        if method == "PATCH":
            self._merge(self.objects[path], body)
        return self.objects[path]

    def _posted(self, path: str, body: Any) -> Json:
        if path.endswith("/selfsubjectreviews"):
            if not self.user:
                raise _error(403, "you may not ask who you are")
            return {"status": {"userInfo": {"username": self.user}}}
        if path.endswith("/eviction"):
            return self._evicted(path.removesuffix("/eviction"), body)
        if path.startswith("/api/v1/namespaces/") and path.rpartition("/")[0] not in self.objects:
            raise _error(404, "the namespace is not there")
        path = f"{path}/{body['metadata']['name']}"
        if path in self.objects:
            raise _error(409, "already exists")
        body["metadata"]["creationTimestamp"] = _stamp()
        return self._kept(path, body)

    def _evicted(self, path: str, body: Any) -> Json:
        if path not in self.objects:
            raise _error(404, "the pod is not there")
        return self.objects[path] if body["deleteOptions"].get("dryRun") else self.objects.pop(path)

    def _merge(self, known: Json, body: Json) -> None:
        known.setdefault("spec", {}).update(body.get("spec", {}))
        about = body.get("metadata", {})
        if about.get("resourceVersion") not in (None, known["metadata"].get("resourceVersion")):
            raise _error(409, "the object has been modified")
        if "annotations" in about:
            known["metadata"].setdefault("annotations", {}).update(about["annotations"])

    def _listed(self, path: str, query: dict[str, object]) -> list[Json]:
        found = [one for at, one in self.objects.items() if at.rpartition("/")[0] == path]
        phase = str(query.get("fieldSelector", "")).partition("status.phase=")[2]
        if phase:
            found = [one for one in found if one["status"]["phase"] == phase]
        return [one for one in found if _selected(one, str(query.get("labelSelector", "")))]

    def _kept(self, path: str, body: Json) -> Json:
        newest = max((int(one["metadata"].get("resourceVersion", 0)) for one in self.objects.values()), default=0)
        body["metadata"]["resourceVersion"] = str(newest + 1)
        self.objects[path] = body
        return body

    def of(self, kind: str, namespace: str = "paictl-system") -> dict[str, Json]:
        """Objects of a kind by name."""
        start = f"/api/v1/namespaces/{namespace}/{kind}/"
        return {path.removeprefix(start): one for path, one in self.objects.items() if path.startswith(start)}


def _selected(found: Json, selector: str) -> bool:
    labels = found["metadata"].get("labels") or {}
    return all(
        name[1:] not in labels if name.startswith("!") else name in labels and (not value or labels[name] == value)
        for name, _, value in (word.partition("=") for word in selector.split(",") if word)
    )


def _error(status: int, message: str) -> KubeError:
    return KubeError(message, status=status, where="fake")


def _stamp() -> str:
    return START.isoformat().replace("+00:00", "Z")
