"""Decisions on a time grid, as in Chronus and its baselines: leases, and slots in which free devices are refilled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.sim.actions import Trigger
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import ParameterError, Span, parameter
from paictl.sim.view import JobView
from paictl.units import Millis


@frozen
class GridParameters(Parameters):
    """The grid, and the cost of a resume: half a minute, and half a minute more for each doubling of the devices."""

    lease: Span = parameter(
        Span(1_200_000), "running jobs can be replaced only at the end of a lease", least=0.001, most=1e9
    )
    slot: Span = parameter(
        Span(300_000), "waiting jobs get free devices only at the end of a slot; divides the lease", 0.001, 1e9
    )
    resume_log: Span = parameter(Span(30_000), "cost of a restart, times (1 + log2 devices)")

    def __post_init__(self) -> None:
        """Raises `ParameterError` if a lease would end between two slots, when nothing is decided."""
        if self.lease % self.slot:
            lease, slot = (f"{span / 1000:g}" for span in (self.lease, self.slot))
            raise ParameterError(
                text("a slot of {slot} s does not divide a lease of {lease} s", slot=slot, lease=lease),
                hint=text("for instance {example}", example=f"slot={lease}"),
            )


class Grid(Policy):
    """At the end of a lease all jobs are ranked again; at the end of a slot waiting jobs fill the free devices."""

    endures = True

    Parameters = GridParameters

    def __init__(self, parameters: GridParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.waiting: dict[int, JobView] = {}
        self.running: dict[int, JobView] = {}

    @abstractmethod
    def lease_ends(self) -> None:
        """Decide which jobs run; any running job may be replaced."""

    @abstractmethod
    def slot_ends(self) -> None:
        """Start waiting jobs on free devices."""

    def plan(self, moment: Trigger) -> None:
        """Nothing happens between two slots."""
        for job in moment.arrived:
            self.waiting[job.number] = job
            self.arrives(job)
        for job in moment.ended:
            self.running.pop(job.number, None)
            self.leaves(job)
        if self.now % self.p.lease == 0:
            self.lease_ends()
        elif self.now % self.p.slot == 0:
            self.slot_ends()

    def wake(self) -> Millis | None:
        """The next end of a slot, if any job waits."""
        return Millis((self.now // self.p.slot + 1) * self.p.slot) if self.waiting else None

    def arrives(self, job: JobView, /) -> None:
        """A job arrived and waits."""

    def leaves(self, job: JobView, /) -> None:
        """A job ended."""

    def replace(self, order: Iterable[JobView]) -> None:
        """Run the first jobs of a ranking that fit, and no others."""
        free = self.cluster.size
        chosen = []
        for job in order:
            if job.gpus <= free:
                free -= job.gpus
                chosen.append(job)
        stay = {job.number for job in chosen}
        for number, job in list(self.running.items()):
            if number not in stay:
                self.preempt(job)
                del self.running[number]
                self.waiting[number] = job
        self.fill(chosen)

    def fill(self, order: Iterable[JobView]) -> None:
        """Start the waiting jobs of a ranking that fit."""
        for job in order:
            if job.number in self.waiting and self.placement.free >= job.gpus and self.start(job):
                del self.waiting[job.number]
                self.running[job.number] = job
