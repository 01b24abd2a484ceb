"""The engine: order of events, atomic actions, rates, costs; views that hide what a policy does not declare."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from paictl.sim.actions import Action, Colocate, Migrate, PolicyError, Preempt, Resize, Start, Stop, Trigger
from paictl.sim.cluster import Cluster, ClusterShape, Node, homogeneous, mixed
from paictl.sim.engine import BARREN, Simulation
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job, TraceJobError, TraceStatus, in_order
from paictl.sim.knowledge import NOTHING, Knowledge, KnowledgeError
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span
from paictl.sim.run import Ending, JobOutcome
from paictl.sim.simulate import simulate
from paictl.sim.state import ONE, JobProgress
from paictl.sim.view import GUARDED, JobView, view_for
from paictl.units import Millis


def job(name: str, at: int, gpus: int, seconds: float, **more: object) -> Job:
    return Job(name, Millis(at * 1000), gpus, Millis(round(seconds * 1000)), **more)  # type: ignore[arg-type] # any field


Script = Callable[[Trigger, dict[str, JobView]], Sequence[Action]]


class Scripted(Policy):
    """Acts as a test scripts it at each moment; knows all jobs by name."""

    id, title, paper = "scripted", "", ""
    script: Script
    timers: Sequence[int] = ()

    def plan(self, moment: Trigger) -> None:
        self.views = getattr(self, "views", {}) | {job.id: job for job in moment.arrived}
        self.asked = [*getattr(self, "asked", []), moment]
        for action in self.script(moment, self.views):
            self.act(action)

    def wake(self) -> Millis | None:
        return next((Millis(at) for at in self.timers if at > self.now), None)


def play(
    jobs: Sequence[Job], spec: ClusterShape, script: Script, *, timers: Sequence[int] = (), **costs: int
) -> tuple[dict[str, JobOutcome], Scripted]:
    policy = Scripted(Parameters(**{name: Span(value) for name, value in costs.items()}), Setup(Cluster(spec)))  # type: ignore[arg-type]
    policy.rates.located = True
    policy.script, policy.timers = staticmethod(script), timers
    outcomes: dict[str, JobOutcome] = {}
    Simulation(
        policy.cluster,
        policy,
        in_order(list(jobs)),
        lambda outcome: outcomes.__setitem__(outcome.id, outcome),
        check=Invariants(shared=True),
    ).run()
    return outcomes, policy


def at(plan: dict[int, Callable[[dict[str, JobView]], Sequence[Action]]]) -> Script:
    return lambda moment, views: plan[moment.now](views) if moment.now in plan else []


def test_ends_then_arrivals_then_one_question() -> None:
    jobs = [job("a", 0, 1, 10), job("b", 10, 1, 5), job("c", 10, 1, 5)]
    script = at({0: lambda v: [Start(v["a"], (0,))], 10_000: lambda v: [Start(v["b"], (0,))]})
    _, policy = play(jobs, homogeneous(1, 1), script)
    second = policy.asked[1]
    assert ([job.id for job in second.ended], [job.id for job in second.arrived]) == (["a"], ["b", "c"])
    assert [moment.now for moment in policy.asked] == [0, 10_000, 15_000]


def test_jobs_are_numbered_by_submission_and_row() -> None:
    jobs = [job("a", 2, 1, 1), job("j10", 0, 1, 1), job("j2", 0, 1, 1), job("z", 1, 1, 1)]
    assert [numbered.id for numbered in in_order(jobs)] == ["j10", "j2", "z", "a"]


def test_a_job_without_work_ends_when_it_starts() -> None:
    result = simulate([job("a", 3, 1, 0), job("b", 3, 1, 1)], homogeneous(1, 1), "fifo")
    assert [outcome.end for outcome in result.outcomes] == [3000, 4000]


def test_fates_and_endings() -> None:
    jobs = [
        job("dies", 0, 1, 100, fate=TraceStatus.KILLED, dies_after=Millis(7000)),
        job("huge", 0, 9, 1),
        job("ok", 0, 1, 5),
    ]
    result = {outcome.id: outcome for outcome in simulate(jobs, homogeneous(1, 2), "fifo").outcomes}
    assert (result["dies"].ending, result["dies"].end) == (Ending.KILLED, 7000)
    assert (result["huge"].ending, result["huge"].first_start) == (Ending.IMPOSSIBLE, None)
    assert (result["ok"].ending, result["ok"].jct) == (Ending.PASSED, 5000)


WRONG: dict[str, Callable[[dict[str, JobView]], Sequence[Action]]] = {
    "is not there": lambda v: [Stop(v["b"]), Start(v["b"], (0,))],
    "is not free": lambda v: [Start(v["a"], (0, 1)), Start(v["b"], (1,))],
    "all or none": lambda v: [Start(v["a"], (0,))],
    "not a rising list": lambda v: [Start(v["a"], (1, 0))],
    "no such devices": lambda v: [Start(v["a"], (3, 4))],
    "does not run": lambda v: [Preempt(v["a"])],
    "runs already": lambda v: [Start(v["b"], (0,)), Start(v["b"], (1,))],
    "that is a Resize": lambda v: [Start(v["e"], (0, 1)), Migrate(v["e"], (0, 1, 2))],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_actions_change_nothing(message: str) -> None:
    jobs = [job("a", 0, 2, 10), job("b", 0, 1, 10), job("e", 0, 2, 10, elastic=(1, 4))]
    policy = Scripted(Parameters(), Setup(Cluster(homogeneous(1, 4))))
    policy.script = staticmethod(lambda _, views: WRONG[message](views))
    engine = Simulation(policy.cluster, policy, jobs, lambda _: None)
    with pytest.raises(PolicyError, match=message):
        engine.run()
    assert engine.occupancy.used == 0
    assert not any(state.devices for state in engine.live.values())


def test_a_policy_cannot_ask_to_be_woken_in_the_past() -> None:
    policy = Scripted(Parameters(), Setup(Cluster(homogeneous(1, 1))))
    policy.script = staticmethod(lambda _, __: [])
    policy.wake = lambda: Millis(0)  # type: ignore[method-assign]
    with pytest.raises(PolicyError, match="already"):
        Simulation(policy.cluster, policy, [job("a", 0, 1, 1)], lambda _: None).run()


def test_a_policy_that_is_woken_forever_in_vain_comes_to_an_end() -> None:
    policy = Scripted(Parameters(), Setup(Cluster(homogeneous(1, 1))))
    policy.script = staticmethod(lambda _, __: [])
    policy.wake = lambda: Millis(policy.now + 1000)  # type: ignore[method-assign]
    outcomes: list[JobOutcome] = []
    Simulation(policy.cluster, policy, [job("a", 0, 1, 1)], outcomes.append).run()
    assert [outcome.ending for outcome in outcomes] == [Ending.UNFINISHED]


def test_preempted_work_is_kept_or_lost() -> None:
    def script(*, keep: bool) -> Script:
        return at(
            {
                0: lambda v: [Start(v["a"], (0,))],
                4000: lambda v: [Preempt(v["a"], keep)],
                6000: lambda v: [Start(v["a"], (0,))],
            }
        )

    resumed, _ = play([job("a", 0, 1, 10)], homogeneous(1, 1), script(keep=True), timers=(4000, 6000))
    lost, _ = play([job("a", 0, 1, 10)], homogeneous(1, 1), script(keep=False), timers=(4000, 6000))
    assert (resumed["a"].end, resumed["a"].lost, resumed["a"].ran, resumed["a"].waiting) == (12_000, 0, 10_000, 2000)
    assert (lost["a"].end, lost["a"].lost, lost["a"].ran) == (16_000, 4000, 14_000)


def test_costs_hold_devices_without_progress() -> None:
    script = at(
        {
            0: lambda v: [Start(v["a"], (0,))],
            4000: lambda v: [Preempt(v["a"])],
            6000: lambda v: [Start(v["a"], (0,))],
            9000: lambda v: [Migrate(v["a"], (1,))],
        }
    )
    costs = {"profile": 1000, "suspend": 200, "resume": 300, "migrate": 700}
    outcomes, _ = play([job("a", 0, 1, 10)], homogeneous(1, 2), script, timers=(4000, 6000, 9000), **costs)
    # 3 s done by 4000; runs again from 6500; loses 700 to the move at 9000
    assert outcomes["a"].end == 6500 + 7000 + 700
    assert (outcomes["a"].migrations, outcomes["a"].preemptions, outcomes["a"].service) == (1, 1, 4000 + 8200)


def test_elastic_jobs_scale() -> None:
    elastic = job("a", 0, 2, 12, elastic=(1, 4), scaling={4: 1.5})
    script = at(
        {
            0: lambda v: [Start(v["a"], (0, 1))],
            4000: lambda v: [Resize(v["a"], (0, 1, 2, 3))],
            8000: lambda v: [Resize(v["a"], (0,))],
        }
    )
    outcomes, _ = play([elastic], homogeneous(1, 4), script, timers=(4000, 8000))
    # 4 s at 1, 4 s at 1.5, the last 2 s of work at half the rate: not listed, so its part of two devices
    assert (outcomes["a"].end, outcomes["a"].resizes) == (12_000, 2)


def test_company_slows_both_and_its_end_is_felt() -> None:
    jobs = [job("a", 0, 1, 10, model="m", coloc={"n": 0.5}), job("b", 0, 1, 4, model="n", coloc={"m": 0.8})]
    script = at({0: lambda v: [Start(v["a"], (0,)), Colocate(v["b"], (0,))]})
    outcomes, _ = play(jobs, homogeneous(1, 1), script)
    assert (outcomes["b"].end, outcomes["a"].end) == (5000, 12_500)


def test_unknown_pairs_share_the_time_of_a_busy_device() -> None:
    jobs = [job("a", 0, 1, 9, gpu_util=0.9), job("b", 0, 1, 9, gpu_util=0.6)]
    script = at({0: lambda v: [Start(v["a"], (0,)), Colocate(v["b"], (0,))]})
    outcomes, _ = play(jobs, homogeneous(1, 1), script)
    assert outcomes["a"].end == outcomes["b"].end == 13_500


def test_a_limit_holds_a_guest_back() -> None:
    jobs = [job("a", 0, 1, 10, gpu_util=0.5), job("b", 0, 1, 10, gpu_util=0.5)]
    script = at(
        {
            0: lambda v: [Start(v["a"], (0,)), Colocate(v["b"], (0,), ONE // 4)],
            4000: lambda v: [Colocate(v["b"], (0,), ONE // 2)],
        }
    )
    outcomes, _ = play(jobs, homogeneous(1, 1), script, timers=(4000,))
    assert (outcomes["a"].end, outcomes["b"].end) == (10_000, 22_000)


def test_types_and_places_make_a_difference() -> None:
    spec = ClusterShape(
        "two racks",
        (
            Node("n1", 2, "new", (), (("rack", "r1"),)),
            Node("n2", 2, "old", (), (("rack", "r1"),)),
            Node("n3", 2, "new", (), (("rack", "r2"),)),
        ),
    )
    tables = {"throughput": {"new": 1.0, "old": 0.5}, "sensitivity": {"rack": 0.8, "cluster": 0.5}, "spread": {2: 0.9}}

    def ends(devices: tuple[int, ...]) -> int:
        outcomes, _ = play([job("a", 0, 2, 9, **tables)], spec, at({0: lambda v: [Start(v["a"], devices)]}))
        return outcomes["a"].end or 0

    assert ends((0, 1)) == 9000
    assert ends((2, 3)) == 18_000, "old devices are half as fast"
    assert ends((0, 2)) == 25_000, "half for the old one, 0.8 for the rack, 0.9 for two nodes"
    assert ends((0, 4)) == 20_000, "two racks, two nodes"


def test_a_job_that_needs_a_type_gets_it() -> None:
    spec = mixed([("K80", 1, 2), ("V100", 1, 2)])
    result = simulate([job("a", 0, 2, 5, gpu_type="V100"), job("b", 0, 3, 5, gpu_type="V100")], spec, "fifo", log=True)
    assert next(entry.devices for entry in result.log if entry.what == "start") == (2, 3)
    assert result.outcomes[1].ending is Ending.IMPOSSIBLE


@pytest.mark.parametrize("field", GUARDED)
def test_what_is_not_declared_cannot_be_read(field: str) -> None:
    state = JobProgress(job("a", 0, 1, 1), 0)

    def read(view: JobView) -> object:
        attribute = getattr(view, field)
        return attribute(Millis(0)) if callable(attribute) else attribute

    with pytest.raises(KnowledgeError, match=field):
        read(view_for(NOTHING)(state))
    read(view_for(frozenset({GUARDED[field]}))(state))
    with pytest.raises(KnowledgeError, match=field):
        read(view_for(frozenset(Knowledge) - {GUARDED[field]})(state))


def test_a_policy_that_reads_too_much_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from paictl.sim.policies.queue import Sjf

    monkeypatch.setattr(Sjf, "knows", NOTHING)
    with pytest.raises(KnowledgeError, match="work"):
        simulate([job("a", 0, 1, 1)], homogeneous(1, 1), "sjf")


def test_a_job_that_cannot_be() -> None:
    with pytest.raises(TraceJobError, match="at least 1 device"):
        job("a", 0, 0, 1)
    with pytest.raises(TraceJobError, match="cannot be negative"):
        job("a", -1, 1, 1)


def test_memory_does_not_grow_with_the_trace() -> None:
    """The engine hands out outcomes at once and keeps only present jobs."""
    policy_jobs = (job(str(number), number, 1, 1) for number in range(20_000))
    most = 0
    from paictl.sim.policies.table import make

    def check(engine: Simulation) -> None:
        nonlocal most
        most = max(most, len(engine.live) + len(engine._views) + len(engine._loop))

    cluster = Cluster(homogeneous(1, 4))
    Simulation(cluster, make("fifo", Setup(cluster)), policy_jobs, lambda _: None, check=check).run()
    assert most < 20


def test_an_end_that_is_void_is_no_instant_and_delays_nobody() -> None:
    jobs = [job("a", 0, 1, 100), job("c", 20, 1, 5)]
    script = at(
        {
            0: lambda v: [Start(v["a"], (0,))],
            10_000: lambda v: [Preempt(v["a"])],
            20_000: lambda v: [Start(v["c"], (0,))],
        }
    )
    outcomes, policy = play(jobs, homogeneous(1, 1), script, timers=(10_000,))
    assert (outcomes["c"].end, outcomes["a"].ending) == (25_000, Ending.UNFINISHED)
    assert [moment.now for moment in policy.asked] == [0, 10_000, 20_000, 25_000]


def test_the_run_is_over_when_only_void_ends_are_left() -> None:
    policy = Scripted(Parameters(), Setup(Cluster(homogeneous(1, 1))))
    policy.script = staticmethod(at({0: lambda v: [Start(v["a"], (0,))], 10_000: lambda v: [Preempt(v["a"])]}))
    policy.timers = (10_000,)
    engine = Simulation(policy.cluster, policy, [job("a", 0, 1, 100)], lambda _: None)
    engine.run()
    assert engine.now == 10_000


def test_a_move_does_not_shorten_what_the_start_still_costs() -> None:
    script = at({0: lambda v: [Start(v["a"], (0,))], 10_000: lambda v: [Migrate(v["a"], (1,))]})
    outcomes, _ = play([job("a", 0, 1, 10)], homogeneous(1, 2), script, timers=(10_000,), profile=60_000, migrate=5000)
    assert outcomes["a"].end == 70_000


def test_a_preempted_job_waits_since_then() -> None:
    waits_since: list[int] = []

    def look(views: dict[str, JobView]) -> Sequence[Action]:
        waits_since.append(views["a"].since)
        return []

    script = at(
        {
            0: lambda v: [Start(v["a"], (0,))],
            10_000: lambda v: [Preempt(v["a"])],
            15_000: look,
            20_000: lambda v: [Start(v["a"], (0,))],
        }
    )
    play([job("a", 0, 1, 30)], homogeneous(1, 1), script, timers=(10_000, 15_000, 20_000))
    assert waits_since == [10_000]


def test_who_is_started_and_stopped_at_once_is_gone() -> None:
    script = at({0: lambda v: [Start(v["a"], (0,)), Stop(v["a"])], 20_000: lambda v: [Start(v["c"], (0,))]})
    outcomes, _ = play([job("a", 0, 1, 10), job("c", 20, 1, 5)], homogeneous(1, 1), script)
    assert [(outcome.ending, outcome.end) for outcome in outcomes.values()] == [
        (Ending.STOPPED, 0),
        (Ending.PASSED, 25_000),
    ]


def test_a_run_in_which_no_work_is_done_any_more_ends() -> None:
    """Slices of a minute, and ten minutes for a restart: no job would ever make progress."""
    jobs = [Job(str(n), Millis(0), 4, Millis(600_000)) for n in range(3)]
    result = simulate(jobs, homogeneous(1, 4), "gandiva:resume=10m,packing=false")
    assert {outcome.ending for outcome in result.outcomes} == {Ending.UNFINISHED}
    assert result.counters["decisions"] < 3 * BARREN
    slow = simulate(jobs, homogeneous(1, 4), "gandiva:resume=59,packing=false")
    assert {outcome.ending for outcome in slow.outcomes} == {Ending.PASSED}, "a second of each minute is enough"


def test_many_decisions_without_an_end_are_no_standstill_while_work_is_done() -> None:
    long = [Job("long", Millis(0), 4, Millis(60_000 * 3 * BARREN)), Job("too", Millis(0), 4, Millis(60_000 * BARREN))]
    result = simulate(long, homogeneous(1, 4), "gandiva:packing=false")
    assert {outcome.ending for outcome in result.outcomes} == {Ending.PASSED}
    assert result.counters["decisions"] > 2 * BARREN
