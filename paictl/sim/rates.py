"""How fast a job runs on its devices: scaling x device type x locality x company x the policy's limit.

A policy whose paper has another model provides a subclass (`Policy.rates`). The default is for papers without one:
each factor comes from the job's own tables, 1 if the job has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from paictl.frozen import frozen
from paictl.sim.cluster import Cluster, Devices
from paictl.sim.goodput import BatchSize
from paictl.sim.job import Job
from paictl.sim.state import ONE, JobProgress


@frozen
class Costs:
    """What changes cost a job: spans in which it holds its devices without progress. All are milliseconds.

    A job pays the cost of being suspended at its next start: devices change hands at once, so that a decision takes
    no time (our choice; papers charge the victim).
    """

    suspend: int = 0
    resume: int = 0
    resume_log: int = 0
    """For each doubling of devices on top, and once for the first: `resume_log * (1 + log2 devices)` (Chronus)."""
    migrate: int = 0
    resize: int = 0
    profile: int = 0
    """Before the first start."""

    def to_start(self, devices: int, *, again: bool) -> int:
        """Milliseconds until a job progresses after it got devices."""
        if not again:
            return self.profile
        extra = self.resume_log * (1 + math.log2(devices)) if self.resume_log else 0
        return self.suspend + self.resume + round(extra)


class Rates:
    """Rates on one cluster. With `located=False` (counting) it does not matter where the devices are."""

    def __init__(self, cluster: Cluster, *, located: bool = True, overhead: float = 0.0) -> None:
        self.cluster = cluster
        self.located = located
        self.overhead = overhead
        """Fraction of every rate that the mechanism costs while a job runs."""

    def vicinity(self) -> Sequence[int] | None:
        """Which jobs are company for each other: a group number for each device (say, a row of `Cluster.groups`).

        Jobs with devices in one group are company, and the engine sets their rates again whenever one of them comes,
        goes or moves. None: only jobs that share a device are. Called once, before the run.
        """
        return None

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """Units of work a millisecond of a job on its devices; `company`: the jobs near it, see `vicinity`.

        It must not depend on anything else, or the rates of jobs would depend on what happened elsewhere.
        """
        job = state.job
        if state.plain and not company and not self.overhead and len(state.devices) == job.gpus:
            return state.limit
        rate = self.alone(job, state.devices) * (1.0 - self.overhead)
        if company:
            rate *= self.together(job, [other.job for other in company], state.devices)
        return round(rate * ONE) * state.limit // ONE

    def alone(self, job: Job, devices: Devices) -> float:
        """The rate without company."""
        number = len(devices)
        rate = 1.0 if number == job.gpus else job.scaling.get(number, number / job.gpus)
        if job.throughput:
            types = {self.cluster.type_of[device] for device in devices}
            rate *= min(_by_type(job.throughput, kind) for kind in types)  # a gang is as fast as its slowest device
        if self.located and number > 1:
            if job.sensitivity:
                rate *= job.sensitivity.get(self.cluster.level(devices), 1.0)
            if job.spread:
                rate *= _at_most(job.spread, self.cluster.spread(devices))
        return rate

    def together(self, job: Job, company: Sequence[Job], devices: Devices) -> float:
        """Factor by which others on the same devices slow it down.

        From its own table if that has the pair; other jobs share the device's time by how busy they keep it.
        """
        kind = self.cluster.type_of[devices[0]]
        factor, busy = 1.0, job.gpu_util
        for other in company:
            beside = job.coloc.get(f"{kind}/{other.model}", job.coloc.get(other.model))
            if beside is None:
                busy += other.gpu_util
            else:
                factor *= beside
        return factor / max(1.0, busy)


def _by_type(throughput: Mapping[str, float], kind: str) -> float:
    return throughput.get(kind, 0.0)


def _at_most(table: Mapping[int, float], number: int) -> float:
    listed = [key for key in table if key <= number]
    return table[max(listed)] if listed else 1.0


class TrainingRates(Rates):
    """For policies that choose batch sizes, which determine the rate of a job with a training profile.

    `sizes` has the batch size of each such job that makes progress, by number; a missing job makes none (it is
    restarting). The policy writes it, and names the job in an action so that its rate is updated. Jobs without a
    profile have the same rate as under any other policy.
    """

    def __init__(self, cluster: Cluster, *, overhead: float = 0.0) -> None:
        super().__init__(cluster, overhead=overhead)
        self.sizes: dict[int, BatchSize] = {}

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """From its placement, its batch size and the epoch that it is in."""
        job, training = state.job, state.job.training
        if training is None:
            return super().rate(state, company)
        if state.number not in self.sizes or not job.work:
            return 0 if job.work else ONE
        total = job.work * ONE
        speed = training.speed(
            self.cluster.type_of[state.devices[0]],
            self.placement(state.devices),
            self.sizes[state.number],
            training.epoch((total - state.left) / total),
        )
        return max(1, round(speed / 1000 / training.ends[-1] * total * (1.0 - self.overhead)))

    def placement(self, devices: Devices) -> tuple[int, ...]:
        """How many of the devices are on each node, in the order of nodes."""
        counts: dict[int, int] = {}
        for device in devices:
            node = self.cluster.node_of[device]
            counts[node] = counts.get(node, 0) + 1
        return tuple(counts.values())
