"""What each door to the scheduler costs beside kube-scheduler alone: ``bench_doors.py [gang | NODES ...]``.

Six ways to bind single pods of one device, on a real control plane with kwok nodes of 8 devices, in one run: a stock
kube-scheduler (which counts nothing, or allocates devices by its own DRA), the extender and the placer, each with
devices by the environment and by claims. Without words at 64, 1,024 and 5,120 nodes: about half an hour.

It prints a table for docs/performance.md: pods a second from the first binding to the last, processor milliseconds a
pod of all programs together, both as medians over the rounds, and the load of the machine before each burst. Programs
are restarted for each burst, and no client is limited. Then come the bars of issue 19 with their verdicts; a bar that
is missed changes no exit code. Needs `make kube`.

``gang`` instead: how long one gang of 512 pods of 8 devices takes on 512 nodes until its last pod is bound, through
each door, by the environment. The doors run already; kube-scheduler has the limits that it has by default, those that
`paictl extender config` prints, or none. Some minutes.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.scheduler.wire import GATE
from tools.bench_kube import DEVICES, configuration, singles
from tools.bursts import Burst, Seen, burst, median, spent, told

Json = dict[str, Any]
SIZES: Final = {64: (480, 3), 1024: (480, 3), 5120: (240, 2)}
"""Pods and rounds by nodes."""
DRIVER: Final = "gpu.example.com"
API: Final = "/apis/resource.k8s.io/v1"
CLAIMS: Final = ("--devices", "claims", "--device-class", DRIVER, "--device-driver", DRIVER)
UNLIMITED: Final = {"qps": 5000, "burst": 5000}
GANG: Final = 512
"""Pods of one gang, each with all devices of a node."""
ROUNDS: Final = 3
WITHIN: Final = 10.0
"""Seconds from the creation of its last pod in which a gang is to be bound."""


@dataclass(frozen=True)
class Way:
    """A door, or none, and how devices are handed over."""

    door: str
    claims: bool

    @property
    def name(self) -> str:
        """As the table calls it."""
        if not self.door:
            return "kube-scheduler, its own DRA" if self.claims else "kube-scheduler alone"
        return f"{self.door}, {'claims' if self.claims else 'environment'}"


WAYS: Final = [Way(door, claims) for claims in (False, True) for door in ("", "extender", "gates")]


@dataclass
class Stand:
    """A control plane with nodes of 8 devices, their ResourceSlices, and the objects of both doors."""

    plane: Any
    api: Any
    nodes: int
    folder: Path
    loads: list[float] = field(default_factory=list)
    tenants: int = 4
    """Virtual clusters that share the nodes: one where a gang is to have all of them."""

    def __post_init__(self) -> None:
        from tests.e2e_kube.gates import Placer
        from tests.e2e_kube.rig import Rig

        self.names = [f"w{i:05}" for i in range(self.nodes)]
        config = configuration(self.nodes)
        if self.tenants == 1:
            config["virtualClusters"] = {"a": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": self.nodes}]}}
        self.extender = Rig(self.plane, self.api, config, self.folder / "extender")
        self.placer = Placer(self.plane, self.api, config, self.folder / "placer")
        known = {node["metadata"]["name"] for node in self.api.get("/api/v1/nodes")["items"]}
        new = [name for name in self.names if name not in known]
        self.api.add_nodes(new)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self._publish, new))
        self.api.await_nodes(self.nodes, 900)
        self.extender.install("--no-require-grants", *CLAIMS)
        self.placer.install("--no-policy", *CLAIMS)

    def _publish(self, node: str) -> None:
        """What a driver says about the devices of a node."""
        listed = [
            {
                "name": f"gpu-{index}",
                "attributes": {
                    "pcieBusID": {"string": f"0000:{index + 1:02x}:00.0"},
                    "uuid": {"string": f"GPU-{node}-{index}"},
                },
            }
            for index in range(DEVICES)
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
        self.api.call("POST", f"{API}/resourceslices", {"metadata": {"name": f"slice-{node}"}, "spec": spec})

    def _clear(self, way: Way) -> None:
        """Nothing of ours runs, and the namespace is guarded if the next way has a door."""
        for name in ("extender", "placer", "kube-scheduler"):
            if name in self.plane.programs:
                self.plane.programs[name].stop()
        guarded = {"metadata": {"labels": {GATE: "enabled" if way.door else None}}}
        self.api.patch("/api/v1/namespaces/default", guarded)
        time.sleep(2)  # until the API server's policies know

    def gang(self, way: Way, limits: Json) -> tuple[float, float, float]:
        """Seconds until the last pod of one gang is bound, since its first pod was created and since its last, and the
        processor seconds of all programs in the first of the two."""
        from tests.e2e_kube.controlplane import answers
        from tests.e2e_kube.kubeapi import devices

        self._clear(way)
        self._start(way, limits)()
        door = self.extender if way.door == "extender" else self.placer
        _until(lambda: answers(f"{door.url}/readyz"), "the door answers")
        group = {"name": "default/big", "members": [{"podNumber": GANG, "leafCellNumber": DEVICES}]}
        spec = {"virtualCluster": "a", "priority": 0, "leafCellNumber": DEVICES, "affinityGroup": group}
        made = [_pod(f"big-{number}", spec, way) for number in range(GANG)]
        self.loads.append(os.getloadavg()[0])
        with Seen(self.plane, "spec.nodeName!=") as bound:
            began, before = time.perf_counter(), spent(self.plane)
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(self.api.create, made))
            created = time.perf_counter()
            _until(lambda: len(bound.names) == GANG, lambda: f"{len(bound.names)} of the gang's pods are bound")
            cost = sum(now - before.get(name, 0.0) for name, now in spent(self.plane).items())
        held = {(pod["spec"]["nodeName"], device) for pod in self.api.pods() for device in devices(pod)}
        assert len(held) == GANG * DEVICES, "a device has been given twice"
        self.api.delete_all()
        return bound.last - began, bound.last - created, cost

    def run(self, way: Way, pods: int) -> Burst:
        """One burst, from a state without any pod or claim."""
        self._clear(way)
        made = [_pod(name, spec, way) for name, spec in singles(pods)]
        self.loads.append(os.getloadavg()[0])
        found = burst(self.plane, self.api, made, self._start(way), ready=self._claimed(pods) if way.claims else None)
        _until(lambda: not self.api.get(f"{API}/namespaces/default/resourceclaims")["items"], "no claim is left")
        return found

    def _claimed(self, pods: int) -> Callable[[], bool]:
        """Whether kube-controller-manager has made all claims."""
        path = f"{API}/namespaces/default/resourceclaims"
        return lambda: len(self.api.get(path)["items"]) >= pods

    def _start(self, way: Way, limits: Json = UNLIMITED) -> Callable[[], None]:
        words = CLAIMS if way.claims else ()
        client = {"clientConnection": {"kubeconfig": "@KUBECONFIG@", **limits}}
        if way.door == "extender":
            from tests.e2e_kube.accounts import printed

            (own,) = printed("--scheduler-only", "--no-tls", *words)
            asking = self.extender.scheduler_configuration(**client, profiles=own["profiles"])

            def start() -> None:
                self.extender.start_extender(*words)
                self.plane.start_scheduler(json.dumps(asking))

            return start
        from tests.e2e_kube.gates import STOCK

        stock = json.dumps(STOCK | client)

        def begin() -> None:
            self.plane.start_scheduler(stock)
            if way.door:
                self.placer.start(*words, wait=False)

        return begin


def _pod(name: str, spec: Json, way: Way) -> Json:
    """The same pod for all, but for what a way needs to be asked."""
    from tests.e2e_kube.kubeapi import GATED, MARKER, hived_pod

    made = hived_pod(name, spec)
    container = made["spec"]["containers"][0]
    container["resources"] = {}
    if not way.door:
        made["metadata"].pop("annotations")
        container.pop("env")
        made["spec"].pop("schedulerName")
    elif way.door == "gates":
        made["spec"] |= GATED
    else:
        container["resources"] = {"limits": {MARKER: 1}}
    if way.claims:
        made["spec"]["resourceClaims"] = [{"name": "cells", "resourceClaimTemplateName": "one"}]
        container["resources"]["claims"] = [{"name": "cells"}]
    return made


def _until(condition: Callable[[], object], what: str | Callable[[], str]) -> None:
    from tests.e2e_kube.kubeapi import until

    until(condition, 300, what)


def measured(stand: Stand, pods: int, rounds: int) -> dict[str, Burst]:
    """The medians of all ways, taken in turn."""
    found: dict[str, list[Burst]] = {way.name: [] for way in WAYS}
    for number in range(rounds):
        for way in WAYS:
            one = stand.run(way, pods)
            found[way.name].append(one)
            print(
                f"{stand.nodes:,} nodes, round {number + 1}: {way.name}: {one.bound:.0f} pods/s, load "
                f"{stand.loads[-1]:.1f}, {told(one.binding)}",
                file=sys.stderr,
                flush=True,
            )
    return {name: median(bursts) for name, bursts in found.items()}


def table(nodes: int, figures: dict[str, Burst]) -> Iterable[str]:
    """Rows of the table."""
    bare = figures["kube-scheduler alone"]
    for name, one in figures.items():
        cost = sum(one.binding.values())
        parts = ", ".join(f"{part} {ms:.1f}" for part, ms in sorted(one.binding.items(), key=lambda row: -row[1])[:3])
        yield f"| {nodes:,} | {name} | {one.bound:.0f} | {one.bound / bare.bound:.2f} | {cost:.1f} | {parts} |"


def bars(nodes: int, figures: dict[str, Burst]) -> Iterable[str]:
    """The bars of issue 19: pods a second, or processor a pod, which a busy machine changes less."""

    def verdict(what: str, rate: float, cost: float, least: float) -> str:
        met = "met" if max(rate, cost) >= least else "NOT MET"
        return f"{met}: {nodes:,} nodes: {what}: {rate:.2f} by the clock, {cost:.2f} by processor, wanted {least:g}"

    def against(name: str, other: str) -> tuple[float, float]:
        one, two = figures[name], figures[other]
        return one.bound / two.bound, sum(two.binding.values()) / sum(one.binding.values())

    bare, dra = "kube-scheduler alone", "kube-scheduler, its own DRA"
    if nodes == 1024:
        yield verdict("gates beside kube-scheduler alone", *against("gates, environment", bare), 0.85)
        yield verdict("extender beside kube-scheduler alone", *against("extender, environment", bare), 0.7)
        for door in ("gates", "extender"):
            yield verdict(f"{door} with claims beside DRA of its own", *against(f"{door}, claims", dra), 3)
            _, share = against(f"{door}, environment", f"{door}, claims")
            met = "met" if share <= 1.7 else "NOT MET"
            yield f"{met}: {nodes:,} nodes: {door}: claims cost {share:.2f} times the environment's, wanted at most 1.7"
    if nodes == 5120:
        yield verdict("gates beside kube-scheduler alone", *against("gates, environment", bare), 0.7)


def gang_times(stand: Stand) -> None:
    """Print how long a gang takes through each door, with the limits of kube-scheduler's client."""
    print(
        "| 512 pods by | requests of kube-scheduler | s since the last pod | since the first | processor s | rounds |"
    )
    print("| --- | --- | ---: | ---: | ---: | --- |")
    for door, name, limits in (
        ("extender", "200 a second (printed)", {"qps": 200, "burst": 400}),
        ("extender", "any number", UNLIMITED),
        ("gates", "50 a second (default)", {}),
        ("gates", "any number", UNLIMITED),
    ):
        found = [stand.gang(Way(door, claims=False), limits) for _ in range(ROUNDS)]
        whole, rest, cost = (statistics.median(row) for row in zip(*found, strict=True))
        rounds = ", ".join(f"{last:.1f}" for _, last, _ in found)
        met = "met" if rest <= WITHIN else "NOT MET"
        print(f"| {door} | {name} | {rest:.1f} | {whole:.1f} | {cost:.1f} | {rounds}: {met} |", flush=True)


