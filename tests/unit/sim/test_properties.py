"""Every policy, on random clusters and jobs: all invariants after every event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.actions import Colocate, Migrate, Preempt, Resize, Start, Stop, Trigger
from paictl.sim.cluster import Cluster, ClusterShape, Node, homogeneous
from paictl.sim.dice import Dice
from paictl.sim.engine import Simulation
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job, Share, in_order
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.ranked import Ranked
from paictl.sim.policies.table import POLICIES, policy_class
from paictl.sim.rates import Rates
from paictl.sim.run import FINISHED, Ending
from paictl.sim.simulate import simulate
from paictl.sim.state import ONE, JobProgress
from paictl.sim.view import JobView
from paictl.units import Millis

COUNTED = [f"{name}{more}" for name in POLICIES for more in ("", ":suspend=2,resume=1,migrate=3,resize=2,profile=1")]
SHARING = frozenset({"gandiva", "antman", "gavel", "pipeswitch", "singularity", "pooled", "muri"})
"""Policies that can put several jobs on a device."""


@st.composite
def clusters(draw: st.DrawFn, *, types: tuple[str, ...] = ("gpu",)) -> ClusterShape:
    size = draw(st.sampled_from([1, 2, 4, 8]))
    number = draw(st.integers(1, 5))
    racks = draw(st.booleans())
    nodes = tuple(
        Node(
            f"n{i}",
            size,
            types[i % len(types)],
            (("socket", max(1, size // 2)),),
            (("rack", f"r{i // 2}"),) if racks else (),
        )
        for i in range(number)
    )
    return ClusterShape(f"{number}x{size}", nodes)


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 20),
                st.sampled_from([1, 1, 1, 2, 2, 4, 8, 3]),
                st.integers(0, 30),
                st.sampled_from("abc"),
                st.integers(0, 2),
                st.booleans(),
            ),
            min_size=1,
            max_size=14,
        )
    )
    return [
        Job(
            str(number),
            Millis(at * 1000),
            gpus,
            Millis(work * 1000),
            vc=vc,
            model=f"m{number % 3}",
            priority=priority,
            share=Share.OPPORTUNISTIC if low else Share.GUARANTEED,
            skew=0.1 * (number % 8),
            gpu_util=0.2 * (number % 6),
            gpu_mem=0.3,
            sensitivity={"node": 0.8},
            beside={"m0": 0.5, "m1*2": 0.7},
            elastic=(1, 2 * gpus) if number % 4 == 0 else None,
        )
        for number, (at, gpus, work, vc, priority, low) in enumerate(rows)
    ]


@pytest.mark.parametrize("policy", COUNTED)
@settings(max_examples=25)
@given(spec=clusters(types=("gpu", "old")), jobs=traces(), typed=st.booleans())
def test_every_policy_keeps_every_invariant(policy: str, spec: ClusterShape, jobs: list[Job], typed: bool) -> None:
    if typed:  # every third job runs on one type only, and some have no tenant
        jobs = [
            replace(job, gpu_type="gpu" if number % 2 else "old", vc="" if number % 2 else job.vc)
            if number % 3 == 0
            else job
            for number, job in enumerate(jobs)
        ]
    check = Invariants(shared=policy.split(":")[0] in SHARING)
    result = simulate(jobs, spec, policy, log=True, check=check)
    size = sum(node.devices for node in spec.nodes)
    for outcome in result.outcomes:
        least = outcome.gpus
        assert outcome.ending is not Ending.STOPPED or policy_class(result.policy).shares, "only pods are dropped"
        if outcome.ending in FINISHED and not outcome.lost:
            assert outcome.service >= 0
        if least > size and outcome.ending is Ending.IMPOSSIBLE:
            assert outcome.first_start is None
    late_first = sorted(jobs, key=lambda job: -job.submit)  # rows of the same instant keep their order
    again = simulate(late_first, spec, policy, log=True)
    assert replace(again, wall_seconds=0) == replace(result, wall_seconds=0), "only ties go by row"


class Crowded(Rates):
    """Every job is slower the more jobs are near it, and the more devices they have."""

    def __init__(self, cluster: Cluster, level: str) -> None:
        super().__init__(cluster)
        self._level = level

    def vicinity(self) -> Sequence[int] | None:
        return self.cluster.groups.get(self._level)

    def rate(self, _: JobProgress, company: Sequence[JobProgress]) -> int:
        return ONE // (1 + sum(len(other.devices) for other in company))


class Restless(Policy):
    """Starts, moves, resizes, preempts and stops jobs at random: everything that a policy may do."""

    id, title, paper, transparent = "restless", "", "", True

    def __init__(self, spec: ClusterShape, level: str, seed: int) -> None:
        self.level = level
        super().__init__(Parameters(), Setup(Cluster(spec)))
        self.dice = Dice(seed, "restless")
        self.there: list[JobView] = []
        self.steps = 60

    def make_rates(self) -> Rates:
        return Crowded(self.cluster, self.level)

    def wake(self) -> Millis | None:
        return Millis(self.now + 700) if self.steps else None

    def plan(self, moment: Trigger) -> None:
        self.steps -= self.steps > 0
        self.there = [view for view in [*self.there, *moment.arrived] if view not in moment.ended]
        free = sorted(set(range(self.cluster.size)) - {device for view in self.there for device in view.devices})
        for view in list(self.there):
            devices, action = tuple(free[: 1 + self.dice.below(view.gpus)]), self.dice.below(8)
            if view.running and action == 0:
                self.act(Preempt(view))
            elif view.running and action == 1:
                self.act(Stop(view))
                self.there.remove(view)
            elif view.running and action == 2 and len(devices) == len(view.devices):
                self.act(Migrate(view, devices))
                free = [device for device in free if device not in devices]
            elif view.running and action == 3 and devices:
                self.act(Resize(view, devices))
                free = [device for device in free if device not in devices]
            elif not view.running and devices and (action or not self.steps):
                self.act(Start(view, devices))
                free = [device for device in free if device not in devices]
            elif not view.running and self.dice.below(2):
                start = self.dice.below(self.cluster.size)
                self.act(Colocate(view, (start,)))
                free = [device for device in free if device != start]


@pytest.mark.parametrize("level", ["socket", "node", "none"])
@settings(max_examples=40)
@given(spec=clusters(), jobs=traces(), seed=st.integers(0, 99))
def test_a_pace_is_always_that_beside_the_present_neighbours(
    level: str, spec: ClusterShape, jobs: list[Job], seed: int
) -> None:
    """Jobs arrive, end, move, grow and are stopped on a socket (node, device): `Invariants` compares with the model."""
    plain = [replace(job, elastic=None) for job in jobs]
    ended: list[str] = []
    Simulation(
        Cluster(spec),
        Restless(spec, level, seed),
        in_order(plain),
        lambda outcome: ended.append(outcome.id),
        check=Invariants(shared=True),
    ).run()
    assert sorted(ended) == sorted(job.id for job in plain)


@pytest.mark.parametrize("policy", ["srtf", "srsf"])
@settings(max_examples=60)
@given(spec=clusters(), jobs=traces())
def test_what_runs_is_what_a_walk_down_the_ranking_picks(policy: str, spec: ClusterShape, jobs: list[Job]) -> None:
    """The plain walk over all jobs, at each instant at which anything happens."""
    plain = [replace(job, elastic=None) for job in jobs]
    result = simulate(plain, spec, policy)
    assert {outcome.id: outcome.end for outcome in result.outcomes} == _by_hand(plain, spec, by_size=policy == "srsf")


@pytest.mark.parametrize(
    "policy",
    [
        "las:queues=4/20",
        "las:queues=4/20,knob=1",
        "las:dimension=1,queues=5",
        "gittins:queues=4/20",
        "srtf:resume=1",
        "srsf",
    ],
)
@settings(max_examples=60)
@given(spec=clusters(), jobs=traces())
def test_after_every_event_those_run_whom_the_walk_picks(policy: str, spec: ClusterShape, jobs: list[Job]) -> None:
    """The incremental walk against the plain one over all jobs, with the policy's own keys."""

    def check(engine: Simulation) -> None:
        ranked = engine.policy
        assert isinstance(ranked, Ranked)
        order = sorted(
            (ranked.key(view, runs=view.running and view in ran), view.number, view) for view in engine._views.values()
        )
        free, picked = engine.cluster.size, set()
        for _, _, view in order:
            if view.gpus <= free:
                free -= view.gpus
                picked.add(view.id)
        assert {view.id for view in engine._views.values() if view.running} == picked
        ran[:] = [view for view in engine._views.values() if view.running]

    ran: list[JobView] = []
    simulate([replace(job, elastic=None) for job in jobs], spec, policy, check=check)


