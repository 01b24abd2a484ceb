"""Time in a lab on a cluster whose clock cannot be set: jobs are shorter by the lab's pace, and waiting is waiting."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from paictl.cluster.admission import DEFAULT_SECONDS
from paictl.cluster.interface import Identity, JobRequest, Jobs, JobState, JobView, Scheduling
from paictl.errors import PaictlError
from paictl.units import FOREVER, Millis, parse_duration
from paictl.workload.duration import sleep_seconds

_SLEEP: Final = re.compile(r"(?<![\w-])sleep (?P<span>[0-9][0-9a-z.]*)")
_LONGEST_NAP: Final = 1.0
"""Seconds between two looks at the clock."""
_TURN, _TURNS = 0.2, 20
"""Seconds between two looks whether a job runs, and how many of them."""


class PacedPorts(Jobs, Scheduling, Protocol):
    """A cluster that takes jobs."""


class Paced:
    """Takes jobs for a cluster, each as much shorter as the lab's time is faster."""

    def __init__(self, cluster: PacedPorts, pace: float, nap: Callable[[float], None] = time.sleep) -> None:
        self._cluster = cluster
        self._pace = pace
        self._nap = nap

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Submit them all, or none for what is wrong with one of them.

        Each has had its turn with the scheduler before the next comes: which job gets which node is no accident.
        """
        short = [shortened(request, self._pace) for request in requests]
        for request in short[1:]:
            self._cluster.foresee(request)
        views: list[JobView] = []
        for request in short:
            self._await_turn(views[-1:])
            views += self._cluster.submit([request])
        return views

    def _await_turn(self, before: Sequence[JobView]) -> None:
        """Wait until a job runs, for some seconds."""
        for job in before:
            for _ in range(_TURNS):
                if self._cluster.job(job.key).state is not JobState.WAITING:
                    break
                self._nap(_TURN)


def shortened(request: JobRequest, pace: float) -> JobRequest:
    """A job whose tasks sleep, and last, a part of what they would."""
    duration = request.duration
    if duration is None and not any(map(_sleeps, _mapping(request.data.get("taskRoles")).values())):
        duration = Millis(round(DEFAULT_SECONDS * 1000))  # what machines that are imagined would take it for
    lasting = duration if duration is None or duration < 0 else Millis(max(1, round(duration / pace)))
    data = {name: _roles(value, pace) if name == "taskRoles" else value for name, value in request.data.items()}
    return replace(request, data=data, duration=lasting)


def _roles(roles: Any, pace: float) -> Any:
    return {name: _role(role, pace) for name, role in roles.items()} if isinstance(roles, Mapping) else roles


def _role(role: Any, pace: float) -> Any:
    commands = _mapping(role).get("commands")
    if not isinstance(commands, list):
        return role  # whoever takes the job says what is wrong with it
    return {**role, "commands": [_faster(str(line), pace) for line in commands]}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sleeps(role: Any) -> bool:
    """Whether the commands of a role say how long it lasts."""
    commands = _mapping(role).get("commands")
    return isinstance(commands, list) and sleep_seconds(map(str, commands)) is not None


def _faster(command: str, pace: float) -> str:
    """A command line whose ``sleep`` are shorter; a span that cannot be read stays."""

    def instead(match: re.Match[str]) -> str:
        try:
            seconds = parse_duration(match["span"])
        except PaictlError:
            return match[0]
        return match[0] if seconds == FOREVER else f"sleep {seconds / pace:g}"

    return _SLEEP.sub(instead, command)


def wait(
    cluster: Identity, span: Millis, pace: float, nap: Callable[[float], None] = time.sleep, late: float = 0.0
) -> datetime:
    """Return when a span of the lab, and `late` seconds, have passed on the cluster's clock; the instant then."""
    now = cluster.now
    until = now + timedelta(milliseconds=span / pace) + timedelta(seconds=late)
    while now < until:
        nap(min(_LONGEST_NAP, (until - now).total_seconds()))
        now = cluster.now
    return now
