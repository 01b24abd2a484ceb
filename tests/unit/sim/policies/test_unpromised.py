"""ElasticFlow's jobs without a promise: looked at and ranked as if everybody were looked at anew each time."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.job import Job
from paictl.sim.policies.unpromised import Unpromised
from paictl.sim.state import ONE, JobProgress
from paictl.sim.view import JobView
from paictl.units import Millis

MOST = 3


@given(st.data())
def test_the_oldest_and_who_runs_come_by_remaining_service(data: st.DataObject) -> None:
    running: set[int] = set()
    kept = Unpromised(MOST, running)
    jobs: dict[int, JobView] = {}
    states: dict[int, JobProgress] = {}
    for step in range(data.draw(st.integers(1, 25), "instants")):
        now = Millis(10 * step)
        held = sorted(jobs)
        what = data.draw(st.sampled_from(["enter", "enter", "leave", "runs", "waits"]) if held else st.just("enter"))
        if what == "enter":
            states[step] = state = JobProgress(
                Job(str(step), Millis(0), data.draw(st.integers(1, 4)), Millis(data.draw(st.integers(300, 310)))), step
            )
            jobs[step] = JobView(state)
            if data.draw(st.booleans()):
                running.add(step)
            kept.enter(jobs[step], now)
        else:
            number = data.draw(st.sampled_from(held))
            match what:
                case "leave":
                    running.discard(number)
                    kept.leave(number, now)
                    del jobs[number]
                case "runs":
                    running.add(number)
                    kept.runs(number)
                case "waits" if number in running:
                    running.remove(number)
                    kept.waits(number, now)
        for number, state in states.items():
            state.settle(now)
            state.rate = ONE if number in running else 0
        looked_at = {*islice(jobs, MOST), *running}
        later = Millis(now + 5)
        expected = sorted(looked_at, key=lambda number: (jobs[number].remaining(later) * jobs[number].gpus, number))
        assert [job.number for job in kept.by_service(later)] == expected
        assert [number for number in range(step + 1) if number in kept] == sorted(jobs)


def test_who_is_not_here_is_passed_over() -> None:
    kept = Unpromised(MOST, {7})
    kept.leave(7, Millis(0))
    kept.runs(7)
    kept.waits(7, Millis(0))
    assert not list(kept.by_service(Millis(0)))
