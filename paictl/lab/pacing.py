"""Time in a lab on a cluster whose clock nobody can set: jobs are shorter by the lab's pace, and waiting is waiting."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from paictl.cluster.interface import Identity, JobRequest, Jobs, JobView
from paictl.errors import PaictlError
from paictl.units import FOREVER, Millis, parse_duration

_SLEEP: Final = re.compile(r"(?<![\w-])sleep (?P<span>[0-9][0-9a-z.]*)")
_LONGEST_NAP: Final = 1.0
"""Seconds between two looks at the clock."""


class Paced:
    """Takes jobs for a cluster, each as much shorter as the lab's time is faster."""

    def __init__(self, cluster: Jobs, pace: float) -> None:
        self._cluster = cluster
        self._pace = pace

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Submit them all, or none."""
        return self._cluster.submit([shortened(one, self._pace) for one in requests])


def shortened(request: JobRequest, pace: float) -> JobRequest:
    """A job whose tasks sleep, and last, a part of what they would."""
    told = request.duration
    lasting = told if told is None or told < 0 else Millis(max(1, round(told / pace)))
    data = {name: _roles(value, pace) if name == "taskRoles" else value for name, value in request.data.items()}
    return replace(request, data=data, duration=lasting)


def _roles(roles: Any, pace: float) -> Any:
    if not isinstance(roles, Mapping):
        return roles
    return {name: {**role, "commands": [_faster(str(line), pace) for line in role["commands"]]} if "commands" in role
            else role for name, role in roles.items()}  # fmt: skip


def _faster(command: str, pace: float) -> str:
    """A command line whose ``sleep`` are shorter; a span that cannot be read stays."""

    def instead(found: re.Match[str]) -> str:
        try:
            seconds = parse_duration(found["span"])
        except PaictlError:
            return found[0]
        return found[0] if seconds == FOREVER else f"sleep {seconds / pace:g}"

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
