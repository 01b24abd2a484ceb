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
from tools.fidelity import BOUND, compare, configuration

JOBS, SEED = 16, 27
HOUR = 3_600_000


def jobs() -> list[Job]:
    """Gangs of two tenants on four nodes, more than fit, so that they queue.

    All have a guarantee: which of several victims a preemption meets first depends on the order in which the API server
    tells of pods of one instant, so that one run preempts six times and the next one seven.
    """
    dice, found, now = Dice(SEED, "fidelity"), [], 0
    for number in range(JOBS):
        now += dice.exponential(HOUR // 8) + 1
        found.append(
            Job(
                f"j{number}", Millis(now), dice.pick((1, 2, 4, 4, 8)), Millis(dice.exponential(HOUR) + 60_000),
                vc=dice.pick(("ann", "ben")), share=Share.GUARANTEED,
            )
        )  # fmt: skip
    return found


def test_a_trace_ends_as_the_simulator_says(plane: ControlPlane, api: KubeApi, tmp_path: Path) -> None:
    found = compare(plane, api, jobs(), configuration(4, {"ann": 2, "ben": 2}), tmp_path, lambda _: None)
    jct, makespan = found.differences
    assert abs(jct) <= BOUND, found
    assert abs(makespan) <= BOUND, found
    assert found.preemptions == (0, 0)
    assert len(found.delays) == JOBS
