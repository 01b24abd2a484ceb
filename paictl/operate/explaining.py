"""Why a job is where it is: the words for it, and its data for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from paictl.cluster.scheduling import JobExplanation, JobSituation
from paictl.cluster.whywaits import ahead_lines, closing_lines, longest_line, start_lines
from paictl.i18n import Text, counted, joined, text
from paictl.scheduler.explain import ExplanationText, Names, render, to_data, wording
from paictl.workload.job import PRIORITIES
from paictl.workload.pods import short_name

_NAMES: Final = Names({priority: name for name, priority in PRIORITIES.items()}.get, short_name)


def lines(answer: JobExplanation, *, full: bool = False) -> list[str]:
    """An explanation for people, line by line, each of them a text that can be said in every language.

    `full` spares no detail (`paictl.scheduler.explain.render`).
    """
    starts = [joined("", ("  ", line)) for line in (*start_lines(answer.start), *ahead_lines(answer.ahead))]
    if answer.scheduler is not None:
        return [*heads(answer), *render(answer.scheduler, _NAMES, full=full), *starts, *_after_moves(answer)]
    sentence, hint = plain(answer)
    windows = closing_lines(answer.windows)
    return [sentence, *starts, *windows, *([text("hint: {hint}", hint=hint)] if hint else [])]


def _after_moves(answer: JobExplanation) -> list[Text]:
    """With which moves of others it would start."""
    if not answer.moves:
        return []
    singular, plural = (
        "would start after moving {count} gang: paictl cluster defrag plan {options}",
        "would start after moving {count} gangs: paictl cluster defrag plan {options}",
    )
    return [counted(singular, plural, answer.moves, options=answer.room)]


def heads(answer: JobExplanation) -> list[Text]:
    """How many of its tasks wait, where that is not plain."""
    if answer.waiting <= 1:
        return []
    return [
        text("job {job}: {waiting} of {tasks} tasks wait", job=answer.job, waiting=answer.waiting, tasks=answer.tasks)
    ]


def parts(answer: JobExplanation) -> ExplanationText | None:
    """The same words part by part, for a page; None where the scheduler has not looked (`plain` has what there is)."""
    return None if answer.scheduler is None else wording(answer.scheduler, _NAMES)


def data(answer: JobExplanation, language: str = "en") -> dict[str, Any]:
    """An explanation for programs; what is in it for people (`text`, `hint`) is in a language."""
    if answer.scheduler is not None:
        moves = {"moves": answer.moves, "defragmentation": f"paictl cluster defrag plan {answer.room}"}
        return {
            "job": answer.job,
            **to_data(answer.scheduler),
            **_start(answer),
            **(moves if answer.moves else {}),
        }
    sentence, hint = plain(answer)
    return {
        "job": answer.job,
        "state": answer.state.value,
        "situation": answer.situation.value,
        "text": sentence.of(language),
        "hint": "" if hint is None else hint.of(language),
        **_start(answer),
        **(
            {"windows": [asdict(window) for window in answer.windows], "longest": answer.longest}
            if answer.windows
            else {}
        ),
        **(
            {"longest": answer.longest} if answer.situation in (JobSituation.BACKFILL, JobSituation.RESERVATION) else {}
        ),
    }


def _start(answer: JobExplanation) -> dict[str, Any]:
    start = {} if answer.start is None else {"start": asdict(answer.start)}
    return start if answer.ahead is None else {**start, "ahead": asdict(answer.ahead)}


def plain(answer: JobExplanation) -> tuple[Text, Text | None]:
    """(text, hint) where the scheduler has not looked; the hint is for who types commands."""
    match answer.situation:
        case JobSituation.SERVICE_STOPPED:
            sentence = text(
                "job {job} waits because {service} is stopped: {consequence}",
                job=answer.job,
                service=answer.service,
                consequence=_without(answer.service),
            )
            return sentence, text("start it: paictl service start -n {service}", service=answer.service)
        case JobSituation.UNKNOWN_TERMS:
            return (
                text(
                    "job {job} waits because it asks for what the scheduler's configuration does not have: {reason}",
                    job=answer.job,
                    reason=answer.reason,
                ),
                text(
                    "stop it, and submit it again for cells that the configuration has: paictl job stop {job}",
                    job=answer.job,
                ),
            )
        case JobSituation.STARTING if answer.reason:
            return (
                text("job {job} has its devices, but cannot start: {reason}", job=answer.job, reason=answer.reason),
                text("stop it, correct it and submit it again: paictl job stop {job}", job=answer.job),
            )
        case JobSituation.NOT_OFFERED | JobSituation.EXCLUDED:
            return (
                text(
                    "job {job} waits although devices are free for it: kube-scheduler says {reason}",
                    job=answer.job,
                    reason=answer.reason,
                )
                if answer.situation is JobSituation.NOT_OFFERED
                else text(
                    "job {job} waits although devices are free for it: no node accepts its pods: {reason}",
                    job=answer.job,
                    reason=answer.reason,
                ),
                text(
                    "stop it and request what its nodes have, or ask an administrator to add it: paictl job stop {job}",
                    job=answer.job,
                ),
            )
        case JobSituation.HELD_BACK:
            return (
                text("job {job} waits: {reason}", job=answer.job, reason=answer.reason),
                text("to see use and limits: paictl usage budget list, paictl usage limits") if answer.listed else None,
            )
        case JobSituation.BACKFILL | JobSituation.RESERVATION:
            sentence = text("job {job} waits: {reason}", job=answer.job, reason=answer.reason)
            return sentence, None if answer.longest is None else longest_line(answer.longest)
        case JobSituation.MAINTENANCE:
            sentence = text(
                "job {job} waits for maintenance: it would still be running when the maintenance starts",
                job=answer.job,
            )
            if answer.longest is None:
                return sentence, None
            return sentence, longest_line(answer.longest)
        case JobSituation.STARTING:
            return text("job {job} has its devices; its containers are starting", job=answer.job), None
        case JobSituation.NO_SCHEDULER | JobSituation.NO_ROOM:
            return text("job {job} waits because the cluster has no scheduler", job=answer.job), None
        case JobSituation.NOT_WAITING:
            return text("job {job} is not waiting: it is {state}", job=answer.job, state=answer.state.value), None


def _without(service: str) -> Text:
    """What does not happen while a service is stopped."""
    match service:
        case "frameworkcontroller":
            return text("no pods are created for it")
        case "hivedscheduler":
            return text("nothing new is placed")
    return text("nothing is done for it")
