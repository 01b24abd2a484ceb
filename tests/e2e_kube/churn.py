"""Gangs that come and go at random, and what must hold of the pods, read from the API server alone."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.e2e_kube.kubeapi import INFO, ISOLATION, SPEC, ApiError, Json, KubeApi, hived_pod, until

REST = 3.0
"""Seconds without any change after which pods have come to rest."""
STRONGEST = 10
"""The highest priority that comes."""
TRANSIENT = (OSError, ApiError)
"""What a server that has just been killed may answer."""


def gang(
    name: str, pods: int, leaves: int, vc: str, priority: int = 0, *, group: str = "", **more: object
) -> list[Json]:
    """The pods of a gang of their own."""
    members = [{"podNumber": pods, "leafCellNumber": leaves}]
    spec = {
        "virtualCluster": vc,
        "priority": priority,
        "leafCellNumber": leaves,
        "affinityGroup": {"name": group or f"default/{name}", "members": members},
        **more,
    }
    labels = {"labels": {"gang": name}}
    return [hived_pod(f"{name}-{i}", spec, metadata=labels) for i in range(pods)]


def faults(pods: list[Json], devices: Mapping[str, set[int]]) -> list[str]:
    """What is wrong with the pods of a cluster whose nodes have these devices; nothing of ours is asked."""
    found, taken = [], dict[tuple[str, int], str]()
    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if not node:
            continue
        noted = pod["metadata"].get("annotations", {})
        if ISOLATION not in noted or INFO not in noted:
            found.append(f"{name} is bound without its annotations")
            continue
        info, own = yaml.safe_load(noted[INFO]), [int(part) for part in noted[ISOLATION].split(",")]
        if info["node"] != node or info["leafCellIsolation"] != own:
            found.append(f"{name} is bound to {node} {own}, its bind info says {info['node']}")
        if not set(own) <= devices[node]:
            found.append(f"{name} has devices that {node} does not have: {own}")
        places = [place for row in info["affinityGroupBindInfo"] for place in row["podPlacements"]]
        if not any(p["physicalNode"] == node and p["physicalLeafCellIndices"] == own for p in places):
            found.append(f"{name} is not in its own group's placement")
        for device in own:
            other = taken.setdefault((node, device), name)
            if other != name:
                found.append(f"{name} and {other} both have device {device} of {node}")
    return found


def halves(pods: list[Json]) -> list[str]:
    """Gangs of which some pods are bound and others are not."""
    bound: dict[str, list[bool]] = defaultdict(list)
    for pod in pods:
        spec = json.loads(pod["metadata"]["annotations"][SPEC])
        bound[spec["affinityGroup"]["name"]].append(bool(pod["spec"].get("nodeName")))
    return [f"{name}: {sum(own)} of {len(own)} bound" for name, own in bound.items() if len(set(own)) > 1]


@dataclass
class Churn:
    """Random arrivals and departures of whole gangs."""

    api: KubeApi
    vcs: tuple[str, ...]
    devices: Mapping[str, set[int]]
    seed: int
    alive: list[str] = field(default_factory=list)
    made: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    """Pods of each gang that ever came."""
    torn: dict[str, float] = field(default_factory=dict)
    """Gangs of which only some pods are bound, and since when."""
    raided: tuple[str, ...] = ()
    """Virtual clusters in which others ask with higher priorities still."""
    strong: set[str] = field(default_factory=set)
    """Gangs that nobody can preempt."""
    checks: int = 0
    survived: int = 0
    """Pods that were found as they were before a kill, kill by kill."""

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311

    def step(self) -> None:
        """One gang comes or goes; a server that is away keeps nobody from going on."""
        if self.alive and self.dice.random() < 0.45 + 0.02 * len(self.alive):
            name = self.alive.pop(self.dice.randrange(len(self.alive)))
            for i in range(self.sizes[name]):
                self.tried(lambda i=i: self.api.delete(f"{name}-{i}"))
            return
        self.made += 1
        name = f"g{self.made}"
        self.alive.append(name)
        pods, leaves = self.dice.choice([(1, 1), (1, 2), (2, 2), (3, 1), (2, 4), (4, 4), (1, 4), (8, 1)])
        priority = self.dice.choice([-1, 0, 0, 5, STRONGEST])
        lazy = self.dice.random() < 0.3
        self.sizes[name] = pods
        vc = self.dice.choice(self.vcs)
        if priority == STRONGEST and vc not in self.raided:
            self.strong.add(name)
        made = gang(name, pods, leaves, vc, priority, lazyPreemptionEnable=lazy)
        for pod in made:
            self.tried(lambda pod=pod: self.api.create(pod))

    def tried(self, call: Any) -> None:
        """A request that may fail; a gang of which some could not be made simply waits."""
        with contextlib.suppress(*TRANSIENT):
            call()

    def check(self) -> None:
        """What must hold at every instant; raises while the server is away."""
        pods = self.api.pods()
        self.checks += 1
        assert not faults(pods, self.devices)

    def running(self) -> dict[str, Json]:
        """The pods that run and that nobody has deleted, by uid."""
        return {
            pod["metadata"]["uid"]: pod
            for pod in self.api.pods()
            if pod["spec"].get("nodeName") and pod["metadata"]["labels"].get("gang") in self.alive
        }

    def await_running(self, seconds: float = 10) -> None:
        """Until something runs, if anything can: a kill that meets nothing proves nothing, on a slow machine, too."""
        with contextlib.suppress(AssertionError):
            until(lambda: not self.alive or self.running(), seconds, "something runs")

    def check_survivors(self, before: Mapping[str, Json]) -> None:
        """Who ran before a kill runs on with the devices that it had; only the stronger may have taken its place."""
        now = {pod["metadata"]["uid"]: pod for pod in self.api.pods()}
        for uid, pod in before.items():
            name, found = pod["metadata"]["name"], now.get(uid)
            if found is None or found["metadata"].get("deletionTimestamp"):
                assert pod["metadata"]["labels"]["gang"] not in self.strong, f"{name} has been deleted"
                continue
            assert found["spec"]["nodeName"] == pod["spec"]["nodeName"], name
            assert found["metadata"]["annotations"][ISOLATION] == pod["metadata"]["annotations"][ISOLATION], name
            self.survived += 1

    def check_whole(self, seconds: float = 20) -> None:
        """Like `check`; and no gang has been bound in part for longer than bindings take."""
        pods, now = self.api.pods(), time.monotonic()
        self.checks += 1
        assert not faults(pods, self.devices)
        here = [pod for pod in pods if pod["metadata"]["labels"].get("gang") in self.alive]
        torn = {text.partition(":")[0]: text for text in halves(here)}
        self.torn = {name: self.torn.get(name, now) for name in torn}
        late = [torn[name] for name, since in self.torn.items() if now - since > seconds]
        assert not late, late

    def settle(self, seconds: float = 90) -> None:
        """When nothing comes or goes any more, something runs, and every gang whole or not at all.

        Nothing may have moved for a while: right after the last arrival nothing is bound in part, either.
        """
        moved, before = time.monotonic(), dict[str, str]()

        def at_rest() -> bool:
            nonlocal moved, before
            pods = self.api.pods()
            now = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in pods}
            if now != before:
                moved, before = time.monotonic(), now
            runs = any(now.values()) or not now
            return runs and not halves(pods) and time.monotonic() - moved > REST

        until(at_rest, seconds, lambda: "\n".join(halves(self.api.pods())) + self._plight())
        assert not faults(self.api.pods(), self.devices)

    def _plight(self) -> str:
        waiting = [pod["metadata"]["name"] for pod in self.api.pods() if not pod["spec"].get("nodeName")]
        return f"\n{self.api.plight(waiting)}"
