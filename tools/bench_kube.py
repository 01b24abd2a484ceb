"""The extender's figures: ``bench_kube.py [alone | real [64 | 1024]]``; without a word both, as far as they can be had.

alone: recorded questions over HTTP at 1,024 and 16,384 nodes of 8 devices, the API server played; memory; restart.
real: on a real control plane at 64 and 1,024 nodes of 8 devices, pods per second through kube-scheduler without the
extender, and with it for single pods and for gangs of 8, all in one run and to be judged by their ratio, until all are
bound and until all run (`bursts` says why both), medians of three rounds: a neighbour on the machine takes a third of
one. Filter and bind as the extender sees them;
restart with 10,000 bound pods (on 1,280 nodes: 1,024 have too few devices).
Needs `make kube`, without which it is left out, saying so; takes about twelve minutes.

Each figure that is wanted is followed by its verdict (`met` or `NOT MET`, and value over wanted value). A figure that
is missed changes no exit code: on a machine that is busy, the clock says little.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.cells.spec import ClusterSpec
from paictl.scheduler.book import Allocation, Book
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import NodeHealth
from paictl.scheduler.wire import BIND_INFO, ISOLATION, bind_info_text, isolation_text, read_request
from tools.bursts import Burst, burst, median, told

Json = dict[str, Any]
DEVICES = 8
ROUNDS = 3
RECORDED = (Path(__file__).resolve().parent.parent / "tests" / "data" / "recorded-filter.json").read_text()
"""A question of kube-scheduler 1.37.1, of which names, annotations and nodes are exchanged."""


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
    }


def singles(number: int) -> Iterator[tuple[str, Json]]:
    """Names and specs of pods with one device each."""
    for i in range(number):
        yield f"single-{i}", {"virtualCluster": "abcd"[i % 4], "priority": 0, "leafCellNumber": 1}


def gangs(number: int, leaves: int = 8) -> Iterator[tuple[str, Json]]:
    """Names and specs of gangs of 8 pods with `leaves` devices each, so many pods altogether."""
    for i in range(number):
        group = {"name": f"default/gang-{i // 8}", "members": [{"podNumber": 8, "leafCellNumber": leaves}]}
        spec = {"virtualCluster": "abcd"[i // 8 % 4], "priority": 0, "leafCellNumber": leaves, "affinityGroup": group}
        yield f"gang-{i}", spec


def judge(what: str, value: float, wanted: float, unit: str, *, least: bool = False) -> None:
    """Say whether a figure is what issue 10 wants, and by how much of it."""
    met = value >= wanted if least else value <= wanted
    print(
        f"  {'met' if met else 'NOT MET'}: {what}: {value:.4g} {unit}, wanted at {'least' if least else 'most'} "
        f"{wanted:g} {unit} (ratio {value / wanted:.2f})",
        flush=True,
    )


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
        for name, asked in (*singles(pods // 2), *gangs(pods // 2)):
            made = harness.create(_as_recorded(pod(name, asked)))
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
    memory = rss()
    print(f"alone, {nodes:,} nodes, {pods:,} pods: start {started:.1f} s, memory {memory:.0f} MB")
    for what, values in (("filter (bound)", filters), ("filter (waits)", waits), ("bind", binds)):
        if values:
            print(
                f"  {what} at the caller: {len(values)} calls, p50 {quantile(values, 0.5):.2f} ms, "
                f"p99 {quantile(values, 0.99):.2f} ms"
            )
    seen = _seen(text)
    judge(f"p99 of filter at {nodes:,} nodes, alone", seen["filter"], 5 if nodes <= 1024 else 20, "ms")
    judge(f"memory at {nodes:,} nodes, HTTP's other end with it", memory, 500, "MB")
    running = {name: dict(made) for name, made in harness.server.pods.items() if made["spec"].get("nodeName")}
    began = time.perf_counter()
    harness.begin(spec)
    harness.server.pods = running
    harness.open(names)
    print(f"  recovery of {len(running):,} bound pods without their list: {time.perf_counter() - began:.1f} s")


def _as_recorded(made: Json) -> Json:
    """A pod with all that a real one carries in kube-scheduler's question (`tests/data/recorded-filter.json`)."""
    recorded = json.loads(RECORDED)["Pod"]
    return {"metadata": recorded["metadata"] | made["metadata"], "spec": recorded["spec"], "status": recorded["status"]}


def _seen(text: str) -> dict[str, float]:
    """Quantiles of the extender's own histogram, interpolated inside a bucket; the p99 by verb, milliseconds."""
    p99 = {}
    for verb in ("filter", "bind"):
        rows = [
            (float(line.split('le="')[1].split('"')[0]), float(line.split()[1]))
            for line in text.splitlines()
            if line.startswith("paictl_extender_request_seconds_bucket{") and f'verb="{verb}"' in line
        ]
        if not rows or not rows[-1][1]:
            continue
        p99[verb] = _at(rows, 0.99)
        print(
            f"  {verb} as the extender sees it: {rows[-1][1]:.0f} calls, p50 {_at(rows, 0.5):.2f} ms, "
            f"p99 {p99[verb]:.2f} ms"
        )
    return p99


