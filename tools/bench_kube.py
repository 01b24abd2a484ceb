"""The extender's figures: ``bench_kube.py alone`` without a cluster, ``bench_kube.py real`` on a real control plane.

alone: filter and bind over HTTP at 1,024 and 16,384 nodes of 8 devices, the API server played; memory; restart.
real: pods per second through kube-scheduler with and without the extender, filter and bind as the extender sees them,
at 64 and 1,280 nodes; restart with 10,000 bound pods. Needs `make kube`; takes about ten minutes.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Allocation, Book
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth
from paictl.scheduler.wire import BIND_INFO, ISOLATION, bind_info_text, isolation_text, read_request

Json = dict[str, Any]
DEVICES = 8


def configuration(nodes: int) -> Json:
    """Racks of 32 nodes of 8 devices (2 sockets, 4 switches); four virtual clusters share them evenly."""
    per_rack = min(32, nodes // 4)
    racks, names = nodes // per_rack, [f"w{i:05}" for i in range(nodes)]
    return {
        "physicalCluster": {
            "cellTypes": {
                "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
                "SOCKET": {"childCellType": "SWITCH", "childCellNumber": 2},
                "NODE": {"childCellType": "SOCKET", "childCellNumber": 2, "isNodeLevel": True},
                "RACK": {"childCellType": "NODE", "childCellNumber": per_rack},
            },
            "physicalCells": [
                {"cellType": "RACK", "cellChildren": [{"cellAddress": n} for n in names[i * per_rack :][:per_rack]]}
                for i in range(racks)
            ],
        },
        "virtualClusters": {
            vc: {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": nodes // 4}]} for vc in ("a", "b", "c", "d")
        },
    }  # fmt: skip


def questions(number: int, offset: int = 0) -> Iterator[tuple[str, Json]]:
    """Names and specs: half of the pods alone with one device, half in gangs of 8 with 8 devices each."""
    for i in range(number):
        vc = "abcd"[i % 4] if i < number // 2 else "abcd"[i // 8 % 4]
        spec: Json = {"virtualCluster": vc, "priority": 0, "leafCellNumber": 1}
        if i >= number // 2:
            group = {"name": f"default/gang-{offset}-{i // 8}", "members": [{"podNumber": 8, "leafCellNumber": 8}]}
            spec |= {"leafCellNumber": 8, "affinityGroup": group}
        yield f"p{offset}-{i}", spec


def quantile(values: list[float], share: float) -> float:
    """Milliseconds."""
    found = sorted(values)
    return 1000 * found[min(len(found) - 1, math.ceil(share * len(found)) - 1)]


def rss() -> float:
    """MB of this process."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def alone(nodes: int, pods: int) -> None:
    """Over HTTP, with the API server played by the test; measured at the caller, so more than the extender sees."""
    from tests.unit.extender.harness import Harness, pod, served

    began = time.perf_counter()
    spec = ClusterSpec.from_mapping(configuration(nodes))
    harness = Harness(spec)
    names = [f"w{i:05}" for i in range(nodes)]
    harness.open(names)
    started = time.perf_counter() - began
    filters: list[float] = []
    binds: list[float] = []
    waits: list[float] = []
    with served(harness) as caller:
        for name, asked in questions(pods):
            made = harness.create(pod(name, asked))
            body = json.dumps({"Pod": made, "Nodes": None, "NodeNames": names}).encode()
            began = time.perf_counter()
            _, answer = caller.call("POST", "/v1/extender/filter", body)
            taken = time.perf_counter() - began
            if not answer["NodeNames"]:
                waits.append(taken)
                continue
            filters.append(taken)
            began = time.perf_counter()
            assert caller.bind(made, answer["NodeNames"][0]) == ""
            binds.append(time.perf_counter() - began)
        text = caller.call("GET", "/metrics")[1]
    print(f"alone, {nodes:,} nodes, {pods:,} pods: start {started:.1f} s, memory {rss():.0f} MB")
    for what, values in (("filter (bound)", filters), ("filter (waits)", waits), ("bind", binds)):
        if values:
            print(
                f"  {what} at the caller: {len(values)} calls, p50 {quantile(values, 0.5):.2f} ms, "
                f"p99 {quantile(values, 0.99):.2f} ms"
            )
    _seen(text)
    running = {name: dict(made) for name, made in harness.server.pods.items() if made["spec"].get("nodeName")}
    began = time.perf_counter()
    harness.begin(spec)
    harness.server.pods = running
    harness.open(names)
    print(f"  recovery of {len(running):,} bound pods without their list: {time.perf_counter() - began:.1f} s")


def _seen(text: str) -> None:
    """Quantiles of the extender's own histogram, interpolated inside a bucket."""
    for verb in ("filter", "bind"):
        rows = [
            (float(line.split('le="')[1].split('"')[0]), float(line.split()[1]))
            for line in text.splitlines()
            if line.startswith("paictl_extender_request_seconds_bucket{") and f'verb="{verb}"' in line
        ]
        if not rows or not rows[-1][1]:
            continue
        print(
            f"  {verb} as the extender sees it: {rows[-1][1]:.0f} calls, p50 {_at(rows, 0.5):.2f} ms, "
            f"p99 {_at(rows, 0.99):.2f} ms"
        )


