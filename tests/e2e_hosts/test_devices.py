"""Which devices containers have, by both doors, while programs die: on hosts with kubelet, containerd, a DRA driver.

The driver brings a variable and a device node for each device. Each container writes down what it has, and when, into a
folder of its host: what it has is what the pod's annotation names, and no device is ever in two containers at once.
`make e2e-devices` looks into 500 pods by each door and kills 60 programs.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import re
import socket
import sys
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.scheduler.wire import GATE, SCHEDULING_SPEC
from tests.conftest import ROOT
from tests.e2e_hosts.book import ISOLATION
from tests.e2e_hosts.history import CLAIMS, ENDED, PODS, Gangs, History
from tests.e2e_hosts.hostsapi import HostsApi, RefusedError
from tests.e2e_hosts.site import Site, site_of
from tests.e2e_kube.controlplane import Program
from tools.hosts.artifacts import BUSYBOX, programs
from tools.hosts.gpu import drive
from tools.hosts.lab import Lab
from tools.hosts.machine import Machine
from tools.hosts.shell import wait_until

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1",
    reason="builds a driver of DRA: make e2e-devices",
)
Json = dict[str, Any]
DEVICES = 8
WANTED = int(os.environ.get("PAICTL_E2E_PODS", "40"))
"""Pods of gangs that are looked into, by each door."""
KILLS = int(os.environ.get("PAICTL_E2E_KILLS", "6"))
"""Programs that die meanwhile, by each door."""
SEED = int(os.environ.get("PAICTL_E2E_SEED", "17"))
WORKERS = (2, 3)
CROWD = 24
"""Pods that have not ended at one time: half of them wait."""
TORN = 60.0
"""Seconds with an API server after which a gang of which only some pods are bound is in part: bindings take time."""
CLASS = "gpu.nvidia.com"
RECORD = "/opt/record"
SCRIPT = """\
read -r now rest </proc/uptime; echo "at $now" >>$RECORD
for node in /dev/gpu-*; do [ -e $node ] && echo "device ${node#/dev/gpu-}" >>$RECORD; done
env | sed -n 's/^GPU_\\([0-9]*\\)=here$/variable \\1/p' >>$RECORD
while [ $BEATS -gt 0 ]; do
  sleep 0.2; read -r now rest </proc/uptime; echo "at $now" >>$RECORD; BEATS=$((BEATS - 1))
done
"""
"""What a container does: seconds since the machine's start, which all hosts share, say when it had its devices."""
FORGED = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] + [
    {"name": f"GPU_{number}", "value": "here"} for number in range(DEVICES)
]
CELLS: Json = {
    "physicalCluster": {
        "cellTypes": {
            "SWITCH": {"childCellType": "GPU", "childCellNumber": 4},
            "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 2},
        },
        "physicalCells": [{"cellType": "RACK", "cellChildren": [{"cellAddress": "h2"}, {"cellAddress": "h3"}]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 1}]},
        "B": {"virtualCells": [{"cellType": "RACK.NODE.SWITCH", "cellNumber": 2}]},
    },
}


@pytest.fixture(scope="module")
def lab_seed(seeded: Path) -> Path:
    """How images come to hosts is tested elsewhere."""
    return seeded