def _at(rows: list[tuple[float, float]], share: float) -> float:
    """Milliseconds at a share of a histogram's calls, linear inside a bucket."""
    wanted, below, before = share * rows[-1][1], 0.0, 0.0
    for upper, count in rows:
        if count >= wanted:
            return 1000 * (below + (upper - below) * (wanted - before) / (count - before))
        below, before = upper, count
    return math.inf


def real(nodes: int = 0) -> None:
    """On etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok; only so many nodes, or all rows."""
    from tests.e2e_kube.controlplane import control_plane
    from tests.e2e_kube.kubeapi import KubeApi

    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder) / "cp") as plane:
        api = KubeApi(plane)
        for size, pods in ((64, 480), (1024, 1000)):
            if nodes in (0, size):
                rig = _rig(plane, api, size, Path(folder))
                _compare(rig, size, pods)
                rig.stop()
        if not nodes:
            _restart(api, _rig(plane, api, 1280, Path(folder)))


def _rig(plane: Any, api: Any, nodes: int, folder: Path) -> Any:
    """A rig for so many nodes, all of them ready."""
    from tests.e2e_kube.rig import Rig

    known = {node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]}
    began = time.perf_counter()
    api.add_nodes(name for name in (f"w{i:05}" for i in range(nodes)) if name not in known)
    api.await_nodes(nodes, 600)
    print(f"real, {nodes:,} nodes (ready after {time.perf_counter() - began:.0f} s)", flush=True)
    rig = Rig(plane, api, configuration(nodes), folder / str(nodes))
    rig.install()
    return rig


def _compare(rig: Any, nodes: int, pods: int) -> None:
    """The same kube-scheduler without the extender and with it, in turn; medians over the rounds."""
    changes = {"clientConnection": {"kubeconfig": "@KUBECONFIG@", "qps": 5000, "burst": 5000}}
    plain = json.dumps(rig.scheduler_configuration(extenders=[], **changes))
    own = json.dumps(rig.scheduler_configuration(**changes))
    number, leaves = 8 * (pods // 8), min(DEVICES, DEVICES * nodes // pods)  # as large as so many pods can be
    kinds = {
        "kube-scheduler alone": ([_plain(f"plain-{i}") for i in range(pods)], plain),
        "with the extender, single pods": ([_hived(*one) for one in singles(number)], own),
        "with the extender, gangs of 8": ([_hived(*one) for one in gangs(number, leaves)], own),
    }
    found: dict[str, list[Burst]] = {what: [] for what in kinds}
    program = None
    for _ in range(ROUNDS):
        for what, (made, how) in kinds.items():
            if how is own:
                program = rig.start_extender()
            else:
                rig.stop()
            found[what].append(burst(rig.plane, rig.api, made, partial(rig.plane.start_scheduler, how)))
    alone = median(found["kube-scheduler alone"])
    for what, bursts in found.items():
        one = median(bursts)
        parts = (("bound", one.bound, alone.bound, one.binding), ("running", one.run, alone.run, one.whole))
        for state, rate, of_alone, cost in parts:
            print(
                f"  {what}: {len(kinds[what][0])} pods, {ROUNDS} times: {rate:.0f} pods/s until all are {state} "
                f"({100 * rate / of_alone:.0f} %); processor until then: {told(cost)}",
                flush=True,
            )
            if kinds[what][1] is own:
                share = 100 * rate / of_alone
                judge(f"pods a second {what}, {nodes:,} nodes, until all are {state}", share, 50, "%", least=True)
    assert program is not None, "two of the rows start it"
    print(f"  memory of the extender: {program.memory() >> 20} MB")
    seen = _seen(rig.text("/metrics"))
    judge(f"p99 of filter at {nodes:,} nodes behind kube-scheduler", seen["filter"], 5, "ms")


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
            ISOLATION: isolation_text(found.info.devices),
            BIND_INFO: bind_info_text(found.info),
        }
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
    number = int(float(bound[0].split()[1]))
    print(f"restart with {number:,} bound pods, 1,280 nodes: {taken:.1f} s, {program.memory() >> 20} MB")
    judge("seconds of a restart with 10,000 bound pods", taken, 10, "s")


def _plain(name: str) -> Json:
    containers = [{"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}]
    body = {"schedulerName": "hivedscheduler", "containers": containers, "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name}, "spec": body}


def _hived(name: str, spec: Json) -> Json:
    from tests.e2e_kube.kubeapi import hived_pod

    return hived_pod(name, spec)


def _sizes() -> None:
    """Alone, each size in a process of its own: memory is measured."""
    for nodes, pods in ((1024, 2000), (16384, 4000)):
        subprocess.run([sys.executable, __file__, "alone", str(nodes), str(pods)], check=True)


def main() -> None:
    """Run what the command line says."""
    from tests.e2e_kube.controlplane import binaries, missing

    absent = f"{', '.join(missing())} not in {binaries()}: make kube" if missing() else ""
    match sys.argv[1:]:
        case ["alone"]:
            _sizes()
        case ["alone", nodes, pods]:
            alone(int(nodes), int(pods))
        case ["real", *_] if absent:
            sys.exit(absent)
        case ["real"]:
            real()
        case ["real", ("64" | "1024") as nodes]:
            real(int(nodes))
        case []:
            _sizes()
            print(f"real control plane: left out ({absent})") if absent else real()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
