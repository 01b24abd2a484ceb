"""Who is within the promise of its virtual cluster starts at once, whatever other tenants do and whatever they share.

`PAICTL_GUARANTEE_WALKS` says how many random walks; 200 is a soak of an hour.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress

import pytest

from paictl.cluster.embedded import commands
from paictl.cluster.interface import JobRequest, NodeChange
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload.lifecycle import RunState
from tests.unit.cluster.test_reservations_property import HOUR, SHAPES, VCS, Walk, job

WALKS = int(os.environ.get("PAICTL_GUARANTEE_WALKS", "6"))
SHARING = (
    "backfill: [{mode: conservative}]",
    "preemption: {victims: least-loss}",
    "min-run-times: [{time: 20h}]",
    "lend-limits: [{vc: tenantb, devices: 4}]",
    "borrow-limits: [{vc: tenanta, devices: 40}]",
    "user-limits: [{vc: tenantc, devices: 6}, {vc: tenanta, devices: 40}]",
    "departments: [{name: x, vcs: [tenanta, tenantb]}]",
    "spares: [{vc: tenanta, devices: 2}]",
    "opportunistic-order: {by: decayed-use, half-life: 1h}",
)
WITHIN = (((4, 1), (2, 1)), ((2, 3),), ((2, 1),) * 3, ((1, 6),), ((1, 4), (2, 1)), ((2, 2),), ((1, 1),) * 6)
"""Jobs (devices of a task, tasks) that the promise of tenantc holds together: a socket of four devices and a switch."""


class Others(Walk):
    """Users of tenanta and tenantb use everything that a job can say; nodes fail and heal."""

    def submit(self) -> None:
        pick = self.rng.choice
        gpu, instances = pick(SHAPES)
        self.number += 1
        named = pick(["", "", *(one.name for one in self.world.reservations)])
        data = job(f"j{self.number}", pick(VCS), gpu, instances, pick((None, HOUR, 5 * HOUR, 40 * HOUR)), named)
        data["jobRetryCount"] = pick((0, 0, 5))
        for key, value in (
            ("restart", "member"),
            ("saveOnSigterm", "5m"),
            ("checkpointEvery", "1h"),
            ("gangAllocation", False),
            ("hivedScheduler", {"lazyPreemptionEnable": True}),
        ):
            if self.rng.randrange(4) == 0:
                data["extras"][key] = value
        lasting = Millis(pick((HOUR // 2, 3 * HOUR, 20 * HOUR, 1000 * HOUR)))
        priority = pick(("test", "prod", "crit", "oppo", "oppo", "oppo"))
        with suppress(PaictlError):  # some fit into no virtual cluster
            self.apply(commands.Submit((JobRequest("ann", data, None, priority, lasting),)))

    def use_what_has_begun(self) -> None:
        """Reservations are another test's matter."""

    def lose_a_node(self) -> None:
        name = self.rng.choice([f"worker{number}" for number in range(1, 5)])
        lost, found = self.rng.choice([(NodeChange.FAIL, NodeChange.HEAL), (NodeChange.CORDON, NodeChange.UNCORDON)])
        self.apply(commands.SetNode(name, lost))
        for _ in range(3):
            self.step()
        self.apply(commands.SetNode(name, found))

    def claim_promise(self) -> None:
        """All nodes are good: jobs within the promise run at once, and go on running."""
        shapes, keys = self.rng.choice(WITHIN), []
        for gpu, instances in shapes:
            self.number += 1
            data = job(f"own{self.number}", "tenantc", gpu, instances, self.rng.choice((None, HOUR)))
            request = JobRequest("bob", data, None, self.rng.choice(("test", "prod")), Millis(2000 * HOUR))
            self.apply(commands.Submit((request,)))
            keys.append(f"bob~own{self.number}")
        self.check(keys)
        for _ in range(4) if self.rng.randrange(2) else ():
            self.step()
        kept = [key for key in keys if key in self.world.jobs]  # others have come to their limit
        self.check(kept)
        for key in kept:
            self.apply(commands.StopJob(key))

    def check(self, keys: list[str]) -> None:
        found = {key: self.world.jobs[key].status.state for key in keys}
        assert set(found.values()) <= {RunState.RUNNING}, (found, self.world.now)


@pytest.mark.parametrize("seed", range(WALKS))
def test_who_is_within_its_promise_starts_at_once(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    chosen = [f"  {line}\n" for line in SHARING if dice.randrange(5) < 2 or (seed % 2 and "time: 20h" in line)]
    walk = Others(seed, sharing="sharing:\n" + "".join(chosen) if chosen else "")
    for number in range(90):
        walk.step()
        if walk.rng.randrange(12) == 0:
            walk.lose_a_node()
        if number % 6 == 0:
            walk.claim_promise()
