"""Tiresias and AntMan as Muri's simulator has them: events, and a start-up cost at each of them for whoever runs.

It measures why mean JCTs there are above those of our `las` and `antman` on some traces: `python -m
tests.sim_reference.stages tiresias trace1_pr` prints the figures that the table of docs/simulator.md gives as the
reason. Times are seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import Final

from paictl.sim.job import Job, Share
from paictl.sim.policies.antman_rates import interleaved
from tests.sim_reference.support import trace

STRETCH: Final = 1.015
"""How much longer than in the trace a step takes there."""
NODES, PER_NODE = 8, 8
QUEUES: Final = (3250, 7200)
"""Device-seconds after which a job moves to the next queue."""
START_UP: Final = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
"""On 1, 2, 4, ... 32 devices."""
OTHERS: Final = 10
GUARANTEED, OPPORTUNISTIC = 0, 1
LOADS: Final = (0.1, 0.9)
"""What a guaranteed and an opportunistic job add to the load of a device; a job may follow below `CROWDED`."""
CROWDED: Final = 0.8


@dataclass(eq=False, slots=True)
class Task:
    """A job there."""

    number: int
    gpus: int
    submitted: float
    step: float
    left: float
    """Steps."""
    stages: tuple[float, ...]
    start_up: float
    rank: int
    pace: float = 0
    """Seconds for a step now."""
    runs: bool = False
    looked: float = 0
    ran: float = 0
    first: float = inf
    """When it first ran."""
    queue: int = 0
    missing: int = 0
    """Devices that it has yet to get."""
    node: int = -1
    devices: list[int] = field(default_factory=list)


class Events:
    """The loop: who ends, who arrives, what those that run have done, who runs now.

    `mends` takes its peculiarities away; here `stretch` (steps take longer than in the trace) and `start-up` (whoever
    runs stands still for its start-up cost after each event).
    """

    def __init__(self, jobs: Iterable[Job], mends: Collection[str] = ()) -> None:
        self.mends = mends
        coming = (self.read(number, job) for number, job in enumerate(jobs))
        self.coming = sorted(coming, key=lambda task: task.submitted)
        self.live: list[Task] = []
        self.now = 0.0

    def read(self, number: int, job: Job) -> Task:
        step = job.work / (job.iterations or 1) / 1000
        costs = START_UP.get(job.model, (OTHERS,) * 6)
        stretched = step if "stretch" in self.mends else step * STRETCH
        return Task(
            number,
            job.gpus,
            job.submit / 1000,
            stretched,
            job.iterations or 1,
            tuple(job.facts.get(f"stage.{name}", 0) / 1000 for name in ("cpu", "gpu", "network")),
            0 if "start-up" in self.mends else costs[job.gpus.bit_length() - 1],
            OPPORTUNISTIC if job.share is Share.OPPORTUNISTIC else GUARANTEED,
            stretched,
            missing=job.gpus,
        )

    def decide(self) -> None:
        """Say who runs."""
        raise NotImplementedError

    def ended(self, task: Task) -> None:
        """It left."""

    def came(self, task: Task) -> None:
        """It arrived."""

    def next_move(self) -> float:
        """When the policy has to decide though nobody comes or goes."""
        return inf

    def play(self) -> tuple[float, float]:
        """Mean JCT and makespan."""
        times: list[float] = []
        count, position = len(self.coming), 0
        while len(times) < count:
            ends = min((self.now + task.left * task.pace for task in self.live if task.runs), default=inf)
            comes = self.coming[position].submitted if position < count else inf
            move = self.next_move()
            before, self.now = self.now, min(ends, comes, move)
            if self.now == inf:
                raise RuntimeError("nobody can run")
            gone = [
                task
                for task in self.live
                if task.runs and before + task.left * task.pace <= self.now + 1e-4 and ends <= min(comes, move)
            ]
            for task in gone:
                times.append(self.now - task.submitted)
                self.live.remove(task)
                self.ended(task)
            for task in self.live:
                if task.runs:
                    span = self.now - task.looked
                    task.left -= max(span - task.start_up, 0) / task.pace
                    task.ran += span
                task.looked = self.now
            while position < count and self.coming[position].submitted == self.now and comes <= move:
                task = self.coming[position]
                task.looked = self.now
                self.live.append(task)
                self.came(task)
                position += 1
            self.decide()
        return sum(times) / count, self.now


class Lines(Events):
    """Tiresias: queues by attained service; within a queue those that wait stand behind those that run.

    Mends: `tail`: a job that loses its devices does not go behind all others that wait: both those that run and those
    that wait are in the order in which they first ran.
    """

    def __init__(self, jobs: Iterable[Job], mends: Collection[str] = ()) -> None:
        super().__init__(jobs, mends)
        self.lines: list[list[Task]] = [[] for _ in range(len(QUEUES) + 1)]

    def ended(self, task: Task) -> None:
        self.lines[task.queue].remove(task)

    def came(self, task: Task) -> None:
        self.lines[0].append(task)

    def decide(self) -> None:
        for task in self.live:
            if task.runs and task.queue < len(QUEUES) and task.ran * task.gpus >= QUEUES[task.queue] - 1e-3:
                self.lines[task.queue].remove(task)
                task.queue += 1
                self.lines[task.queue].append(task)
        free = NODES * PER_NODE
        for number, line in enumerate(self.lines):
            for task in line:
                task.runs = task.gpus <= free
                if task.runs:
                    free -= task.gpus
                    task.first = min(task.first, self.now)
            self.lines[number] = sorted(line, key=self.place)

    def place(self, task: Task) -> tuple[bool, float]:
        """In its line."""
        return not task.runs, task.first if "tail" in self.mends else 0

    def next_move(self) -> float:
        return min(
            (
                ceil(QUEUES[task.queue] / task.gpus) - task.ran + self.now
                for task in self.live
                if task.runs and task.queue < len(QUEUES)
            ),
            default=inf,
        )


class AntMan(Events):
    """Guaranteed jobs by arrival, each with devices of its own; one opportunistic job may follow on a device.

    Mends: `hold`: a guaranteed job takes devices when it finds all of them; there it holds those of one node, or whole
    nodes, until it has the rest. `whole`: a step of a follower ends when its stages have found room; there it takes a
    whole number of steps of the guaranteed job.
    """

    def __init__(self, jobs: Iterable[Job], mends: Collection[str] = ()) -> None:
        super().__init__(jobs, mends)
        size = NODES * PER_NODE
        self.owner: list[Task | None] = [None] * size
        self.guests: list[list[Task]] = [[] for _ in range(size)]
        self.load = [0.0] * size
        self.open = [PER_NODE] * NODES
        """Devices without a guaranteed job, of each node."""
        self.room = size
        """Devices that an opportunistic job may use."""

    def ended(self, task: Task) -> None:
        for device in task.devices:
            self.weigh(device, -LOADS[task.rank])
            if task.rank == GUARANTEED:
                self.owner[device] = None
                self.open[device // PER_NODE] += 1
            else:
                self.guests[device].remove(task)

    def decide(self) -> None:
        for task in sorted(self.live, key=lambda task: (task.rank, task.submitted, task.number)):
            if not task.runs:
                (self.guarantee if task.rank == GUARANTEED else self.follow)(task)
        for task in self.live:
            if task.runs and task.rank == OPPORTUNISTIC:
                task.pace = self.beside(task)

    def weigh(self, device: int, more: float) -> None:
        """Change the load of a device."""
        self.room -= self.load[device] < CROWDED
        self.load[device] += more
        self.room += self.load[device] < CROWDED

    def guarantee(self, task: Task) -> None:
        """Give it devices without a guaranteed job."""
        nodes = range(NODES)
        if task.gpus > PER_NODE:
            chosen = [node for node in nodes if self.open[node] == PER_NODE][: task.missing // PER_NODE]
        elif task.node >= 0:
            chosen = [task.node]
        else:
            fit = [node for node in nodes if self.open[node] >= task.missing]
            chosen = fit[:1] or [max(nodes, key=lambda node: self.open[node])]
        room = min(sum(self.open[node] for node in chosen), task.missing)
        if room == 0 or (room < task.missing and "hold" in self.mends):
            return
        task.node = chosen[0]
        for device in (device for node in chosen for device in range(node * PER_NODE, (node + 1) * PER_NODE)):
            if task.missing and self.owner[device] is None:
                self.owner[device] = task
                self.open[device // PER_NODE] -= 1
                self.weigh(device, LOADS[GUARANTEED] - 0.01)
                task.devices.append(device)
                task.missing -= 1
        if not task.missing:
            for device in task.devices:
                self.weigh(device, 0.01)
            task.runs = True

    def follow(self, task: Task) -> None:
        """Let it run on the least loaded devices."""
        if self.room < task.gpus:
            return
        room = [device for device in range(NODES * PER_NODE) if self.load[device] < CROWDED]
        task.devices = sorted(room, key=lambda device: self.load[device])[: task.gpus]
        for device in task.devices:
            self.weigh(device, LOADS[OPPORTUNISTIC])
            self.guests[device].append(task)
        task.missing, task.runs = 0, True

    def beside(self, task: Task) -> float:
        """Seconds for a step of an opportunistic job: the longest beside any job on its devices."""
        pace = task.step
        for device in task.devices:
            owner = self.owner[device]
            if owner is not None and not owner.missing:
                if "whole" in self.mends:
                    beside = task.step / interleaved((task.step, *task.stages), (owner.step, *owner.stages))
                else:
                    beside = whole_steps(task.stages, owner.stages) * owner.step
                pace = max(pace, beside)
            if len(self.guests[device]) > 1:
                pace = max(pace, 2 * task.step)
        return pace


def whole_steps(own: tuple[float, ...], other: tuple[float, ...]) -> int:
    """Steps of the guaranteed job in which one of the follower gets done, as counted there."""
    cpu, gpu, network = own
    steps, extra = floor(cpu / (other[1] + other[2])), cpu % (other[1] + other[2])
    if extra > 0:
        steps += 1
        gpu -= min(gpu, other[2], other[1] + other[2] - extra)
    steps, extra = steps + floor(gpu / (other[0] + other[2])), gpu % (other[0] + other[2])
    if extra > 0:
        steps += 1
        if extra < other[0]:
            network -= min(network, other[0] + other[1] - extra)
    steps, extra = steps + floor(network / (other[0] + other[1])), network % (other[0] + other[1])
    return steps + (extra > other[0])


POLICIES: Final = {"tiresias": Lines, "antman": AntMan}


def play(policy: str, name: str, mends: Collection[str] = ()) -> tuple[float, float]:
    """Mean JCT and makespan on a trace of Muri's, with some peculiarities taken away."""
    return POLICIES[policy](trace("muri", f"{name}.csv", "muri").jobs, mends).play()


def main(policy: str, name: str, *mends: str) -> None:
    """As there, then without each of `mends`: several of them, with commas between."""
    for away in ((), *(tuple(one.split(",")) for one in mends)):
        jct, makespan = play(policy, name, away)
        text = f"mean JCT {jct:,.0f}, makespan {makespan:,.0f}"
        print(f"without {', '.join(away) or 'nothing':<30} {text}", flush=True)  # noqa: T201 (a command)


if __name__ == "__main__":
    main(*sys.argv[1:])
