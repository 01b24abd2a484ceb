"""Why a job is where it is: the words for it, and its data for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from paictl.cluster.scheduling import JobExplanation, JobSituation
from paictl.cluster.startwaits import ahead_lines, start_lines
from paictl.cluster.whywaits import closing_lines, longest_line
from paictl.i18n import Text, counted, joined, text
from paictl.scheduler.explain import ExplanationText, Names, render, to_data, wording
from paictl.workload.job import PRIORITIES
from paictl.workload.pods import short_name

_NAMES: Final = Names({priority: name for name, priority in PRIORITIES.items()}.get, short_name)


def lines(found: JobExplanation, *, full: bool = False) -> list[str]:
    """An explanation for people, line by line, each of them a text that can be said in every language.

    `full` spares no detail (`paictl.scheduler.explain.render`).
    """
    starts = [joined("", ("  ", line)) for line in (*start_lines(found.start), *ahead_lines(found.ahead))]
    if found.scheduler is not None:
        return [*heads(found), *render(found.scheduler, _NAMES, full=full), *starts, *_after_moves(found)]
    said, hint = plain(found)
    windows = closing_lines(found.windows)
    return [said, *starts, *windows, *([text("hint: {hint}", hint=hint)] if hint else [])]


def _after_moves(found: JobExplanation) -> list[Text]:
    """With which moves of others it would start."""
    if not found.moves:
        return []
    one, many = (
        "would start after moving {count} gang: paictl cluster defrag plan {options}",
        "would start after moving {count} gangs: paictl cluster defrag plan {options}",
    )
    return [counted(one, many, found.moves, options=found.room)]


def heads(found: JobExplanation) -> list[Text]:
    """How many of its tasks wait, where that is not plain."""
    if found.waiting <= 1:
        return []
    return [text("job {job}: {waiting} of {tasks} tasks wait", job=found.job, waiting=found.waiting, tasks=found.tasks)]


def parts(found: JobExplanation) -> ExplanationText | None:
    """The same words part by part, for a page; None where the scheduler has not looked (`plain` has what there is)."""
    return None if found.scheduler is None else wording(found.scheduler, _NAMES)


def data(found: JobExplanation, language: str = "en") -> dict[str, Any]:
    """An explanation for programs; what is in it for people (`text`, `hint`) is in a language."""
    if found.scheduler is not None:
        moves = {"moves": found.moves, "defragmentation": f"paictl cluster defrag plan {found.room}"}
        return {
            "job": found.job, **to_data(found.scheduler), **_start(found), **(moves if found.moves else {}),
        }  # fmt: skip
    said, hint = plain(found)
    return {
        "job": found.job, "state": found.state.value, "situation": found.situation.value, "text": said.of(language),
        "hint": "" if hint is None else hint.of(language), **_start(found),
        **(
            {"windows": [asdict(window) for window in found.windows], "longest": found.longest} if found.windows else {}
        ),
        **({"longest": found.longest} if found.situation in (JobSituation.BACKFILL, JobSituation.RESERVATION) else {}),
    }  # fmt: skip


def _start(found: JobExplanation) -> dict[str, Any]:
    start = {} if found.start is None else {"start": asdict(found.start)}
    return start if found.ahead is None else {**start, "ahead": asdict(found.ahead)}


def plain(found: JobExplanation) -> tuple[Text, Text | None]:
    """(text, hint) where the scheduler has not looked; the hint is for who types commands."""
    match found.situation:
        case JobSituation.SERVICE_STOPPED:
            said = text("job {job} waits because {service} is stopped: {consequence}", job=found.job,
                        service=found.service, consequence=_without(found.service))  # fmt: skip
            return said, text("start it: paictl service start -n {service}", service=found.service)
        case JobSituation.UNKNOWN_TERMS:
            return (
                text("job {job} waits because it asks for what the scheduler's configuration does not have: {reason}",
                     job=found.job, reason=found.reason),
                text("stop it and submit it again for what there is: paictl job stop {job}", job=found.job),
            )  # fmt: skip
        case JobSituation.STARTING if found.reason:
            return (
                text("job {job} has its devices, but cannot start: {reason}", job=found.job, reason=found.reason),
                text("stop it, correct it and submit it again: paictl job stop {job}", job=found.job),
            )  # fmt: skip
        case JobSituation.NOT_OFFERED | JobSituation.EXCLUDED:
            return (
                text("job {job} waits although devices are free for it: kube-scheduler says {reason}",
                     job=found.job, reason=found.reason) if found.situation is JobSituation.NOT_OFFERED else
                text("job {job} waits although devices are free for it: no node takes its pods: {reason}",
                     job=found.job, reason=found.reason),
                text("stop it and request what its nodes have, or ask an administrator to add it: paictl job "
                     "stop {job}",
                     job=found.job),
            )  # fmt: skip
        case JobSituation.HELD_BACK:
            return (
                text("job {job} waits: {reason}", job=found.job, reason=found.reason),
                text("to see use and limits: paictl usage budget list, paictl usage limits") if found.listed else None,
            )  # fmt: skip
        case JobSituation.BACKFILL | JobSituation.RESERVATION:
            said = text("job {job} waits: {reason}", job=found.job, reason=found.reason)
            return said, None if found.longest is None else longest_line(found.longest)
        case JobSituation.MAINTENANCE:
            said = text("job {job} waits for maintenance: it would still be running when it starts", job=found.job)
            if found.longest is None:
                return said, None
            return said, longest_line(found.longest)
        case JobSituation.STARTING:
            return text("job {job} has its devices; its containers are starting", job=found.job), None
        case JobSituation.NO_SCHEDULER | JobSituation.NO_ROOM:
            return text("job {job} waits because the cluster has no scheduler", job=found.job), None
        case JobSituation.NOT_WAITING:
            return text("job {job} is not waiting: it is {state}", job=found.job, state=found.state.value), None


def _without(service: str) -> Text:
    """What does not happen while a service is stopped."""
    match service:
        case "frameworkcontroller":
            return text("no pods are made for it")
        case "hivedscheduler":
            return text("nothing new is placed")
    return text("nothing is done for it")
