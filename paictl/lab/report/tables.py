"""The textbook's tables: which machines there were and with which software, and what became of each job.

Rows are cells in the order of the heads; an empty cell is what is not known. Jobs are told by the events alone, which
`consistency` compares with the commands: nothing in the table of jobs can be altered by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.cluster.interface import Event, EventKind
from paictl.lab.embedded import ORIGIN
from paictl.lab.report.content import clock_of, phenomena
from paictl.units import millis_between

HOSTS: Final = ("host", "address", "role", "devices", "os", "driver", "cuda", "runtime")
"""Heads of the table of machines, as keys of the report's words."""
JOBS: Final = ("job", "vc", "class", "submitted", "first-started", "ended", "ran-on", "outcome")
"""Heads of the table of jobs, likewise."""
_ENDS: Final = (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.STOPPED)

Row = tuple[str, ...]


def host_rows(report: Mapping[str, Any]) -> list[Row]:
    """The machines of the labs' clusters."""
    return [tuple(str(host.get(key, "")) for key in HOSTS) for host in report["hosts"]]


def job_rows(experiment: Mapping[str, Any]) -> list[Row]:
    """The jobs of an experiment in the order of submission; times of day as the student saw them."""
    clock, jobs = clock_of(experiment), dict[str, dict[str, str]]()
    for event in phenomena(experiment):
        if not event.subject.startswith("job/"):
            continue
        key = event.subject.removeprefix("job/")
        at = clock(millis_between(ORIGIN, event.at))
        if event.kind is EventKind.SUBMITTED:
            jobs[key] = {"job": key, **_asked(event), "submitted": at}
        elif key in jobs:
            _told(jobs[key], event, at)
    return [tuple(job.get(head, "") for head in JOBS) for job in jobs.values()]


def _asked(event: Event) -> dict[str, str]:
    """Virtual cluster and class of a job, from the event of its submission."""
    vc, priority = event.data.get("vc", ""), event.data.get("priority", "")
    return {"vc": str(vc), "class": str(priority)}


def _told(job: dict[str, str], event: Event, at: str) -> None:
    if event.kind is EventKind.STARTED:
        job.setdefault("first-started", at)
        nodes = job.get("ran-on", "").split(", ") if "ran-on" in job else []
        job["ran-on"] = ", ".join(dict.fromkeys([*nodes, str(event.data.get("node", ""))]))
    elif event.kind in _ENDS and "role" not in event.data:
        job["ended"], job["outcome"] = at, event.kind.value
