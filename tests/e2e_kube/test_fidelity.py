"""The simulator's word for what a cluster does: one small trace through both, whose ends are compared.

`make fidelity` does the same with a trace of 400 jobs.
"""

from __future__ import annotations

from pathlib import Path

from paictl.sim.dice import Dice
from paictl.sim.job import Job, Share
from paictl.units import Millis
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.kubeapi import KubeApi
from tools.fidelity import BOUND, QUIET, compare, configuration

JOBS, SEED = 16, 24
HOUR = 3_600_000


def jobs() -> list[Job]:
    """Gangs of two tenants on four nodes, more than fit: they queue, borrow, and are preempted."""
    dice, found, now = Dice(SEED, "fidelity"), [], 0
    for number in range(JOBS):
        now += dice.exponential(HOUR // 8) + 1
        lent = dice.below(4) == 0
        found.append(
            Job(
                f"j{number}",
                Millis(now),
                dice.pick((1, 2, 4, 4, 8)),
                Millis(dice.exponential(HOUR) + 60_000),
                vc="ann" if dice.below(2) else "ben",
                priority=dice.below(2),
                share=Share.OPPORTUNISTIC if lent else Share.GUARANTEED,
            )
        )
    return found


def test_a_trace_ends_as_the_simulator_says(plane: ControlPlane, api: KubeApi, tmp_path: Path) -> None:
    for quiet in (QUIET, 5 * QUIET):  # a machine so busy that it is still for long while at work has more time
        folder = tmp_path / f"{quiet}"
        folder.mkdir()
        found = compare(plane, api, jobs(), configuration(4, {"ann": 2, "ben": 2}), folder, lambda _: None, quiet)
        if max(map(abs, found.differences)) <= BOUND:
            break
    assert max(map(abs, found.differences)) <= BOUND, found
    assert found.preemptions[1] >= 8, "the trace has to preempt, or it says little"
    assert len(found.delays) == JOBS + found.preemptions[0]
