"""Why a job is where it is: the words for it, and its data for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.cluster.scheduling import JobExplanation, Situation
from paictl.scheduler.explain import render, to_data
from paictl.workload.job import PRIORITIES

_CLASSES: Final = {priority: name for name, priority in PRIORITIES.items()}
_WITHOUT: Final[Mapping[str, str]] = {
    "frameworkcontroller": "no pods are made for it",
    "hivedscheduler": "nothing new is placed",
}
"""What does not happen while a service is stopped."""


def lines(found: JobExplanation) -> list[str]:
    """An explanation for people, line by line."""
    if found.scheduler is not None:
        head = f"job {found.job}: {found.waiting} of {found.tasks} tasks wait"
        return [*([head] if found.waiting > 1 else []), *render(found.scheduler, _CLASSES.get)]
    text, hint = _plain(found)
    return [text, f"hint: {hint}"] if hint else [text]


def data(found: JobExplanation) -> dict[str, Any]:
    """An explanation for programs."""
    if found.scheduler is not None:
        return {"job": found.job, **to_data(found.scheduler)}
    text, hint = _plain(found)
    return {
        "job": found.job, "state": found.state.value, "situation": found.situation.value, "text": text, "hint": hint,
    }  # fmt: skip


def _plain(found: JobExplanation) -> tuple[str, str]:
    """(text, hint) where the scheduler has not looked."""
    match found.situation:
        case Situation.SERVICE_STOPPED:
            then = _WITHOUT.get(found.service, "nothing is done for it")
            return (
                f"job {found.job} waits because {found.service} is stopped: {then}",
                f"start it: paictl service start -n {found.service}",
            )
        case Situation.UNKNOWN_TERMS:
            return (
                f"job {found.job} waits because it asks for what the scheduler's configuration does not have: "
                f"{found.reason}",
                f"stop it and submit it again for what there is: paictl job stop {found.job}",
            )
        case Situation.NO_SCHEDULER | Situation.NO_ROOM:
            return f"job {found.job} waits because the cluster has no scheduler", ""
        case Situation.NOT_WAITING:
            return f"job {found.job} does not wait: it is {found.state.value}", ""
