"""Time where nobody sets the clock: jobs are shorter, waiting is waiting, and jobs of one command have their turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from paictl.cluster.interface import FOREVER, ClusterError, JobRequest, JobState, JobView
from paictl.lab.findings import span
from paictl.lab.messages import literal
from paictl.lab.pacing import Paced, shortened, wait
from paictl.units import Millis, from_unix

BEGAN = from_unix(1_795_000_000)
SHORTER: Mapping[str, str] = {
    "sleep 5m": "sleep 30",
    "sleep 90": "sleep 9",
    "python3 a.py && sleep 1m; sleep 2.5m": "python3 a.py && sleep 6; sleep 15",
    "echo nosleep 5m": "echo nosleep 5m",
    "do-sleep 5m": "do-sleep 5m",
    "sleep infinity": "sleep infinity",
    "sleep 5y": "sleep 5y",
}


def request(*commands: str, duration: Millis | None = None, name: str = "job") -> JobRequest:
    roles = {"train": {"instances": 1, "commands": list(commands)}}
    return JobRequest("ann", {"name": name, "taskRoles": roles}, None, None, duration)


@pytest.mark.parametrize(("command", "wanted"), SHORTER.items())
def test_a_job_sleeps_a_part_of_what_it_would(command: str, wanted: str) -> None:
    roles = {"train": {"instances": 1, "commands": [wanted]}}
    assert shortened(request(command), 10).data == {"name": "job", "taskRoles": roles}


def test_what_was_told_or_is_the_default_lasts_a_part_too_and_for_ever_stays() -> None:
    assert shortened(request("sleep 5m"), 10).duration is None, "its sleep says it"
    assert shortened(request("python3 a.py"), 10).duration == 6_000, "the minute of machines that are imagined"
    assert shortened(request("sleep 5m", duration=Millis(60_000)), 10).duration == 6_000
    assert shortened(request("sleep 5m", duration=FOREVER), 10).duration == FOREVER


@pytest.mark.parametrize("roles", [None, 3, {"train": None}, {"train": {"commands": "sleep 5m"}}])
def test_what_is_no_job_is_left_to_who_takes_it(roles: Any) -> None:
    assert shortened(JobRequest("ann", {"taskRoles": roles}), 10).data == {"taskRoles": roles}


@dataclass
class Clock:
    """A cluster whose time passes while somebody naps."""

    name: str = "pai"
    now: datetime = BEGAN
    epoch: datetime = BEGAN
    naps: list[float] = field(default_factory=list)

    def nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += timedelta(seconds=seconds)


def test_a_minute_of_the_lab_is_waited_for_on_the_clock_of_the_cluster() -> None:
    clock: Any = Clock()
    assert wait(clock, Millis(60_000), 10, clock.nap) == BEGAN + timedelta(seconds=6)
    assert max(clock.naps) <= 1


@dataclass
class Taker:
    """A cluster that lets a job run at the third look."""

    done: list[str] = field(default_factory=list)
    looks: int = 0

    def foresee(self, wanted: JobRequest) -> None:
        if wanted.data["name"] == "wrong":
            raise ClusterError("no such VC")

    def submit(self, requests: list[JobRequest]) -> list[JobView]:
        self.done += [f"submit {one.data['name']}" for one in requests]
        return [view(str(one.data["name"]), JobState.WAITING) for one in requests]

    def job(self, key: str) -> JobView:
        self.looks += 1
        if self.looks < 3:
            return view(key, JobState.WAITING)
        self.done.append(f"runs {key}")
        return view(key, JobState.RUNNING)


def view(key: str, state: JobState) -> JobView:
    return JobView(key=key, vc="vc1", priority="prod", state=state, submitted=BEGAN, devices=1, number=1, reason="")


def test_the_next_job_of_a_command_comes_when_the_one_before_has_its_place() -> None:
    taker: Any = Taker()
    taken = Paced(taker, 10, nap=lambda _: None).submit([request("sleep 1m", name="a"), request("sleep 1m", name="b")])
    assert taker.done == ["submit a", "runs a", "submit b"]
    assert [one.key for one in taken] == ["a", "b"]


def test_none_is_taken_if_one_of_them_is_wrong() -> None:
    taker: Any = Taker()
    with pytest.raises(ClusterError):
        Paced(taker, 10, nap=lambda _: None).submit([request("sleep 1m", name="a"), request("x", name="wrong")])
    assert taker.done == []


@pytest.mark.parametrize(
    ("wanted", "seen", "tolerance", "ok"),
    [
        ("5m", 300_000, 0, True),
        ("5m", 301_000, 0, False),
        ("0s", 40_000, 60_000, True),
        ("0s", 61_000, 60_000, False),
        ("5m", 440_000, 60_000, True),
        ("5m", 460_000, 60_000, False),
        ({"at-least": "5m"}, 200_000, 60_000, True),
        ({"at-least": "5m"}, 140_000, 60_000, False),
    ],
)
def test_a_span_may_be_off_where_time_goes_on_by_itself(wanted: Any, seen: int, tolerance: int, ok: bool) -> None:
    assert span(literal("x"), "ran", wanted, seen, tolerance).ok is ok
