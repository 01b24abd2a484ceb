"""The slots of Gavel's rounds: chosen as if all jobs were ranked again, despite the state kept between rounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.job import Job
from paictl.sim.policies.gavel_rounds import Numbers, RoundQueue
from paictl.sim.state import JobProgress
from paictl.sim.view import JobView
from paictl.units import Millis

DEVICES: Final = (4, 2)
HEAD_START: Final = 180


def view(number: int, gpus: int) -> JobView:
    return JobView(JobProgress(Job(str(number), Millis(0), gpus, Millis(1000)), number))


def ranked_all(
    slots: dict[tuple[Numbers, int], float],
    received: dict[tuple[int, int], int],
    gpus: dict[int, int],
    order: Iterable[int],
) -> dict[Numbers, int]:
    """Every slot of every type by priority, then share, then number; jobs that do not fit are skipped."""
    chosen: dict[Numbers, int] = {}
    for kind in order:
        remaining = DEVICES[kind]
        total = sum(time for (_, where), time in received.items() if where == kind)
        lines = []
        for (numbers, where), share in slots.items():
            if where == kind:
                own = max(received[number, kind] for number in numbers)
                lines.append((-share / (own / total) if share > 0 else 0.0, -share, numbers))
        for _, _, numbers in sorted(lines):
            busy = {number for others in chosen for number in others}
            if gpus[numbers[0]] <= remaining and not busy.intersection(numbers):
                chosen[numbers] = kind
                remaining -= gpus[numbers[0]]
    return chosen


@given(st.data())
def test_a_round_is_chosen_as_if_all_slots_were_ranked(data: st.DataObject) -> None:
    queue = RoundQueue(DEVICES, HEAD_START)
    jobs: dict[int, JobView] = {}
    slots: dict[tuple[Numbers, int], float] = {}
    received: dict[tuple[int, int], int] = {}
    ran: dict[Numbers, int] = {}
    due: dict[tuple[Numbers, int], float] = {}  # shares that are told only when there is no room for all
    for number in range(data.draw(st.integers(1, 9), "instants")):
        match data.draw(st.sampled_from(["enter", "enter", "leave", "settle", "round"])):
            case "leave" if jobs:
                gone = data.draw(st.sampled_from(sorted(jobs)))
                queue.leave(gone)
                del jobs[gone]
                slots = {key: share for key, share in slots.items() if gone not in key[0]}
                received = {key: time for key, time in received.items() if key[0] != gone}
            case "settle":
                queue.reset()
                slots = {key: 0.0 for key in slots if len(key[0]) == 1}
                received = dict.fromkeys(received, HEAD_START)
                alike = [(a, b) for a in jobs for b in jobs if a < b and jobs[a].gpus == jobs[b].gpus]
                pairs = data.draw(st.lists(st.sampled_from(alike), unique=True, max_size=3)) if alike else []
                for pair in pairs:
                    for kind in range(len(DEVICES)):
                        slots[pair, kind] = 0.0
                        queue.offer(pair, kind, jobs[pair[0]].gpus)
                due = {key: data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])) for key in slots}
            case "round":
                queue.account(ran.items(), 360)
                for numbers, kind in ran.items():
                    for name in set(numbers) & set(jobs):
                        received[name, kind] += 360
            case _:
                jobs[number] = view(number, data.draw(st.integers(1, 3)))
                kinds = data.draw(st.sampled_from([(0,), (1,), (0, 1)]))
                queue.enter(jobs[number], kinds)
                received |= {(number, kind): HEAD_START for kind in range(len(DEVICES))}
                slots |= {((number,), kind): 0.0 for kind in kinds}
        order = data.draw(st.sampled_from([(0, 1), (1, 0)]))
        gpus = {name: job.gpus for name, job in jobs.items()}
        everybody = queue.everybody(order)
        if everybody is None:
            for (slot, kind), share in due.items():  # also to jobs that have left since
                queue.share(slot, kind, share)
            slots = {key: due.get(key, share) for key, share in slots.items()}
            due = {}
        ran = queue.choose(order) if everybody is None else everybody
        assert ran == ranked_all(slots | {key: due[key] for key in due.keys() & slots.keys()}, received, gpus, order)


def test_a_pair_and_its_jobs_never_run_together_however_much_room_there_is() -> None:
    queue = RoundQueue(DEVICES, HEAD_START)
    for number in (0, 1):
        queue.enter(view(number, 1), (0,))
    queue.reset()
    queue.offer((0, 1), 0, 1)
    queue.share((0, 1), 0, 1.0)
    assert queue.everybody((0, 1)) is None, "the three slots would fit"
    assert queue.choose((0, 1)) == {(0, 1): 0}
