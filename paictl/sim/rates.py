"""How fast a job runs where it runs: scaling x device type x locality x company x what a policy leaves of it.

A policy whose paper has another physics brings a subclass (`Policy.rates`); the default is the model of every paper
that has none: each factor from the job's own tables, 1 where a job has none.
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
    """What changes cost a job: spans in which it holds its devices and gets nothing done.

    What it costs to suspend a job is paid by it at its next start: devices change hands at once, which keeps a decision
    one instant (our choice; papers charge the victim). All are milliseconds.
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
        """Milliseconds until a job progresses after it was given devices."""
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
        """Part of every rate that the mechanism costs while it runs."""

    def vicinity(self) -> Sequence[int] | None:
        """Who is company of whom: the number of a group for each device (a row of `Cluster.groups`, say).

        Jobs that have devices of one group are company of each other, and the engine sets their rates again whenever
        one of them comes, goes or moves. None: only those that share a device are. Asked once, before the run.
        """
        return None

    def rate(self, state: JobProgress, company: Sequence[JobProgress]) -> int:
        """Units of work a millisecond of a job on its devices; `company`: the jobs near it, see `vicinity`.

        It may look at nothing but these, or the rates of jobs would depend on what happened elsewhere.
        """
        job = state.job
        if state.plain and not company and not self.overhead and len(state.devices) == job.gpus:
            return state.limit
        rate = self.alone(job, state.devices) * (1.0 - self.overhead)
        if company:
            rate *= self.together(job, [other.job for other in company], state.devices)
        return round(rate * ONE) * state.limit // ONE

    def alone(self, job: Job, devices: Devices) -> float:
        """Without company."""
        number = len(devices)
        rate = 1.0 if number == job.gpus else job.scaling.get(number, number / job.gpus)
        if job.throughput:
            types = {self.cluster.type_of[device] for device in devices}
            rate *= min(_by_type(job.throughput, kind) for kind in types)  # a gang goes at the pace of its slowest
        if self.located and number > 1:
            if job.sensitivity:
                rate *= job.sensitivity.get(self.cluster.level(devices), 1.0)
            if job.spread:
                rate *= _at_most(job.spread, self.cluster.spread(devices))
        return rate

    def together(self, job: Job, company: Sequence[Job], devices: Devices) -> float:
        """Factor by which others on the same devices slow it down.

        From its own table where that has the pair; the others share the time of the device by how busy they keep it.
        """
        kind = self.cluster.type_of[devices[0]]
        factor, busy = 1.0, job.gpu_util
        for other in company:
            known = job.coloc.get(f"{kind}/{other.model}", job.coloc.get(other.model))
            if known is None:
                busy += other.gpu_util
            else:
                factor *= known
        return factor / max(1.0, busy)


def _by_type(throughput: Mapping[str, float], kind: str) -> float:
    return throughput.get(kind, 0.0)


def _at_most(table: Mapping[int, float], number: int) -> float:
    listed = [key for key in table if key <= number]
    return table[max(listed)] if listed else 1.0


class TrainingRates(Rates):
    """For policies that choose batch sizes: how fast a job with a training profile goes follows from them.

    `sizes` has the batch size of each such job that makes progress, by number; one that is not there stands still (it
    restarts). The policy writes it, and names the job in an action so that its rate is set anew. Jobs without a profile
    go as under any other policy.
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
        whole = job.work * ONE
        speed = training.speed(
            self.cluster.type_of[state.devices[0]], self.placement(state.devices), self.sizes[state.number],
            training.epoch((whole - state.left) / whole),
        )  # fmt: skip
        return max(1, round(speed / 1000 / training.ends[-1] * whole * (1.0 - self.overhead)))

    def placement(self, devices: Devices) -> tuple[int, ...]:
        """How many of the devices are on each node, in the order of nodes."""
        counts: dict[int, int] = {}
        for device in devices:
            node = self.cluster.node_of[device]
            counts[node] = counts.get(node, 0) + 1
        return tuple(counts.values())
