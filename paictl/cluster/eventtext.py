"""What events and conditions tell, in words that can be said in every language: events from their kind and data.

An event whose data do not say enough (it was noted by an older paictl, or its cluster is of another kind) keeps the
message that came with it.
"""

from __future__ import annotations

from typing import Final

from paictl.cluster.interface import Event, EventKind
from paictl.i18n import Text, joined, recalled, text
from paictl.workload.budgets import BudgetState, UsageBudget
from paictl.workload.usagereport import HOUR


def detail(event: Event) -> str:
    """The detail of an event: a text where its data tell, else its message."""
    data = event.data
    match event.kind:
        case EventKind.SUBMITTED if "vc" in data and "priority" in data:
            return text("to {vc} as {priority}", vc=data["vc"], priority=data["priority"])
        case EventKind.STARTED if "node" in data:
            devices = data.get("isolation") or ",".join(map(str, data["devices"]))
            return text(
                "{task} runs on {node}, devices {devices}", task=_task(event), node=data["node"], devices=devices
            )
        case EventKind.STARTED if "loaded" in data:
            return text("configuration {version}", version=data["loaded"])
        case EventKind.REPAIRED if "node" in data:
            return _repaired(event)
        case EventKind.RETRIED if "next" in data:
            return text("starts again from the beginning, attempt {attempt}", attempt=data["next"])
        case EventKind.DEMOTED if "by" in data:
            return text("lost its guarantee to {job} but keeps running", job=data["by"])
        case EventKind.PUSHED if "version" in data and data.get("note"):
            return text("version {version}: {note}", version=data["version"], note=text(str(data["note"])))
        case EventKind.BUDGET_WARNING | EventKind.BUDGET_SPENT if "budget" in data:
            return _budget(event).sentence
    if "role" in data and data.get("reason"):
        return text("{task}: {reason}", task=_task(event), reason=_reason(event))
    return _planned(event) or _promised(event) or event.message


def _promised(event: Event) -> Text | None:
    """What an event of a promised start tells, None for others."""
    data = event.data
    match event.kind:
        case EventKind.START_PROMISED if "at" in data:
            return text("starts at {at} at the latest", at=data["at"])
        case EventKind.START_DELAYED if "at" in data and "before" in data:
            return text(
                "was promised to start at {before} at the latest, which no longer holds: {at}",
                before=data["before"],
                at=data["at"],
            )
        case EventKind.START_DELAYED if "why" in data and "before" in data:
            return text(
                "was promised to start at {before} at the latest, which no longer holds: {why}",
                before=data["before"],
                why=text(str(data["why"])),
            )
    return None


def _planned(event: Event) -> Text | None:
    """What an event of a maintenance window or a reservation tells, None for others."""
    data = event.data
    match event.kind:
        case EventKind.MAINTENANCE_PLANNED | EventKind.MAINTENANCE_STARTED if "reason" in data:
            return _maintenance(event)
        case EventKind.MAINTENANCE_ENDED if "removed" in data:
            how = "window {window} was removed" if data["removed"] else "window {window} is over"
            return text(how, window=data["window"])
        case EventKind.RESERVATION_ADDED | EventKind.RESERVATION_STARTED if data.get("cells"):
            size = text("{cells}x{type} of {vc}", cells=data["cells"], type=data["type"], vc=data["vc"])
            return text("{size}: {reason}", size=size, reason=data["reason"]) if data["reason"] else size
        case EventKind.RESERVATION_SHORT if "kept" in data:
            return text(
                "{kept} of {needed} cells are free or can be made free", kept=data["kept"], needed=data["needed"]
            )
        case _:
            return None


def _repaired(event: Event) -> Text:
    """Where a lost task runs now; a node that came back in time gets its own task again."""
    data, seconds = event.data, f"{event.data['seconds']:g}"
    if data.get("before") in (None, "", data["node"]):
        return text(
            "{task} runs on {node}, {seconds} s after it was lost",
            task=_task(event),
            node=data["node"],
            seconds=seconds,
        )
    return text(
        "{task} runs on {node} instead of {before}, {seconds} s after it was lost",
        task=_task(event),
        node=data["node"],
        before=data["before"],
        seconds=seconds,
    )


def _maintenance(event: Event) -> Text:
    data = event.data
    window = text("maintenance ({window})", window=data["window"])
    if data["reason"]:
        window = text("maintenance ({window}): {reason}", window=data["window"], reason=data["reason"])
    if "nodes" not in data:
        return window
    message = "{window}: it must leave {nodes} then, and will start again elsewhere"
    return text(message, window=window, nodes=", ".join(data["nodes"]))


_REASONS: Final = (
    "stopped",
    "runs with configuration {loaded}, the newest is {newest}",
    "its configuration names nodes that do not exist: {nodes}",
    "in maintenance ({window})",
    "kept free of new pods ({window})",
    "in no cell of the scheduler's configuration, so nothing runs there",
    "its node has failed",
    "its node did not come back",
    "its node was removed",
    "its device {device} is bad",
    "node {node} is in maintenance ({window})",
    "the job starts again",
    "the job is over",
    "preempted by {job}",
    "runs without a guarantee, lazily preempted by {job}",
    "{count} job that waits or runs",
    "{count} jobs that wait or run",
    "{count} version of the configuration",
    "{count} versions of the configuration",
    "{count} ended job in the history",
    "{count} ended jobs in the history",
)


def reasons(words: str) -> Text:
    """Why a service, node, job or task is as it is, or what it would lose, as its view has it; several stand between
    semicolons."""
    return joined("; ", (recalled(reason, _REASONS) for reason in words.split("; ")))


def _budget(event: Event) -> BudgetState:
    data = event.data
    budget = UsageBudget(str(data["vc"]), str(data["user"]), round(data["budget"] * HOUR))
    return BudgetState(budget, str(data["user"]), round(data["hours"] * HOUR))


def _task(event: Event) -> str:
    return f"{event.data['role']}[{event.data['index']}]"


def _reason(event: Event) -> Text:
    if "by" in event.data:
        return text("preempted by {job}", job=event.data["by"])
    return reasons(str(event.data["reason"]))
