"""What Prometheus reads of the controller, made when it asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from paictl.controller.loop import ControlLoop
    from paictl.remote.kube.client import KubeClient


class ControllerMetrics:
    """All metrics; `loop` gives what runs now, None while another process leads."""

    def __init__(self, client: KubeClient, loop: Callable[[], ControlLoop | None]) -> None:
        self._client = client
        self._loop = loop
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """As Prometheus reads it."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        sent = CounterMetricFamily("paictl_controller_requests", "requests to the API server", labels=["method"])
        for method, number in self._client.sent.items():
            sent.add_metric([method], number)
        yield sent
        loop = self._loop()
        yield GaugeMetricFamily("paictl_controller_leader", "whether this process leads", value=float(loop is not None))
        if loop is None:
            return
        looks = CounterMetricFamily("paictl_controller_looks", "looks at jobs", labels=["result"])
        for result, number in loop.looks.items():
            looks.add_metric([result], number)
        yield looks
        yield CounterMetricFamily("paictl_controller_look_seconds", "processor time of looks", value=loop.seconds)
        yield GaugeMetricFamily("paictl_controller_queue", "jobs to be looked at", value=float(len(loop.queue)))
        states: Counter[tuple[str, str]] = Counter()
        for pai in loop.cache.jobs():
            state = pai.record.status.state.value.capitalize() if pai.record is not None else "New"
            states[pai.vc, state] += 1
        jobs = GaugeMetricFamily("paictl_controller_jobs", "jobs", labels=["vc", "state"])
        for (vc, state), number in states.items():
            jobs.add_metric([vc, state], number)
        yield jobs

    def describe(self) -> list[Metric]:
        """Nothing beforehand: no metric has to be read to register."""
        return []
