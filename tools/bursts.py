"""A burst of pods on a control plane of the tests: how fast they are bound, how fast they run, what it costs.

Two rates, since a short burst flatters whoever binds quickly. From the first binding to the last, kube-scheduler alone
is done before most of what a binding makes others do has begun: its own event, the kubelet's report, the news to all
who watch. A slower one shares the processors with all of that. Until the last pod runs, each has paid for its bindings.
"""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Costs = Mapping[str, float]
"""Milliseconds of processor a pod, by program."""


@dataclass(frozen=True, slots=True)
class Burst:
    """What was seen of one burst."""

    bound: float
    """Pods a second from the first binding to the last."""
    run: float
    """Pods a second from the first binding until the last of them runs."""
    binding: Costs
    """Processor until the last is bound."""
    whole: Costs
    """Processor until the last runs."""


def median(bursts: Sequence[Burst]) -> Burst:
    """Each figure's own median."""

    def of(costs: Sequence[Costs]) -> Costs:
        return {name: statistics.median(one.get(name, 0.0) for one in costs) for name in costs[0]}

    return Burst(
        statistics.median(one.bound for one in bursts),
        statistics.median(one.run for one in bursts),
        of([one.binding for one in bursts]),
        of([one.whole for one in bursts]),
    )


def told(costs: Costs) -> str:
    """A sum and its parts."""
    parts = ", ".join(f"{name} {each:.1f}" for name, each in sorted(costs.items(), key=lambda one: -one[1]))
    return f"{sum(costs.values()):.1f} ms a pod ({parts})"


def burst(
    plane: Any, api: Any, pods: Iterable[Json], start: Callable[[], None], *, ready: Callable[[], bool] | None = None
) -> Burst:
    """All pods are there (and `ready`), `start` starts kube-scheduler, and time runs from the first binding."""
    if "kube-scheduler" in plane.programs:
        plane.programs["kube-scheduler"].stop()
    made = list(pods)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(api.create, made))
    while ready is not None and not ready():
        time.sleep(0.2)
    with Seen(plane, "spec.nodeName!=") as bound, Seen(plane, "status.phase=Running") as running:
        start()
        before = spent(plane)
        end = time.perf_counter() + 600
        while not bound.names:
            assert time.perf_counter() < end, "no pod is bound"
            before = spent(plane)
            time.sleep(0.01)
        costs = [_until(seen, len(made), plane, before, end) for seen in (bound, running)]
    api.delete_all()
    rates = [(len(made) - 1) / max(seen.last - bound.first, 0.001) for seen in (bound, running)]
    return Burst(*rates, *costs)


def _until(seen: Seen, number: int, plane: Any, before: Mapping[str, float], end: float) -> Costs:
    """Processor a pod until so many have been seen."""
    while len(seen.names) < number:
        assert time.perf_counter() < end, f"only {len(seen.names)} of {number} pods: {seen.selector}"
        time.sleep(0.01)
    return {name: 1000 * (now - before.get(name, 0.0)) / number for name, now in spent(plane).items()}


def spent(plane: Any) -> dict[str, float]:
    """Processor seconds so far of everything that runs: on a busy machine a better measure than the clock."""
    return {name: program.processor_seconds() for name, program in plane.programs.items() if program.running}


class Seen:
    """Watches pods come into a selection; only their names come, so that looking costs next to nothing."""

    ACCEPT = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

    def __init__(self, plane: Any, selector: str) -> None:
        self.selector = selector
        self.names: set[str] = set()
        self.first = self.last = 0.0
        self._plane = plane
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Seen:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True  # seen at the next news, which deleting the pods is

    def _run(self) -> None:
        path = f"/api/v1/namespaces/default/pods?fieldSelector={self.selector}&watch=true"
        while not self._over:  # the server ends a watch when it likes; the next begins with all that is there
            server, context = self._plane.server.removeprefix("https://"), self._plane.context
            connection = http.client.HTTPSConnection(server, context=context)
            connection.request("GET", path, headers={"Accept": self.ACCEPT})
            self._read(connection.getresponse())
            connection.close()

    def _read(self, reply: http.client.HTTPResponse) -> None:
        rest = b""
        while not self._over and (chunk := reply.read1()):
            *lines, rest = (rest + chunk).split(b"\n")
            before = len(self.names)
            events = [event for event in map(json.loads, lines) if event["type"] != "ERROR"]  # the next watch follows
            self.names |= {event["object"]["metadata"]["name"] for event in events}
            if len(self.names) > before:
                self.last = time.perf_counter()
                self.first = self.first or self.last