def main() -> None:
    """Run what the command line says."""
    from tests.e2e_kube.controlplane import binaries, control_plane, missing
    from tests.e2e_kube.kubeapi import KubeApi

    if missing():
        sys.exit(f"{', '.join(missing())} not in {binaries()}: make kube")
    one_gang = sys.argv[1:] == ["gang"]
    sizes = [int(word) for word in sys.argv[1:] if word.isdecimal()] or list(SIZES)
    if set(sizes) - SIZES.keys() or (not one_gang and len(sizes) < len(sys.argv[1:])):
        sys.exit(__doc__)
    verdicts: list[str] = []
    loads: list[float] = []
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, kwok\n")
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder) / "cp") as plane:
        api = KubeApi(plane)
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        api.call("POST", f"{API}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}})
        request = {"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 1}}
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        api.call("POST", f"{API}/namespaces/default/resourceclaimtemplates", template)
        if one_gang:
            stand = Stand(plane, api, GANG, Path(folder) / "gang", tenants=1)
            gang_times(stand)
            print(f"\nLoad of the machine before each: median {statistics.median(stand.loads):.1f}.")
            return
        print("| nodes | scheduled by | pods/s | of alone | processor ms a pod | of it |")
        print("| ---: | --- | ---: | ---: | ---: | --- |")
        for nodes in sorted(sizes):
            stand = Stand(plane, api, nodes, Path(folder) / str(nodes))
            figures = measured(stand, *SIZES[nodes])
            print("\n".join(table(nodes, figures)), flush=True)
            verdicts += bars(nodes, figures)
            loads += stand.loads
    print(f"\nLoad of the machine before the bursts: median {statistics.median(loads):.1f}, at most {max(loads):.1f}.")
    print("\n".join(verdicts))


if __name__ == "__main__":
    main()