@settings(max_examples=40)
@given(jobs=traces())
def test_hived_never_lets_a_tenant_have_more_than_its_quota(jobs: list[Job]) -> None:
    quotas = {"a": 8, "b": 4, "c": 4}
    spec = replace(homogeneous(4, 4), quotas=quotas)
    fitting = [job for job in jobs if job.gpus <= quotas[job.vc]]  # larger ones run opportunistically
    simulate(fitting, spec, "hived", check=Invariants(quotas=quotas))


def _by_hand(jobs: list[Job], spec: ClusterShape, *, by_size: bool) -> dict[str, int | None]:
    size = sum(node.devices for node in spec.nodes)
    ends: dict[str, int | None] = {job.id: None for job in jobs}
    coming = [job for job in in_order(jobs) if job.gpus <= size]
    rank = {job.id: number for number, job in enumerate(coming)}
    remaining = {job.id: int(job.work) for job in coming}
    there: list[Job] = []
    runs: list[Job] = []
    now = 0
    while coming or there:
        times = [now + remaining[job.id] for job in runs] + [int(job.submit) for job in coming[:1]]
        at = min(times)
        for job in runs:
            remaining[job.id] -= at - now
            if not remaining[job.id]:
                ends[job.id] = at
                there.remove(job)
        now = at
        while coming and coming[0].submit <= now:
            there.append(coming.pop(0))
        there.sort(key=lambda job: (remaining[job.id] * (job.gpus if by_size else 1), rank[job.id]))
        free, runs = size, []
        for job in there:
            if job.gpus <= free:
                free -= job.gpus
                runs.append(job)
    return ends
