"""The picture of a cluster as one page for the browser: no network, no other files, nothing but text in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from paictl.cluster.interface import JobView, NodeView
from paictl.cluster.picture import Attempt, ChainPicture, JobLine, Picture, TaskLine, VcPicture
from paictl.pages import filled_page
from paictl.scheduler.inspection import PhysicalCellStatus
from paictl.units import millis_between

_SHELL, _STYLE, _SCRIPTS = "view.html", "view.css", ("view-cells.js", "view-timeline.js", "view.js")
"""The scripts are the parts of one, in their order."""

NOBODY: Final = -1
"""Index of no job."""


def page(picture: Picture) -> str:
    """The page; with the timeline if the picture has one.

    Raises `FileNotFoundError` if the installation lost the page's parts.
    """
    title = f"{picture.cluster} – cluster view"
    return filled_page(_SHELL, _STYLE, _SCRIPTS, title=title, data=page_data(picture))


def page_data(picture: Picture) -> dict[str, Any]:
    """What the script reads. Rows are lists to keep the page small; jobs and VCs are told by their place."""
    jobs = {job.key: place for place, job in enumerate(picture.jobs)}
    strangers = {
        name for leaf in picture.leaves() for name in (leaf.job, leaf.reserver) if name and name not in jobs
    }  # groups of which the cluster knows no job, for instance because somebody else started them
    jobs |= {name: len(jobs) + place for place, name in enumerate(sorted(strangers))}
    vcs = {vc.name: place for place, vc in enumerate(picture.vcs)}
    story = {line.key: line for line in picture.timeline.jobs} if picture.timeline else {}
    marks = picture.timeline.marks if picture.timeline else ()
    since = partial(_millis, picture.epoch)
    return {
        "cluster": picture.cluster,
        "now": since(picture.now),
        "epoch": picture.epoch.timestamp(),
        "note": picture.note,
        "history": picture.timeline is not None,
        "jobs": [
            *(_job(job, story.get(job.key), since) for job in picture.jobs),
            *([name, "", "", "Running", 0, 0, None, 0, 0, 0, "", 0, [], []] for name in sorted(strangers)),
        ],
        "vcs": [_vc(vc, jobs) for vc in picture.vcs],
        "nodes": [_node(node, since) for node in picture.nodes],
        "chains": [_chain(chain, jobs, vcs) for chain in picture.chains],
        "marks": [[since(mark.at), mark.node, mark.what] for mark in marks],
    }


Since = Callable[[datetime | None], int | None]
"""Milliseconds from when the cluster came up, as the script counts; None for no instant."""


def _millis(epoch: datetime, at: datetime | None) -> int | None:
    return None if at is None else millis_between(epoch, at)


def _job(job: JobView, line: JobLine | None, since: Since) -> list[Any]:
    """Key, VC, class, state, three instants, devices, restarts, preemptions, remark, number, tasks, notes."""
    return [
        job.key,
        job.vc,
        job.priority,
        job.state.value,
        since(job.submitted),
        since(job.started),
        since(job.ended),
        job.devices,
        job.attempt,
        job.preemptions,
        job.reason,
        job.number,
        [_task(task, since) for task in line.tasks] if line else [],
        [[since(at), words] for at, words in line.notes] if line else [],
    ]


def _task(task: TaskLine, since: Since) -> list[Any]:
    """Role, index, attempts, waits."""
    attempts = [_attempt(attempt, since) for attempt in task.attempts]
    return [task.role, task.index, attempts, [[since(start), since(end)] for start, end in task.waits]]


def _attempt(attempt: Attempt, since: Since) -> list[Any]:
    """Start, end, outcome, node, devices, reason, and the devices as the containers know them."""
    return [
        since(attempt.start),
        since(attempt.end),
        attempt.outcome.value,
        attempt.node,
        list(attempt.devices),
        attempt.reason,
        attempt.shown_devices.replace(",", ", "),
    ]


def _vc(vc: VcPicture, jobs: Mapping[str, int]) -> dict[str, Any]:
    """The cells as address, type, state, physical cell, healthy, pinned cell id, job per leaf."""
    cells: Sequence[list[Any]] = [
        [
            cell.address,
            cell.kind,
            cell.state.value,
            cell.physical,
            int(cell.healthy),
            cell.pinned,
            [jobs.get(user, NOBODY) for user in cell.users],
        ]
        for cell in vc.cells
    ]
    return {"name": vc.name, "extra": vc.extra, "waiting": vc.waiting, "cells": cells}


def _node(node: NodeView, since: Since) -> list[Any]:
    """Name, address, role, SKU, condition, since, devices, used devices."""
    machine = node.machine
    return [
        machine.name,
        machine.address,
        machine.role.value,
        machine.sku,
        node.condition.value,
        since(node.since),
        machine.devices,
        node.used,
    ]


def _chain(chain: ChainPicture, jobs: Mapping[str, int], vcs: Mapping[str, int]) -> dict[str, Any]:
    cells = [_cell(cell, jobs, vcs) for cell in chain.cells]
    return {"name": chain.name, "types": list(chain.types), "cells": cells, "instances": chain.instances}


def _cell(cell: PhysicalCellStatus, jobs: Mapping[str, int], vcs: Mapping[str, int]) -> list[Any]:
    """Last part of the address, level, is it a node, healthy, virtual cell, then the parts or the device.

    The device is state, VC, job, with which right, job for which it is reserved.
    """
    head = [cell.name, cell.level, int(cell.is_node), int(cell.healthy), cell.virtual]
    if cell.parts:
        return [*head, [_cell(part, jobs, vcs) for part in cell.parts]]
    vc, job, reserver = (
        table.get(name, NOBODY) for table, name in ((vcs, cell.vc), (jobs, cell.job), (jobs, cell.reserver))
    )
    return [*head, None, cell.state.value, vc, job, cell.hold.value, reserver]