def _at(rows: list[tuple[float, float]], share: float) -> float:
    """Milliseconds at a share of a histogram's calls, linear inside a bucket."""
    wanted, below, before = share * rows[-1][1], 0.0, 0.0
    for upper, count in rows:
        if count >= wanted:
            return 1000 * (below + (upper - below) * (wanted - before) / (count - before))
        below, before = upper, count
    return math.inf


def real() -> None:
    """On etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok."""
    from tests.e2e_kube.controlplane import control_plane
    from tests.e2e_kube.kubeapi import KubeApi
    from tests.e2e_kube.rig import Rig

    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder) / "cp") as plane:
        api = KubeApi(plane)
        for nodes, pods in ((64, 64), (1280, 1000)):
            config = configuration(nodes)
            known = {node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]}
            began = time.perf_counter()
            api.add_nodes(name for name in (f"w{i:05}" for i in range(nodes)) if name not in known)
            api.await_nodes(nodes, 600)
            print(f"real, {nodes:,} nodes (ready after {time.perf_counter() - began:.0f} s)", flush=True)
            rig = Rig(plane, api, config, Path(folder) / str(nodes))
            changes = {"clientConnection": {"kubeconfig": "@KUBECONFIG@", "qps": 5000, "burst": 5000}}
            plain = rig.scheduler_configuration(extenders=[], **changes)
            before = _spent(plane)
            rate = _rate(plane, api, [_plain(f"plain-{i}") for i in range(pods)], json.dumps(plain))
            cost = (_spent(plane) - before) / pods
            print(f"  kube-scheduler alone: {rate:.0f} pods/s, {1000 * cost:.0f} ms of processor a pod", flush=True)
            program = rig.start_extender()
            with_extender = json.dumps(rig.scheduler_configuration(**changes))
            before = _spent(plane)
            own = _rate(plane, api, [_hived(*one) for one in questions(pods)], with_extender)
            cost, mine = (_spent(plane) - before) / pods, program.processor_seconds() / pods
            print(
                f"  with the extender: {own:.0f} pods/s ({100 * own / rate:.0f} %), {1000 * cost:.0f} ms of processor "
                f"a pod, {1000 * mine:.1f} of them its own; {program.memory() >> 20} MB"
            )
            _seen(rig.text("/metrics"))
            sys.stdout.flush()
            rig.stop()
            api.delete_all()
        _restart(api, rig)


def _spent(plane: Any) -> float:
    """Processor seconds of everything that runs: on a busy machine a better measure than the clock."""
    return sum(program.processor_seconds() for program in plane.programs.values() if program.running)


def _restart(api: Any, rig: Any) -> None:
    """10,000 pods that run; from the start of the process to its first answer."""
    from tests.e2e_kube.controlplane import answers

    book = Book(Engine(ClusterSpec.from_mapping(configuration(1280))))
    for node in book.engine.state.physical.nodes:
        book.engine.observe(NodeHealth(node, healthy=True))
    pods = []
    for i in range(10_000):
        name, spec = f"r{i}", {"virtualCluster": "abcd"[i % 4], "priority": 0, "leafCellNumber": 1}
        found = book.place(read_request(spec, name, f"default/{name}"))
        assert isinstance(found, Allocation)
        made = _hived(name, spec)
        made["metadata"]["annotations"] |= {
            ISOLATION: isolation_text(found.info.devices), BIND_INFO: bind_info_text(found.info)
        }  # fmt: skip
        made["spec"]["nodeName"] = found.info.node
        pods.append(made)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(api.create, pods))
    began = time.perf_counter()
    program = rig.start_extender(wait=False)
    while not answers(f"{rig.url}/readyz"):
        assert program.running, program.tail()
        time.sleep(0.02)
    taken = time.perf_counter() - began
    bound = [
        line for line in rig.text("/metrics").splitlines() if line.startswith('paictl_extender_pods{state="bound"}')
    ]
    print(f"restart with {bound[0].split()[1]} bound pods, 1,280 nodes: {taken:.1f} s, {program.memory() >> 20} MB")


def _rate(plane: Any, api: Any, pods: Iterable[Json], configuration: str) -> float:
    """Pods per second: all are there, kube-scheduler starts, and time runs from the first binding to the last."""
    if "kube-scheduler" in plane.programs:
        plane.programs["kube-scheduler"].stop()
    made = list(pods)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(api.create, made))
    plane.start_scheduler(configuration)
    first, seen, end = 0.0, 0, time.perf_counter() + 300
    path = "/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName!=&limit=5000"
    while True:
        number, now = len(api.get(path)["items"]), time.perf_counter()
        if number and not first:
            first, seen = now, number
        if number == len(made):
            break
        assert now < end, f"only {number} of {len(made)} pods are bound"
        time.sleep(0.2)
    rate = (number - seen) / max(now - first, 0.001)
    api.delete_all()
    return rate


def _plain(name: str) -> Json:
    containers = [{"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}]
    body = {"schedulerName": "hivedscheduler", "containers": containers, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name}, "spec": body}


def _hived(name: str, spec: Json) -> Json:
    from tests.e2e_kube.kubeapi import hived_pod

    return hived_pod(name, spec)


def main() -> None:
    """Run what the command line says."""
    match sys.argv[1:]:
        case ["alone"]:
            for nodes, pods in ((1024, 2000), (16384, 4000)):  # each in a process of its own: memory is measured
                subprocess.run([sys.executable, __file__, "alone", str(nodes), str(pods)], check=True)
        case ["alone", nodes, pods]:
            alone(int(nodes), int(pods))
        case ["real"]:
            real()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