@pytest.fixture(scope="module")
def site(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A master and two workers with eight devices each; what dies often there is not kept waiting for longer."""
    lab.up(3)
    bare = site_of(lab, tmp_path_factory.mktemp("site"), artifacts, [1], WORKERS)
    kubelet = {**bare.deploy["kubelet"], "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"}}
    made = replace(bare, deploy={**bare.deploy, "kubelet": kubelet}).write()
    done = made.paictl("deploy", "apply", "--yes", "--kubernetes-only", *made.files, seconds=900)
    assert done.returncode == 0, done.stderr
    admin = (lab.machine(1).root / "etc/kubernetes/admin.conf").read_text()
    for number in WORKERS:
        drive(lab.machine(number), programs("dradriver") / "dra-driver", admin, DEVICES)
    (made.folder / "admin.conf").write_text(admin)
    (made.folder / "hivedscheduler.yaml").write_text(yaml.safe_dump(CELLS, sort_keys=False))
    return made


@pytest.fixture(scope="module")
def api(site: Site) -> Iterator[HostsApi]:
    """The API server with the class of the devices, once both workers have published theirs."""
    made = HostsApi(site.lab.network, site.folder / "admin.conf")
    selector = {"cel": {"expression": f"device.driver == '{CLASS}'"}}
    spec = {"selectors": [selector], "extendedResourceName": "nvidia.com/gpu"}
    group = "/apis/resource.k8s.io/v1"
    made.create(f"{group}/deviceclasses", {"metadata": {"name": CLASS}, "spec": spec})
    for count in (1, 2, 4, 8):
        made.create(f"{group}/namespaces/default/resourceclaimtemplates", template(count))
    wait_until(lambda: len(made.listed(f"{group}/resourceslices")) == 2, "the devices of both workers", seconds=60)
    yield made
    made.close()


@dataclass(frozen=True)
class Door:
    """One of the doors on the dev box; the extender with a kube-scheduler of its own."""

    name: str
    site: Site
    program: Program
    port: int
    killer: ThreadPoolExecutor
    """One thread: what it starts ends with it (`Program`), so it is there as long as the door."""

    def groups(self) -> object:
        """The gangs that it has placed."""
        with self.site.lab.network.entered():
            reply = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/inspect/affinitygroups/", timeout=10)
        with reply:
            return json.load(reply)["items"]


@pytest.fixture(params=["extender", "gates"])
def door(site: Site, api: HostsApi, request: pytest.FixtureRequest) -> Iterator[Door]:
    port, extender = _free_port(), request.param == "extender"
    words = ["--config", "hivedscheduler.yaml", "--kubeconfig", "admin.conf", "--listen", f"127.0.0.1:{port}"]
    verb = "extender" if extender else "placer"
    ours = [sys.executable, "-m", "paictl", verb, "serve", *words, "--devices", "claims"]
    started = [_program(site, f"door-{request.param}", ours)]
    labels = {"labels": {GATE: None if extender else "enabled"}}
    api.patiently("PATCH", "/api/v1/namespaces/default", {"metadata": labels})
    if extender:
        printed = site.paictl("extender", "config", "--scheduler-only", "--no-tls", "--devices", "claims").stdout
        config = yaml.safe_load(printed)
        config["clientConnection"] = {"kubeconfig": str(site.folder / "admin.conf"), "qps": 100, "burst": 200}
        config["leaderElection"] = {"leaderElect": False}
        config["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{port}/v1/extender"
        (site.folder / "scheduler.yaml").write_text(yaml.safe_dump(config))
        program = programs("kube-scheduler") / "kube-scheduler"
        more = ["--secure-port", "0", "--config", str(site.folder / "scheduler.yaml")]
        started.append(_program(site, "scheduler", [str(program), *more]))
    with ThreadPoolExecutor(1) as killer:
        try:
            yield Door(request.param, site, started[0], port, killer)
        finally:
            for each in started:
                each.stop()
            api.delete(f"{PODS}?gracePeriodSeconds=0")  # what a failed test has left


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _program(site: Site, name: str, words: list[str]) -> Program:
    inside = [str(word) for word in (*site.lab.network.inside(), "env", f"--chdir={site.folder}", *words)]
    made = Program(name, inside, site.folder / f"{name}.log", {"PYTHONPATH": str(ROOT)})
    made.start()
    return made


def template(devices: int) -> Json:
    request = {"name": "devices", "exactly": {"deviceClassName": CLASS, "count": devices}}
    return {"metadata": {"name": f"devices-{devices}"}, "spec": {"spec": {"devices": {"requests": [request]}}}}


def container(pod: str, name: str, beats: int, *, forges: bool) -> Json:
    """A container that writes down what it has; one that forges sets all variables by itself."""
    own = [{"name": "RECORD", "value": f"{RECORD}/{pod}.{name}"}, {"name": "BEATS", "value": str(beats)}]
    return {
        "name": name,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SCRIPT],
        "env": own + (FORGED if forges else []),
        "volumeMounts": [{"name": "record", "mountPath": RECORD}],
    }


def pod(name: str, containers: list[Json], **more: Any) -> Json:
    record = {"name": "record", "hostPath": {"path": RECORD, "type": "DirectoryOrCreate"}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": [record], "containers": containers}
    metadata = {"name": name, "annotations": more.pop("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **more}}


def gang(door: str, name: str, dice: random.Random) -> list[Json]:
    """A random gang: claims behind the gates, plain pods for the extender; some forge, some have company."""
    pods, devices = dice.choice([(1, 1), (1, 2), (2, 2), (3, 1), (2, 4), (1, 4), (1, 8), (4, 1)])
    priorities = [-1, 0, 5] if pods * devices <= 4 else [0, 5]  # so many devices would never be lent
    spec = {
        "virtualCluster": "A" if devices == 8 else dice.choice("AB"),
        "priority": dice.choice(priorities),
        "leafCellNumber": devices,
        "affinityGroup": {"name": f"default/{name}", "members": [{"podNumber": pods, "leafCellNumber": devices}]},
    }
    beats, forges, company = dice.randrange(1, 12), dice.random() < 0.2, dice.random() < 0.2
    made = []
    for number in range(pods):
        own = f"{name}-{number}"
        main = container(own, "main", beats, forges=forges)
        more: Json = {"annotations": {SCHEDULING_SPEC: json.dumps(spec)}}
        if door == "gates":
            main["resources"] = {"claims": [{"name": "devices"}]}
            more["schedulingGates"] = [{"name": GATE}]
            more["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": f"devices-{devices}"}]
        else:
            main["resources"] = {"limits": {"nvidia.com/gpu": str(devices)}}
            more["schedulerName"] = "hivedscheduler"
        beside = [container(own, "beside", 1, forges=True)] if company else []
        made.append(pod(own, [main, *beside], **more))
    return made


@dataclass
class Records:
    """What containers have written down, read from their hosts' folders."""

    machines: dict[str, Machine]
    spans: dict[tuple[str, str], list[tuple[float, float, str]]] = field(default_factory=lambda: defaultdict(list))
    """When each (node, device) was in which container: seconds since the machine's start."""

    def check(self, pod: Json, *, evicted: bool = False) -> bool:
        """Whether its main container has run; each of its containers has what the annotation says, or nothing."""
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        noted = (pod["metadata"].get("annotations") or {}).get(ISOLATION, "")
        ran = False
        for each in pod["spec"]["containers"]:
            path = self.machines[node].root / RECORD[1:] / f"{name}.{each['name']}" if node else None
            if path is None or not path.exists():
                assert evicted, f"{name}: its container {each['name']} has written nothing down"
                continue
            text = path.read_text()
            nodes, variables = _numbers(text, "device"), _numbers(text, "variable")
            own = {int(part) for part in noted.split(",")} if noted and each["name"] == "main" else set[int]()
            whole = text.count("at ") > 1 or not evicted
            assert nodes == own or not whole, f"{name} on {node}: {each['name']} has {sorted(nodes)}, not {sorted(own)}"
            if whole and not any(one["name"] == "GPU_0" for one in each["env"]):
                assert variables == own, f"{name} on {node}: {each['name']} is told {sorted(variables)}"
            times = [float(word) for word in re.findall(r"^at ([\d.]+)$", text, re.MULTILINE)]
            for device in nodes:
                self.spans[node, f"gpu-{device}"].append((times[0], times[-1], name))
            ran |= each["name"] == "main"
        return ran

    def overlaps(self) -> list[str]:
        """Devices that two containers had at one time."""
        found = []
        for (node, device), spans in self.spans.items():
            spans.sort()
            for (_, end, name), (start, _, other) in itertools.pairwise(spans):
                if start <= end:
                    found.append(f"{device} of {node} is in {name} until {end} and in {other} from {start} on")
        return found


def _numbers(text: str, word: str) -> set[int]:
    return set(map(int, re.findall(rf"^{word} (\d+)$", text, re.MULTILINE)))


@dataclass
class Killer:
    """Programs die at random moments of the whole run; who ends is started again, as kubelet and systemd do."""

    door: Door
    dice: random.Random
    seen: int = 0
    """Pods that the test has looked into: how far the run is."""
    killed: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    """How often the door ended by itself: without an API server it cannot start."""
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Killer:
        self._running = self.door.killer.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._running.result()

    @property
    def done(self) -> bool:
        """Whether all kills are done; raises what kept it from killing."""
        if self._running.done():
            self._running.result()
        return self.killed.total() >= KILLS

    def _run(self) -> None:
        due = sorted(self.dice.uniform(0, WANTED) for _ in range(KILLS))
        while not self._over.wait(0.1):
            if not self.door.program.running:
                self.restarts += 1
                self.door.program.start()
                self._over.wait(1)
            if (number := self.killed.total()) < KILLS and self.seen >= due[number]:
                self._over.wait(self.dice.uniform(0.1, 3))
                self._kill()

    def _kill(self) -> None:
        name = self.dice.choices(["door", "kube-apiserver", "kube-controller-manager", "kubelet"], (4, 1, 2, 3))[0]
        if name == "door":
            self.door.program.kill()
            self.door.program.start()
            self.killed[name] += 1
        else:
            host = self.dice.choice(WORKERS) if name == "kubelet" else 1
            self.killed[name] += _kill_in(self.door.site.lab.machine(host), name)


def _kill_in(machine: Machine, name: str) -> bool:
    """kill -9 of a program on a host, by its id; whether it was running."""
    pid = machine.execute(["pgrep", "-o", "-f", f"^([^ ]*/)?{name} "], check=False).stdout.strip()
    return bool(pid) and machine.execute(["kill", "-9", pid], check=False).returncode == 0


@dataclass
class Run:
    """Gangs come as others end, until enough of their pods have been looked into and all kills are done."""

    door: Door
    api: HostsApi
    history: History
    records: Records
    dice: random.Random
    made: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    cut: int = 0
    """Pods without a controller that failed because their kubelet was killed while it started a container."""
    seen: int = 0
    forgers: int = 0
    """Of those seen, pods of which a container set all variables by itself."""
    without: int = 0
    """Pods without any request that were looked into: they have nothing."""
    gangs: Gangs = field(default_factory=Gangs)
    number: int = 0
    up: float = 0.0
    """Seconds in which there was an API server."""
    looked: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.monotonic)

    def arrive(self) -> None:
        """A gang, and now and then a pod that asks for nothing and takes all."""
        self.number += 1
        name = f"{self.door.name}-{self.number}"
        made = gang(self.door.name, name, self.dice)
        if self.dice.random() < 0.15:
            made.append(pod(f"{name}-without", [container(f"{name}-without", "main", 2, forges=True)]))
        for each in made:
            self.made.add(each["metadata"]["name"])
            self.api.create(PODS, each)

    def look(self) -> int:
        """Take up what has ended, check what must hold at every moment; how many pods have not ended."""
        pods, gone = self.history.snapshot()
        for name in self.made - self.deleted - self.evicted:
            if name in gone:
                self.evicted.add(name)
                self.records.check(pods[name], evicted=True)
            elif name in pods and pods[name]["status"].get("phase") in ENDED:
                self._ended(pods[name])
        assert not self.history.faults, self.history.faults
        now = time.monotonic()
        self.up, self.looked = self.up + (now - self.looked) * self._answers(), now
        torn = [text for text in self.gangs.look(pods, gone, self.deleted, self.up) if float(text.split()[-2]) > TORN]
        assert not torn, torn
        return len(self.made - self.deleted - self.evicted)

    def _answers(self) -> bool:
        """Whether the API server is there and knows rights."""
        try:
            self.api.call("GET", "/api/v1/namespaces/default")
        except (OSError, http.client.HTTPException, RefusedError, ValueError):
            return False
        return True

    def _ended(self, pod: Json) -> None:
        name, evicted = pod["metadata"]["name"], "deletionTimestamp" in pod["metadata"]
        if pod["status"]["phase"] == "Failed" and not evicted:
            states = [one.get("state") for one in pod["status"].get("containerStatuses") or ()]
            if "context canceled" in str(states):  # its kubelet died while it started a container: nobody's choice
                self.cut += 1
            else:
                self.failed.append(f"{name}: {pod['status'].get('reason')} {pod['status'].get('message')} {states}")
                _say(f"{self.failed[-1]} on {pod['spec'].get('nodeName')}")
        ran = self.records.check(pod, evicted=evicted or pod["status"]["phase"] == "Failed")
        if name.endswith("-without"):
            self.without += ran
        elif pod["status"]["phase"] == "Succeeded":
            self.seen += 1
            self.forgers += any(one["name"] == "GPU_0" for each in pod["spec"]["containers"] for one in each["env"])
        self.deleted.add(name)
        self.api.delete(f"{PODS}/{name}")

    def report(self, killer: Killer) -> str:
        """How far it is."""
        return (
            f"{self.door.name}: {self.seen} of {WANTED} pods seen ({self.forgers} forge), {self.without} without,"
            f" {len(self.evicted)} evicted, {self.cut} cut short, {len(self.failed)} failed,"
            f" {killer.killed.total()} of {KILLS} kills {dict(killer.killed)},"
            f" {killer.restarts} starts in vain, longest in part {self.gangs.longest:.1f} s,"
            f" versions {sum(self.history.versions.values())}, lists {sum(self.history.lists.values())},"
            f" {time.monotonic() - self.began:.0f} s"
        )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def test_each_container_has_the_devices_of_its_cells_whatever_dies(door: Door, api: HostsApi) -> None:
    records = Records({f"h{number}": door.site.lab.machine(number) for number in WORKERS})
    killer = Killer(door, random.Random(SEED + 1))  # noqa: S311 - not for secrets
    with History(api) as history, killer:
        run = Run(door, api, history, records, random.Random(SEED))  # noqa: S311
        said = 0.0
        while run.look() or run.seen < WANTED or not killer.done:
            killer.seen = run.seen
            enough = run.seen >= WANTED and killer.done
            while not enough and len(run.made - run.deleted - run.evicted) < CROWD:
                run.arrive()
            if time.monotonic() - said > 15:
                said = time.monotonic()
                _say(run.report(killer))
            assert time.monotonic() - run.began < 600 + 6 * (WANTED + 2 * KILLS), _plight(run)
            time.sleep(0.2)
        wait_until(lambda: not api.listed(PODS), "all pods are gone", seconds=120, pause=0.5)
        wait_until(lambda: not api.listed(CLAIMS), "no claim is left over", seconds=60, pause=0.5)
        wait_until(lambda: not door.groups(), "the door holds no gang", seconds=60, pause=0.5)
        _say(run.report(killer))
        assert not history.faults
    assert not records.overlaps()
    assert not run.failed
    assert (run.forgers and run.without) or WANTED < 40


def _plight(run: Run) -> str:
    """What hangs, and what the door says of it."""
    pods, gone = run.history.snapshot()
    hang = [name for name in run.made - run.deleted - run.evicted if name in pods and name not in gone]
    said = [
        f"{name}: {pods[name]['spec'].get('nodeName')} {pods[name]['status'].get('phase')}" for name in sorted(hang)
    ]
    events = [
        f"{e['involvedObject']['name']} {e['reason']}: {e.get('message')}" for e in run.api.listed(f"{PODS[:-4]}events")
    ]
    return "\n".join([*said, *events[-40:], run.door.program.tail(40)])
