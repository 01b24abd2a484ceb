"""A trace through a real control plane and through the simulator: ``python -m tools.fidelity [TRACE] [--jobs N]``.

Kubernetes with kwok nodes, a stock kube-scheduler and the placer on one side, `paictl sim` with the policy `hived` on
the other: the same jobs, the same cells. Durations are accelerated by a clock that stands still while the control plane
is at work: at each instant of the trace jobs end and arrive as pods, then everything comes to rest (what is bound runs,
no pod is being deleted, nothing changes any more), and the clock jumps to the next instant. So hours of a trace take
seconds, and the delays of the control plane, which no acceleration shortens, are measured apart: seconds from the
creation of a job's pods, or from the end of what it waited for, until all of them run.

It prints mean JCT and makespan of both sides, their difference, and these delays. Needs `make kube`.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from paictl.sim.cluster import ClusterShape
from paictl.sim.job import Job, Share
from paictl.sim.metrics import figures
from paictl.sim.simulate import simulate
from paictl.sim.specify import cluster_named
from paictl.sim.traces.load import load

Json = dict[str, Any]
NODE: Final = 4
"""Devices of a node; a larger job has several pods."""
QUIET: Final = 0.4
"""Seconds without any change after which the control plane has come to rest, if it has reacted quickly so far."""
PATIENCE: Final = 120.0
"""Seconds within which it has to come to rest."""
POLICY: Final = "hived:order=created"
"""Jobs of one priority in the order of their creation, as the doors take them."""
BOUND: Final = 0.03
"""The bar: mean JCT and makespan may differ by so much."""


def configuration(nodes: int, quotas: Mapping[str, int]) -> Json:
    """HiveD's configuration of nodes of `NODE` devices; tenants are promised whole nodes."""
    cells = [{"cellAddress": f"f{number:03}"} for number in range(nodes)]
    types = {
        "PAIR": {"childCellType": "GPU", "childCellNumber": 2},
        "NODE": {"childCellType": "PAIR", "childCellNumber": NODE // 2, "isNodeLevel": True},
        "POOL": {"childCellType": "NODE", "childCellNumber": nodes},
    }
    return {
        "physicalCluster": {"cellTypes": types, "physicalCells": [{"cellType": "POOL", "cellChildren": cells}]},
        "virtualClusters": {
            vc: {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": number}]} for vc, number in quotas.items()
        },
    }


def cluster_of(config: Mapping[str, Any], folder: Path) -> ClusterShape:
    """The same cells for the simulator."""
    path = folder / "hivedscheduler.yaml"
    path.write_text(yaml.safe_dump(dict(config), sort_keys=False))
    return cluster_named(str(path))


def pods_of(job: Job, turn: int) -> list[Json]:
    """The pods of a job: whole nodes and, for the rest, a part of one.

    Their names sort by `turn`, the number of jobs that were submitted before: a whole hour of the trace may pass within
    the second that a creationTimestamp tells apart, and then the placer goes by names.
    """
    from tests.e2e_kube.kubeapi import GATED, hived_pod

    whole, rest = divmod(job.gpus, NODE)
    members = [*([(rest, 1)] if rest else []), *([(NODE, whole)] if whole else [])]
    name = f"j{turn:05}"
    spec = {
        "virtualCluster": job.vc,
        "priority": job.priority if job.share is Share.GUARANTEED else -1,
        "affinityGroup": {
            "name": f"default/{name}",
            "members": [{"podNumber": pods, "leafCellNumber": size} for size, pods in members],
        },
    }
    found = []
    for size in [size for size, pods in members for _ in range(pods)]:
        pod = hived_pod(
            f"{name}-{len(found)}", spec | {"leafCellNumber": size}, metadata={"labels": {"job": name}}, **GATED
        )
        pod["spec"]["containers"][0].pop("resources")
        found.append(pod)
    return found


class Pods:
    """What a watch says of all pods, and when it last said something."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane
        self._over = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._last: dict[str, tuple[str, bool, bool]] = {}
        self.changed = time.monotonic()

    def __enter__(self) -> Pods:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True  # seen at the next news, which deleting the pods is

    def now(self) -> dict[str, tuple[str, bool, bool]]:
        """By name: phase, whether it is bound, whether it is being deleted."""
        with self._lock:
            return dict(self._last)

    def _run(self) -> None:
        while not self._over:  # the server ends a watch when it likes; the next begins with all that is there
            connection = http.client.HTTPSConnection(
                self._plane.server.removeprefix("https://"), context=self._plane.context
            )
            connection.request("GET", "/api/v1/namespaces/default/pods?watch=true")
            reply = connection.getresponse()
            while not self._over and (line := reply.readline()):
                self._take(json.loads(line))
            connection.close()

    def _take(self, event: Json) -> None:
        pod = event["object"]
        state = (
            pod["status"].get("phase", ""),
            bool(pod["spec"].get("nodeName")),
            "deletionTimestamp" in pod["metadata"],
        )
        with self._lock:
            name = pod["metadata"]["name"]
            if event["type"] == "DELETED":
                self._last.pop(name, None)
            elif self._last.get(name) == state:
                return  # an annotation or a condition: nothing has moved
            else:
                self._last[name] = state
            self.changed = time.monotonic()


@dataclass
class Course:
    """How far a job is."""

    job: Job
    number: int
    left: int
    """Milliseconds of work."""
    turn: int = 0
    """Of its pods: how many jobs were submitted before."""
    pods: tuple[str, ...] = ()
    known: bool = False
    """Whether the watch has spoken of all of these pods."""
    since: int | None = None
    """The instant at which it last started; None: it waits."""
    asked: float = 0.0
    """When (by this machine's clock) the last thing happened that may let it start."""


@dataclass
class Replay:
    """Plays jobs on a control plane; the placer runs."""

    api: Any
    door: Any
    pods: Pods
    say: Callable[[str], None]
    quiet: float = QUIET
    now: int = 0
    """The trace's clock, in milliseconds."""
    ends: dict[int, int] = field(default_factory=dict)
    """When each job has ended."""
    turn: int = 0
    """Jobs submitted, each as often as it was."""
    preemptions: int = 0
    delays: list[float] = field(default_factory=list)
    """Seconds for which the control plane was at work until a job ran that could run."""
    reaction: float = 0.1
    """Seconds for which nothing moved, of late, before something did: a slow machine gets more patience."""

    def play(self, jobs: Sequence[Job]) -> None:
        """From the first arrival to the last end."""
        self.courses = [Course(job, number, job.work) for number, job in enumerate(jobs)]
        coming = list(self.courses)[::-1]
        said = time.monotonic()
        while len(self.ends) < len(jobs):
            running = [(self._end(course), course.number) for course in self.courses if course.since is not None]
            instants = [*([coming[-1].job.submit] if coming else []), *(end for end, _ in running)]
            assert instants, f"nothing runs, and these wait:\n{self.api.plight(self.pods.now())}"
            self.now = min(instants)
            for end, number in sorted(running):
                if end == self.now:
                    self._finish(self.courses[number])
            while coming and coming[-1].job.submit == self.now:
                self._submit(coming.pop())
            self._settle()
            if time.monotonic() - said > 15:
                said = time.monotonic()
                self.say(f"{len(self.ends)} of {len(jobs)} jobs have ended, {len(jobs) - len(coming)} have arrived")

    def _end(self, course: Course) -> int:
        assert course.since is not None
        return course.since + course.left

    def _submit(self, course: Course) -> None:
        made = pods_of(course.job, self.turn)
        course.turn = self.turn
        self.turn += 1
        course.pods, course.known = tuple(pod["metadata"]["name"] for pod in made), False
        for pod in made:
            self.api.create(pod)
        course.asked = time.monotonic()

    def _finish(self, course: Course) -> None:
        self.ends[course.number] = self.now
        course.since = None
        for name in course.pods:
            self.api.delete(name)
        for other in self.courses:
            if other.since is None:
                other.asked = time.monotonic()

    def _settle(self) -> None:
        """Until nothing moves; who runs then has started, who was evicted comes again with the work that is left."""
        last = began = time.monotonic()
        while True:
            pods, changed = self.pods.now(), self.pods.changed
            if changed > last:
                self.reaction = max(0.9 * self.reaction, changed - last)
                last = changed
            self._look(pods, changed)
            moving = [name for name, (phase, bound, going) in pods.items() if going or (bound and phase != "Running")]
            quiet = time.monotonic() - last > max(self.quiet, 1.5 * self.reaction)
            if not moving and quiet and self._knows(pods) and self.pods.changed == changed:
                return
            assert time.monotonic() < began + PATIENCE, f"not at rest after {PATIENCE:g} s: {moving}"
            time.sleep(0.05)

    def _look(self, pods: Mapping[str, tuple[str, bool, bool]], changed: float) -> None:
        """Who runs now, and who does no more."""
        for course in sorted(self.courses, key=lambda course: course.turn):  # who is evicted first comes again first
            if course.number in self.ends or not course.pods:
                continue
            states = [pods.get(name) for name in course.pods]
            course.known = course.known or None not in states
            if course.known and any(state is None or state[2] for state in states):  # perhaps before all of it ran
                self._evicted(course)
            elif course.since is None and all(state and state[0] == "Running" and not state[2] for state in states):
                course.since = self.now
                self.delays.append(max(0.0, changed - course.asked))

    def _knows(self, pods: Mapping[str, tuple[str, bool, bool]]) -> bool:
        """Whether the door has seen and decided about the same pods: as many have devices, and as many wait."""
        bound = sum(bound for _, bound, _ in pods.values())
        values: dict[str, float] = {"bound": 0, "assumed": 0, "waiting": 0}
        for line in self.door.text("/metrics").splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("paictl_placer_waiting_pods{"):
                values["waiting"] += float(value)
            for state in ("bound", "assumed"):
                if name == f'paictl_placer_pods{{state="{state}"}}':
                    values[state] = float(value)
        return values == {"bound": bound, "assumed": 0, "waiting": len(pods) - bound}

    def _evicted(self, course: Course) -> None:
        """It keeps its work, as in the simulator, and comes again as another group."""
        if course.since is not None:
            course.left -= self.now - course.since
            course.since = None
            self.preemptions += 1
        for name in course.pods:
            self.api.delete(name)
        self._submit(course)


@dataclass(frozen=True)
class Compared:
    """Both sides; seconds of the trace."""

    jobs: int
    jct: tuple[float, float]
    """Mean, on the control plane and in the simulator."""
    makespan: tuple[float, float]
    preemptions: tuple[int, int]
    other: int
    """Jobs that ended at another instant."""
    delays: tuple[float, ...]
    """Of the control plane, in seconds of this machine."""

    @property
    def differences(self) -> tuple[float, float]:
        """Of mean JCT and makespan, as parts of the simulator's."""
        return self.jct[0] / self.jct[1] - 1, self.makespan[0] / self.makespan[1] - 1

    def __str__(self) -> str:
        jct, makespan = self.differences
        delays = sorted(self.delays)
        return (
            f"{self.jobs} jobs on the control plane and in the simulator:"
            f" mean JCT {self.jct[0]:,.1f} s, {self.jct[1]:,.1f} s ({jct:+.2%});"
            f" makespan {self.makespan[0]:,.1f} s, {self.makespan[1]:,.1f} s ({makespan:+.2%});"
            f" preemptions {self.preemptions[0]}, {self.preemptions[1]}; {self.other} jobs ended at another instant;"
            f" start delay: median {statistics.median(delays):.2f} s,"
            f" 95 % {delays[math.ceil(0.95 * len(delays)) - 1]:.2f} s"
        )


def compare(
    plane: Any,
    api: Any,
    jobs: Sequence[Job],
    config: Json,
    folder: Path,
    say: Callable[[str], None],
    quiet: float = QUIET,
) -> Compared:
    """Play jobs on both sides."""
    from tests.e2e_kube.gates import gates

    run = simulate(jobs, cluster_of(config, folder), POLICY)
    expected = {outcome.id: outcome.end for outcome in run.outcomes}
    with gates(plane, api, config, folder / "door") as door, Pods(plane) as pods:
        replay = Replay(api, door, pods, say, quiet)
        replay.play(jobs)
    ends = [replay.ends[number] for number in range(len(jobs))]
    jct = sum(end - job.submit for end, job in zip(ends, jobs, strict=True)) / len(jobs) / 1000
    found = figures(run)
    assert found.mean_jct is not None
    assert found.makespan is not None
    other = sum(expected[job.id] != end for job, end in zip(jobs, ends, strict=True))
    makespan = (max(ends) - jobs[0].submit) / 1000
    return Compared(
        len(jobs),
        (jct, found.mean_jct),
        (makespan, found.makespan),
        (replay.preemptions, found.preemptions),
        other,
        tuple(replay.delays),
    )


def main() -> None:
    """Play a trace and print how both sides differ; the exit code is 1 if a figure differs by more than the bar."""
    words = argparse.ArgumentParser(description="A trace through a real control plane and through the simulator.")
    words.add_argument("trace", nargs="?", default="tenants", help="any trace that `paictl sim` takes")
    words.add_argument("--jobs", type=int, default=400, help="so many from its beginning")
    words.add_argument("--nodes", type=int, default=24, help=f"nodes of {NODE} devices")
    asked = words.parse_args()
    from tests.e2e_kube.controlplane import control_plane
    from tests.e2e_kube.kubeapi import KubeApi

    jobs = load(asked.trace).jobs[: asked.jobs]
    with tempfile.TemporaryDirectory() as folder, control_plane(Path(folder) / "cp") as plane:
        found = compare(plane, KubeApi(plane), jobs, shared(jobs, asked.nodes), Path(folder), _say)
    print(found)
    sys.exit(max(map(abs, found.differences)) > BOUND)


def shared(jobs: Sequence[Job], nodes: int) -> Json:
    """Nodes promised to the tenants of a trace by the device time of their guaranteed jobs, enough for the largest."""
    time_of, least = dict[str, int](), dict[str, int]()
    for job in jobs:
        mine = job.share is Share.GUARANTEED
        time_of[job.vc] = time_of.get(job.vc, 0) + mine * job.gpus * job.work
        least[job.vc] = max(least.get(job.vc, 1), mine * -(-job.gpus // NODE))
    quotas = dict(sorted(least.items()))
    for _ in range(nodes - sum(quotas.values())):
        quotas[max(quotas, key=lambda vc: time_of[vc] / quotas[vc])] += 1
    return configuration(nodes, quotas)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
