"""The report of a student's labs as data, and whether what it records is consistent.

The digest is no signature: who has paictl can make another one. It shows that nothing was altered by hand, and the
events are checked against the command log by playing that log again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from paictl.cluster.interface import Event
from paictl.errors import PaictlError
from paictl.lab import journal
from paictl.lab.embedded import replayed_events
from paictl.lab.environment import environment
from paictl.lab.errors import LabError
from paictl.lab.manifest import all_labs
from paictl.lab.session import Judged, Session
from paictl.units import Millis

FORMAT: Final = 2

Report = dict[str, Any]

Dial = Callable[[int], str]
"""An instant (milliseconds since the lab's cluster came up) as time of day."""


def make_report(root: Path, name: str, language: str) -> Report:
    """The report of all labs that were started in a labs folder; raises `LabError` if none was."""
    sessions = [session for lab in all_labs() if (session := Session(lab, root)).ground.started]
    if not sessions:
        raise LabError(
            ("no lab was started yet, so there is nothing to report", "尚未开始任何实验，没有可报告的内容"),
            ("begin: paictl lab start 1", "开始：paictl lab start 1"),
        )
    report: Report = {
        "format": FORMAT,
        "name": name,
        "language": language,
        "made": datetime.now().astimezone().isoformat(timespec="seconds"),
        "environment": environment(),
        "experiments": [_experiment(session, language) for session in sessions],
    }
    return {**report, "digest": digest_of(report)}


def _experiment(session: Session, language: str) -> dict[str, Any]:
    """One lab: what was done, what happened, what was judged, what was answered."""
    session.require_started()
    done, lab = session.progress, session.lab
    scene = session.scene()
    return {
        "lab": lab.id,
        "title": lab.title.of(language),
        "goal": lab.goal.of(language).strip(),
        "started": done.started,
        "played": done.played,
        "solved": list(done.solved),
        "hints": dict(done.hints),
        "skipped": {step: reason for step, reason in done.skipped.items() if step in lab.step_ids},
        "beginning": datetime.fromtimestamp(scene.cluster.epoch).isoformat(timespec="seconds"),
        "now": scene.cluster.now,
        "first": session.ground.first_event,
        "typed": [asdict(typed) for typed in journal.read(session.ground.folder)],
        "log": [[at, command] for at, command in session.ground.log()],
        "events": [event_row(event) for event in scene.events],
        "checks": [_check(judged, language) for judged in session.judged()],
        "answers": [
            {"question": question.text.of(language).strip(), "answer": done.answers.get(str(number), "")}
            for number, question in enumerate(lab.questions, 1)
        ],
    }


def _check(judged: Judged, language: str) -> dict[str, Any]:
    findings = [dict(zip(("ok", "expected", "observed"), (one.ok, *one.say(language)), strict=True))
                for one in judged.findings]  # fmt: skip
    return {
        "id": judged.check.id,
        "says": judged.check.says.of(language),
        "standing": judged.standing.value,
        "reason": judged.reason,
        "findings": findings,
    }


def event_row(event: Event) -> list[Any]:
    """An event as the report keeps it."""
    return [event.number, event.at, event.kind, event.subject, event.message, dict(event.data)]


def events_in(experiment: Mapping[str, Any]) -> list[Event]:
    """The events of an experiment, from a report."""
    return [Event(number, Millis(at), *rest) for number, at, *rest in experiment["events"]]


def dial_of(experiment: Mapping[str, Any]) -> Dial:
    """The clock of an experiment, as the student saw it wherever the report is read."""
    beginning = datetime.fromisoformat(experiment["beginning"])
    return lambda at: (beginning + timedelta(milliseconds=at)).strftime("%H:%M:%S")


def digest_of(report: Mapping[str, Any]) -> str:
    """SHA-256 of everything in a report but the digest itself."""
    content = {key: value for key, value in report.items() if key != "digest"}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def inconsistencies(report: Mapping[str, Any]) -> Iterator[str]:
    """In what a report contradicts itself."""
    if report.get("format") != FORMAT:
        made_by = report.get("environment", {}).get("paictl", "another version")
        raise PaictlError(
            f"this is report format {report.get('format')}, this paictl reads {FORMAT}",
            hint=f"check it with the paictl that made it ({made_by}), or ask the student for a new one",
        )
    if report.get("digest") != digest_of(report):
        yield "the digest does not belong to the content: something was altered"
    for experiment in report["experiments"]:
        yield from (f"{experiment['lab']}: {problem}" for problem in _contradictions(experiment))


def _contradictions(experiment: Mapping[str, Any]) -> Iterator[str]:
    """What playing an experiment's command log again does not confirm."""
    try:
        replayed = replayed_events([(Millis(at), command) for at, command in experiment["log"]])
    except (PaictlError, KeyError, IndexError, TypeError, ValueError) as error:
        yield f"the command log cannot be played: {error}"
        return
    told = [json.loads(json.dumps(event_row(event))) for event in replayed]
    for real, recorded in zip(told, experiment["events"], strict=False):
        if real != recorded:
            at = dial_of(experiment)(real[1])
            yield f"event {recorded[0]} was {real[2]} {real[3]} at {at}, the report says otherwise"
            return
    if len(told) != len(experiment["events"]):
        yield f"the commands make {len(told)} events, the report has {len(experiment['events'])}"


def phenomena(experiment: Mapping[str, Any]) -> list[Event]:
    """The events since the student began."""
    return [event for event in events_in(experiment) if event.number > experiment["first"]]
