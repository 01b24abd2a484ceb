"""Everything that happens to pods and claims, by watching: what must never be so, not even for a moment."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from paictl.scheduler.wire import SCHEDULING_SPEC
from tests.e2e_hosts.book import ISOLATION
from tests.e2e_hosts.hostsapi import HostsApi, RefusedError

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ENDED = ("Succeeded", "Failed")
_QUIET = 0.2
"""Seconds before a stream that ended is opened again."""


class Held:
    """Who holds which device; a device that two hold is a fault, from the version on that says so."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._own: dict[str, frozenset[tuple[str, str]]] = {}
        self._names: dict[str, str] = {}
        self.faults: list[str] = []

    def set(self, uid: str, name: str, devices: frozenset[tuple[str, str]]) -> None:
        """From now on an object holds these."""
        for other, taken in self._own.items():
            if other != uid and taken & devices:
                both = f"{self._kind} {name} and {self._names[other]}"
                self.faults.append(f"{both} hold {sorted(taken & devices)} at once")
        self._names[uid] = name
        self._own[uid] = devices
        if not devices:
            del self._own[uid]

    def clear(self) -> None:
        """A list follows that says all anew."""
        self._own.clear()


class History:
    """Watches until the end of the block; what it has seen of pods is there for the test."""

    def __init__(self, api: HostsApi) -> None:
        self._api = api
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._held = {PODS: Held("pods"), CLAIMS: Held("claims")}
        self.pods: dict[str, Json] = {}
        """The last version of every pod that there ever was, by name."""
        self.gone: set[str] = set()
        """Names of pods that have been deleted."""
        self.versions: Counter[str] = Counter()
        """Versions seen of each kind."""
        self.lists: Counter[str] = Counter()
        """How often a stream had to begin anew with a list: two for each death of the API server."""
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._follow, args=(path,), daemon=True) for path in (PODS, CLAIMS)]

    def __enter__(self) -> History:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)  # a stream ends with the next news, or when nothing has come for as long

    @property
    def faults(self) -> list[str]:
        """Devices that two pods or two claims held at one moment."""
        with self._lock:
            return [*self.errors, *(fault for held in self._held.values() for fault in held.faults)]

    def snapshot(self) -> tuple[dict[str, Json], set[str]]:
        """The last version of every pod, and who is gone."""
        with self._lock:
            return dict(self.pods), set(self.gone)

    def _follow(self, path: str) -> None:
        while not self._stop.is_set():
            try:
                listed = self._api.call("GET", path)
                self._take_list(path, listed["items"])
                self._stream(path, listed["metadata"]["resourceVersion"])
            except (OSError, http.client.HTTPException, RefusedError, ValueError):
                pass  # the API server has been killed
            except Exception as error:  # else nobody would look at devices any more
                self.errors.append(f"the watch of {path} ended: {error!r}")
                return
            self._stop.wait(_QUIET)

    def _stream(self, path: str, version: str) -> None:
        """Follow changes; a stream that ends is resumed at its last version where the server still has it."""
        while not self._stop.is_set():
            with suppress(OSError, http.client.HTTPException, ValueError):
                for event in self._api.watch(path, version):
                    if event["type"] == "ERROR":
                        return
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(path, event["object"], gone=event["type"] == "DELETED")
            self._stop.wait(_QUIET)

    def _take_list(self, path: str, items: list[Json]) -> None:
        with self._lock:
            self.lists[path] += 1
            self._held[path].clear()
            if path == PODS:
                names = {item["metadata"]["name"] for item in items}
                self.gone |= self.pods.keys() - names
        for item in items:
            self._take(path, item, gone=False)

    def _take(self, path: str, item: Json, *, gone: bool) -> None:
        name = item["metadata"]["name"]
        with self._lock:
            self.versions[path] += 1
            devices = frozenset[tuple[str, str]]() if gone else _devices(path, item)
            self._held[path].set(item["metadata"]["uid"], name, devices)
            if path == PODS:
                self.pods[name] = item
                if gone:
                    self.gone.add(name)


def _devices(path: str, item: Json) -> frozenset[tuple[str, str]]:
    """What an object holds: (node, device) by a pod's annotation while it is bound, by a claim's allocation."""
    if path == CLAIMS:
        allocation = (item.get("status") or {}).get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        return frozenset((one["pool"], one["device"]) for one in results)
    noted, node = item["metadata"].get("annotations") or {}, item["spec"].get("nodeName")
    if not node or ISOLATION not in noted or item["status"].get("phase") in ENDED:
        return frozenset()
    return frozenset((node, f"gpu-{part}") for part in noted[ISOLATION].split(","))


class Gangs:
    """Gangs of which only some pods run, and for how long."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self.longest = 0.0
        """Seconds that a gang was in part: bindings take time, and longer while a program starts again."""

    def look(self, pods: Mapping[str, Json], gone: set[str], deleted: set[str], now: float) -> list[str]:
        """Gangs in part now, with seconds; `deleted` are the pods that the test has deleted.

        `now` are seconds of a clock that stands still while there is no API server: nobody can bind then.
        """
        members: dict[str, list[str]] = defaultdict(list)
        sizes: dict[str, int] = {}
        for name, pod in pods.items():
            spec = json.loads((pod["metadata"].get("annotations") or {}).get(SCHEDULING_SPEC, "{}"))
            if not spec or name in deleted:
                continue
            group = spec["affinityGroup"]
            sizes[group["name"]] = sum(member["podNumber"] for member in group["members"])
            members[group["name"]].append("gone" if name in gone else _state(pod))
        torn = dict[str, list[str]]()
        for gang, states in members.items():
            states += ["missing"] * (sizes[gang] - len(states))
            # one that has ended is whole for good: the rest of its gang may be evicted or end as well
            if "bound" in states and {"waits", "gone", "missing"} & set(states):
                torn[gang] = states
        self._since = {gang: self._since.get(gang, now) for gang in torn}
        self.longest = max([self.longest, *(now - since for since in self._since.values())])
        return [f"{gang} {torn[gang]} for {now - since:.0f} s" for gang, since in self._since.items()]


def _state(pod: Json) -> str:
    if pod["status"].get("phase") in ENDED:
        return "ended"
    return "bound" if pod["spec"].get("nodeName") else "waits"
