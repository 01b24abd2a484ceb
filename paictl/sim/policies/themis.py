"""Themis: the jobs run whose time here is longest relative to their time on a cluster of their own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

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


class _Account:
    """A job, its remaining work and the time for which it had run at the last decision (ms), and the time that its past
    work would have taken alone."""

    __slots__ = ("alike", "gpus", "isolated", "job", "left", "ran", "scale", "submit")

    def __init__(self, job: JobView, scale: float, group: Hashable) -> None:
        self.job = job
        self.gpus, self.submit = job.gpus, job.submit
        self.alike = job.gpus, group
        """Equal for jobs that fit in the same places: where one of them finds none, no other does."""
        self.left = float(job.work)
        self.isolated = self.ran = 0.0
        self.scale = scale
        """Milliseconds of time alone for each millisecond of work."""


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
        self._accounts: dict[int, _Account] = {}
        """In the order of arrival."""
        self._running: dict[int, _Account] = {}
        self._present = 0
        """Number of jobs at the last decision, which scales the work done since."""
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
            del self._accounts[job.number]
            self._running.pop(job.number, None)
        self._settle()
        for job in moment.arrived:
            self._accounts[job.number] = _Account(job, self._scale(job), self._idle.group(job))
        self._present = len(self._accounts)
        if self._accounts:
            self._switch(self._chosen(self._ranked()))

    def _scale(self, job: JobView) -> float:
        if self.p.isolated == "time" or not job.iterations or not job.work:
            return 1.0
        return job.iterations * 1000 / job.work

    def _settle(self) -> None:
        """Account for the work of running jobs since the last decision, by their isolated share of that time."""
        part = -(-self.cluster.size // max(self._present, 1))
        for account in self._running.values():
            remaining = account.job.remaining(self.now) / ONE
            account.isolated += (account.left - remaining) * account.scale / min(1.0, part / account.gpus)
            account.left, account.ran = remaining, account.job.ran(self.now)

    # --- the ranking

    def _ranked(self) -> list[_Account]:
        """Jobs by how far they lag behind their share, the furthest first."""
        self._decisions += 1
        accounts = self._considered()
        count = len(accounts)
        gpus = np.fromiter((account.gpus for account in accounts), float, count)
        remaining = np.maximum(np.fromiter((account.left for account in accounts), float, count), 1.0)
        scale = np.fromiter((account.scale for account in accounts), float, count)
        done = np.fromiter((account.isolated for account in accounts), float, count)
        age = self.now - np.fromiter((account.submit for account in accounts), float, count)
        alone = done + remaining * scale / isolated_shares(gpus, self.cluster.size, self._present)
        shares = fair_shares(Demands(gpus, remaining, age, alone), self.cluster.size)
        ran = np.fromiter((account.ran for account in accounts), float, count)
        lag = np.where(ran > 0, shares / np.maximum(ran, 1.0), shares * _NEVER_RAN)
        order = np.lexsort((self._dice.permutation(count), -_rounded(lag)))
        return [accounts[place] for place in order.tolist()]

    def _considered(self) -> Sequence[_Account]:
        accounts = list(self._accounts.values())
        if len(accounts) <= self.p.most:
            return accounts
        waiting = (account for account in accounts if account.job.number not in self._running)
        room = max(0, self.p.most - len(self._running))
        return [*self._running.values(), *(account for account, _ in zip(waiting, range(room), strict=False))]

    # --- places

    def _chosen(self, ranked: Iterable[_Account]) -> list[JobView]:
        """The jobs that fit on an idle cluster, one after another; jobs that do not fit are skipped."""
        trial, free = self._idle.trial(), self._idle.free
        chosen: list[JobView] = []
        full: set[tuple[int, Hashable]] = set()
        for account in ranked:
            if account.alike in full or account.gpus > free:
                continue
            if not trial.take(account.job, account.gpus):
                full.add(account.alike)
                continue
            chosen.append(account.job)
            free -= account.gpus
            if not free:
                break
        return chosen

    def _switch(self, chosen: Sequence[JobView]) -> None:
        """Make exactly these jobs run: stop and start jobs, and move running ones only if nothing else helps."""
        wanted = {job.number: job for job in chosen}
        for number in [number for number in self._running if number not in wanted]:
            self.preempt(self._running.pop(number).job)
        new = [job for number, job in wanted.items() if number not in self._running]
        if not new:
            return
        largest_first = sorted(new, key=lambda job: (-job.gpus, job.number))
        if (placed := self._placed(largest_first)) is None:
            for account in self._running.values():
                self.placement.give(self.held(account.job))
            largest_first = sorted(chosen, key=lambda job: (-job.gpus, job.number))
            placed = self._placed(largest_first) or self._placed(chosen) or {}  # in this order they were found to fit
        changed = [job for job in chosen if job.number in placed and placed[job.number] != self.held(job)]
        for job in changed:
            if job.number in self._running:
                self.act(Preempt(job))
        for job in changed:
            self.act(Start(job, placed[job.number]))
            self.hold(job, placed[job.number])
            self._running[job.number] = self._accounts[job.number]

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
