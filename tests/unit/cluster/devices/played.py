"""ResourceClaims as the API server keeps them: versions, the allocation that must not change, finalizers."""

from __future__ import annotations

import copy
from typing import Any

from paictl.cluster.devices.claims import FINALIZER
from paictl.remote.kube.client import Json, KubeError

CLASS = "gpu.example.com"


class Killed(Exception):  # noqa: N818 - the process dies here
    """No further write is made."""


class PlayedServer:
    """Claims by namespace and name, and nodes. After `left` writes the process counts as killed."""

    def __init__(self) -> None:
        self.claims: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        """What was written into the status of pods, by uid."""
        self.left = -1
        self.version = 1
        self.writes: list[str] = []

    def add(self, name: str, pod: str, *counts: int, **exactly: Any) -> Json:
        """A claim that kube-controller-manager has made for a pod, with a request for each count."""
        requests = [
            {"name": f"r{at}", "exactly": {"deviceClassName": CLASS, "count": count, **exactly}}
            for at, count in enumerate(counts)
        ]
        owner = {"kind": "Pod", "name": pod, "uid": pod, "controller": True}
        about = {"namespace": "default", "name": name, "uid": f"uid-{name}", "ownerReferences": [owner]}
        self.version += 1
        about["resourceVersion"] = str(self.version)
        self.claims[f"default/{name}"] = {"metadata": about, "spec": {"devices": {"requests": requests}}, "status": {}}
        return self.claims[f"default/{name}"]

    def get(self, path: str, **_: object) -> Json:
        return copy.deepcopy(self._find(path)[0])

    def _find(self, path: str) -> tuple[Json, str]:
        parts = path.split("/")
        if parts[1] == "api":
            return self.nodes.setdefault(parts[4], {"metadata": {"name": parts[4]}}), ""
        found = self.claims.get(f"{parts[5]}/{parts[7]}")
        if found is None:
            raise KubeError("not found", status=404, reason="NotFound")
        return found, parts[8] if len(parts) > 8 else ""

    def request(self, method: str, path: str, body: Any = None, **_: object) -> Json:
        if self.left == 0:
            raise Killed
        if method == "POST":
            return self._make(body)
        assert method == "PATCH"
        if "/pods/" in path:
            self.left -= 1
            self.writes.append(f"status {path.split('/')[-2]}")
            self.pods[body["metadata"]["uid"]] = body["status"]
            return copy.deepcopy(body)
        found, part = self._find(path)
        about = found["metadata"]
        wanted = body["metadata"].get("resourceVersion", about.get("resourceVersion"))
        if wanted != about.get("resourceVersion") or body["metadata"].get("uid", about.get("uid")) != about.get("uid"):
            raise KubeError("the object has been modified", status=409, reason="Conflict")
        self.left -= 1
        self.version += 1
        self.writes.append(f"{part or 'metadata'} {about['name']}")
        if part == "status":
            self._set_status(found, body["status"])
        elif "finalizers" in body["metadata"]:
            about["finalizers"] = body["metadata"]["finalizers"]
        else:
            about.setdefault("annotations", {}).update(body["metadata"]["annotations"])
        about["resourceVersion"] = str(self.version)
        return copy.deepcopy(found)

    def _set_status(self, claim: Json, status: Json) -> None:
        if "reservedFor" in status:
            claim["status"]["reservedFor"] = status["reservedFor"] or []
        if "allocation" in status:
            self._set_allocation(claim, status["allocation"])

    def _make(self, body: Json) -> Json:
        about = body["metadata"]
        key = f"{about['namespace']}/{about['name']}"
        if key in self.claims:
            raise KubeError("already exists", status=409, reason="AlreadyExists")
        self.left -= 1
        self.version += 1
        self.writes.append(f"new {about['name']}")
        made = {**about, "uid": f"uid-{about['name']}", "resourceVersion": str(self.version)}
        self.claims[key] = {**copy.deepcopy(body), "metadata": made, "status": {}}
        return copy.deepcopy(self.claims[key])

    def _set_allocation(self, claim: Json, allocation: Json | None) -> None:
        status = claim["status"]
        if allocation is None:
            if status.get("reservedFor"):
                raise KubeError("allocation: must be set while reservedFor is not empty", status=422)
            status.pop("allocation", None)
            return
        if status.get("allocation") not in (None, allocation):
            raise KubeError("allocation: field is immutable", status=422)
        assert FINALIZER in claim["metadata"].get("finalizers", []), "an allocated claim could vanish"
        assert allocation["allocationTimestamp"]
        status["allocation"] = allocation

    def held(self) -> dict[tuple[str, str, str], str]:
        """The claim that holds each device; fails if two do."""
        found: dict[tuple[str, str, str], str] = {}
        for name, claim in self.claims.items():
            for one in ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results", ()):
                device = one["driver"], one["pool"], one["device"]
                assert device not in found, f"{device} is held by {found[device]} and {name}"
                found[device] = name
        return found
