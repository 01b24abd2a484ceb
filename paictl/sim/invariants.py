"""What must hold after every instant of every run, whatever the policy. Tests run it as `check=` of `simulate`."""

from __future__ import annotations

from collections import defaultdict

from paictl.sim.engine import Simulation
from paictl.sim.job import WHOLE, Share
from paictl.sim.state import ONE, JobProgress
from paictl.units import Millis


class BrokenError(AssertionError):
    """An invariant does not hold: a defect of the engine or of a policy."""


class Invariants:
    """Checks one run; make a new one for each.

    * a device has several jobs only if all but the first came by `Colocate` (the engine's books agree with the jobs'),
    * no job has a device that is down,
    * a gang has all of its devices or none, and never more than it can use,
    * every job has the rate that the policy's model gives it beside the jobs that are near it now,
    * work is conserved: what a job has done is what its rates add up to, and never more than all of it,
    * the clock never goes back,
    * with `quotas`: guaranteed jobs of a tenant never hold more than it was promised.
    """

    def __init__(self, *, shared: bool = False, quotas: dict[str, int] | None = None) -> None:
        self.shared = shared
        self.quotas = quotas
        self._now = Millis(0)
        self._done: dict[int, tuple[Millis, int, int, int]] = {}
        """By job: when it was last checked; work left, rate and lost work then."""

    def __call__(self, engine: Simulation) -> None:
        """Raise `BrokenError` with everything that is wrong."""
        problems = self._clock(engine) + self._devices(engine) + self._paces(engine) + self._work(engine)
        problems += self._quotas(engine)
        if problems:
            raise BrokenError(f"at {engine.now} ms: " + "; ".join(problems))

    def _clock(self, engine: Simulation) -> list[str]:
        before, self._now = self._now, engine.now
        return [f"the clock went back from {before}"] if engine.now < before else []

    def _devices(self, engine: Simulation) -> list[str]:
        holdings = [(state.number, state.devices) for state in engine.live.values() if state.devices]
        problems = engine.occupancy.problems(holdings)
        if not self.shared:
            problems += [
                f"device {device} has {len(on)} jobs"
                for device in range(engine.cluster.size)
                if len(on := engine.occupancy.on(device)) > 1 and engine.filled(device) > WHOLE
            ]
        if engine.hardware is not None:
            down = engine.hardware.down
            problems += [f"device {device} is down and in use" for device in down if engine.occupancy.on(device)]
        for state in engine.live.values():
            least, most = state.job.devices_range(transparent=engine.policy.transparent, tunes=engine.policy.tunes)
            number = len(state.devices)
            if number and number != state.job.gpus and not least <= number <= most:
                problems.append(f"job {state.job.id} has {number} devices of {state.job.gpus}")
        return problems

    def _paces(self, engine: Simulation) -> list[str]:
        rates = engine.policy.rates
        groups = rates.vicinity() or range(engine.cluster.size)
        running = [state for state in engine.live.values() if state.devices]
        near = {state.number: {groups[device] for device in state.devices} for state in running}
        problems = []
        for state in running:
            company = [
                other for other in running if other is not state and near[other.number] & near[state.number]
            ]  # by number, as in the engine: jobs are in the order of arrival
            if (pace := rates.rate(state, company)) != state.rate:
                problems.append(f"job {state.job.id} goes at {state.rate} and should at {pace}")
        return problems

    def _work(self, engine: Simulation) -> list[str]:
        problems = []
        for state in engine.live.values():
            problems += self._progress(engine.now, state)
            self._done[state.number] = (engine.now, state.left_at(engine.now), state.rate, state.lost)
        for number in [number for number in self._done if number not in engine.live]:
            del self._done[number]
        return problems

    def _progress(self, now: Millis, state: JobProgress) -> list[str]:
        left, total = state.left_at(now), state.job.true_work * ONE
        problems = []
        if not 0 <= left <= total:
            problems.append(f"job {state.job.id} has {left} of {total} units left")
        if not state.placed and state.rate:
            problems.append(f"job {state.job.id} makes progress without devices")
        if (before := self._done.get(state.number)) is not None:
            earlier, left_before, rate, lost = before
            gained = (state.lost - lost) * ONE
            if left_before - left + gained > rate * (now - earlier):
                problems.append(f"job {state.job.id} did {left_before - left} units in {now - earlier} ms at {rate}")
            if left_before < left and not gained and state.lost == lost:
                problems.append(f"job {state.job.id} lost {left - left_before} units of work")
        return problems

    def _quotas(self, engine: Simulation) -> list[str]:
        if self.quotas is None:
            return []
        used: dict[str, int] = defaultdict(int)
        for state in engine.live.values():
            if state.job.share is Share.GUARANTEED:
                used[state.job.vc] += len(state.devices)
        return [
            f"tenant {vc} has {number} devices of {self.quotas.get(vc, 0)}"
            for vc, number in used.items()
            if number > self.quotas.get(vc, 0)
        ]
