"""Themis: the jobs run whose time here is longest relative to their time on a cluster of their own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from paictl.frozen import frozen
from paictl.sim.actions import Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement import PLACEMENTS
from paictl.sim.policies.base import Parameters, Policy, Setup, Where
from paictl.sim.policies.parameters import parameter
from paictl.sim.programs.finish_times import Demands, fair_shares, isolated_shares
from paictl.sim.state import ONE
from paictl.sim.view import JobView

_BITS: Final = 10
"""Bits by which two jobs are compared; beyond them the published code follows the noise of its solver."""
_NEVER_RAN: Final = 1e9
"""Weight of the share of a job that has not run yet (the published code): such jobs come first."""


@frozen
class ThemisParameters(Parameters):
    """`themis:…`."""

    placement: Where = parameter("consolidate", "where devices come from: count (anywhere), consolidate (fewest nodes)")
    isolated: Literal["time", "steps"] = parameter(
        "time", "how a job's time alone is measured; steps: one second each, as in Muri's simulator"
    )
    most: int = parameter(4096, "number of jobs that a decision considers: running ones, then the oldest", least=1)


class _Candidate(NamedTuple):
    """A job, and what decides where it fits."""

    job: JobView
    gpus: int
    alike: tuple[int, Hashable]
    """Equal for jobs that fit in the same places: where one of them finds none, no other does."""


class _Accounts:
    """A row of numbers for each job, in the order of arrival, with which the program can compute as they are."""

    _ROW = np.dtype(
        [
            ("number", int),
            ("gpus", float),
            ("submit", float),
            ("scale", float),  # time alone for each millisecond of work
            ("left", float),  # work that remained at the last decision (ms)
            ("alone", float),  # time that its past work would have taken alone (ms)
            ("ran", float),  # time for which it had run at the last decision (ms)
        ]
    )

    def __init__(self) -> None:
        self._memory = np.zeros(64, self._ROW)
        self._count = 0

    @property
    def rows(self) -> Any:
        """Of all jobs; what is written into them stays."""
        return self._memory[: self._count]

    def add(self, job: JobView, scale: float) -> None:
        """Append a job that has just arrived."""
        if self._count == len(self._memory):
            self._memory = np.concatenate((self._memory, np.zeros_like(self._memory)))
        self._memory[self._count] = job.number, job.gpus, job.submit, scale, job.work, 0, 0
        self._count += 1

    def remove(self, job: JobView) -> None:
        """Forget a job."""
        place = int(self.places([job.number])[0])
        self._memory[place : self._count - 1] = self._memory[place + 1 : self._count]
        self._count -= 1

    def places(self, numbers: Sequence[int]) -> Any:
        """Positions of jobs among the rows: job numbers rise with the arrival."""
        return np.searchsorted(self.rows["number"], numbers)


class Themis(Policy):
    """Computes shares of time that keep the worst finish-time ratio small, whenever a job arrives or ends.

    The ratio is a job's time from submission to its end with these shares, divided by its time on a part of the cluster
    of its own (all devices divided by the number of jobs). The jobs with the largest share, relative to the time they
    have received, run. Example: `themis:resume=10`.
    """

    id = "themis"
    title = "finish-time fairness: shares by the worst ratio, computed whenever a job arrives or ends"
    paper = "Mahajan et al., NSDI'20 (the ratio, without its auction); Rivendile/Muri@4e69a78 `--schedule=themis`"
    knows = frozenset({Knowledge.DURATION, Knowledge.THROUGHPUT})
    Parameters = ThemisParameters
    choices = (
        "no auction, leases or bids: one program over all jobs, as in the simulators of Muri and Gavel",
        "all types of devices count as equal; `gavel:objective=finish-time` distinguishes them",
        "among shares with the same worst ratio, their center is taken, as by the interior-point solver of "
        "the published code; jobs with few devices get more of their time",
        "isolated=steps: Muri's simulator leaves the time of a step out of a job's time alone, so jobs "
        "with long steps come first",
        "jobs that lag equally, to a thousandth, are ordered at random by the seed: there the published code "
        "follows the noise of its solver, and a fixed order would make mean JCTs up to 2.5 times as large",
        "jobs that keep running stay where they are, unless another job would not fit otherwise",
    )

    def __init__(self, parameters: ThemisParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._accounts = _Accounts()
        self._candidates: dict[int, _Candidate] = {}
        """By job number, in the order of arrival."""
        self._running: dict[int, JobView] = {}
        self._present = 0
        """Number of jobs at the last decision, which scales the work done since."""
        self._settled = self.now
        """When the last decision was made; those that run have run since."""
        self._idle = PLACEMENTS[self.p.placement](self.cluster)
        """The cluster without jobs, on which it is tried which ones would fit."""
        self._decisions = 0
        self._dice = np.random.RandomState(setup.seed % (1 << 32))

    def counted(self) -> Mapping[str, float]:
        """How often shares were computed."""
        return {"programs": self._decisions}

    def plan(self, moment: Trigger) -> None:
        """Compute shares, and run the jobs that lag behind theirs most."""
        if not (moment.arrived or moment.ended):
            return
        for job in moment.ended:
            self._accounts.remove(job)
            del self._candidates[job.number]
            self._running.pop(job.number, None)
        self._settle()
        for job in moment.arrived:
            self._accounts.add(job, self._scale(job))
            self._candidates[job.number] = _Candidate(job, job.gpus, (job.gpus, self._idle.group(job)))
        self._present = len(self._candidates)
        if self._candidates:
            self._switch(self._chosen(self._ranked()))

    def _scale(self, job: JobView) -> float:
        if self.p.isolated == "time" or not job.iterations or not job.work:
            return 1.0
        return job.iterations * 1000 / job.work

    def _settle(self) -> None:
        """Account for the work of running jobs since the last decision, by their isolated share of that time."""
        if self._running:
            remaining = [job.remaining(self.now) for job in self._running.values()]
            left = np.fromiter(remaining, float, len(remaining)) / ONE
            places = self._accounts.places(list(self._running))
            rows = self._accounts.rows[places]
            shares = isolated_shares(rows["gpus"], self.cluster.size, self._present)
            rows["alone"] += (rows["left"] - left) * rows["scale"] / shares
            rows["left"] = left
            rows["ran"] += self.now - self._settled
            self._accounts.rows[places] = rows
        self._settled = self.now

    # --- the ranking

    def _ranked(self) -> list[int]:
        """Numbers of the jobs by how far they lag behind their share, the furthest first."""
        self._decisions += 1
        rows = self._considered()
        gpus, ran = rows["gpus"], rows["ran"]
        left = np.maximum(rows["left"], 1.0)
        alone = rows["alone"] + left * rows["scale"] / isolated_shares(gpus, self.cluster.size, self._present)
        shares = fair_shares(Demands(gpus, left, self.now - rows["submit"], alone), self.cluster.size)
        lag = np.where(ran > 0, shares / np.maximum(ran, 1.0), shares * _NEVER_RAN)
        order = np.lexsort((self._dice.permutation(len(rows)), -_rounded(lag)))
        numbers: list[int] = rows["number"][order].tolist()
        return numbers

    def _considered(self) -> Any:
        rows = self._accounts.rows
        if len(rows) <= self.p.most:
            return rows
        running = self._accounts.places(list(self._running))
        waiting = np.delete(np.arange(len(rows)), running)
        return rows[np.concatenate((running, waiting[: max(0, self.p.most - len(running))]))]

    # --- places

    def _chosen(self, ranked: Iterable[int]) -> list[JobView]:
        """The jobs that fit on an idle cluster, one after another; jobs that do not fit are skipped."""
        trial, free = self._idle.trial(), self._idle.free
        chosen: list[JobView] = []
        full: set[tuple[int, Hashable]] = set()
        for number in ranked:
            job, gpus, alike = self._candidates[number]
            if gpus > free or alike in full:
                continue
            if not trial.take(job, gpus):
                full.add(alike)
                continue
            chosen.append(job)
            free -= gpus
            if not free:
                break
        return chosen

    def _switch(self, chosen: Sequence[JobView]) -> None:
        """Make exactly these jobs run: stop and start jobs, and move running ones only if nothing else helps."""
        wanted = {job.number: job for job in chosen}
        for number in [number for number in self._running if number not in wanted]:
            self.preempt(self._running.pop(number))
        new = [job for number, job in wanted.items() if number not in self._running]
        if not new:
            return
        largest_first = sorted(new, key=lambda job: (-job.gpus, job.number))
        if (placed := self._placed(largest_first)) is None:
            for job in self._running.values():
                self.placement.give(self.held(job))
            largest_first = sorted(chosen, key=lambda job: (-job.gpus, job.number))
            placed = self._placed(largest_first) or self._placed(chosen) or {}  # in this order they were found to fit
        changed = [job for job in chosen if job.number in placed and placed[job.number] != self.held(job)]
        for job in changed:
            if job.number in self._running:
                self.act(Preempt(job))
        for job in changed:
            self.act(Start(job, placed[job.number]))
            self.hold(job, placed[job.number])
            self._running[job.number] = job

    def _placed(self, jobs: Iterable[JobView]) -> dict[int, Devices] | None:
        """Devices by job number, taken in this order; None, and nothing changes, if a job does not fit."""
        placed: dict[int, Devices] = {}
        for job in jobs:
            devices = self.placement.take(job, job.gpus)
            if devices is None:
                for undone in placed.values():
                    self.placement.give(undone)
                return None
            placed[job.number] = devices
        return placed


def _rounded(values: Any) -> Any:
    """To `_BITS` significant bits."""
    parts, powers = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(parts, _BITS)), powers - _BITS)
