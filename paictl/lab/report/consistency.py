"""Whether what a report records can have happened, and whether several reports are of one run.

The digest is no signature: who has paictl can make another one. It shows that nothing was altered by hand, and the
events are checked against the command log by playing that log again. What is compared of an event is its instant, kind,
subject and data: how its message is worded may differ from version to version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.lab.embedded import replayed_events
from paictl.lab.report.content import FORMAT, clock_of, digest_of, epoch_of, event_row
from paictl.units import Millis

Experiment = Mapping[str, Any]


def inconsistencies(report: Mapping[str, Any]) -> Iterator[str]:
    """In what a report contradicts itself; raises `PaictlError` for the format of another version."""
    if report.get("format") != FORMAT:
        made_by = report.get("environment", {}).get("paictl", "another version")
        raise PaictlError(
            text("this is report format {found}, this paictl reads {known}", found=report.get("format"), known=FORMAT),
            hint=text(
                "check it with the paictl that made it ({version}), or ask the student for a new one", version=made_by
            ),
        )
    if report.get("digest") != digest_of(report):
        yield text("the digest does not belong to the content: something was altered")
    for experiment in report["experiments"]:
        yield from (
            text("{lab}: {problem}", lab=experiment["lab"], problem=contradiction)
            for contradiction in _contradictions(experiment)
        )


def _contradictions(experiment: Experiment) -> Iterator[str]:
    """What playing an experiment's command log again does not confirm; at a site only whose events they are."""
    if site := experiment.get("site"):
        strangers = {str(row[3]) for row in experiment["events"] if not str(row[3]).startswith(f"job/{site['user']}~")}
        yield from (
            text("it has events of {stranger}, which does not belong to the lab", stranger=stranger)
            for stranger in sorted(strangers)
        )
        return  # a real cluster has no log that could be played
    if not experiment["log"] and not experiment["events"]:
        return  # no cluster was up
    try:
        replayed = replayed_events([(Millis(at), command) for at, command in experiment["log"]], epoch_of(experiment))
    except (PaictlError, KeyError, IndexError, TypeError, ValueError) as error:
        yield text("the command log cannot be played: {error}", error=error)
        return
    rows = [json.loads(json.dumps(event_row(event))) for event in replayed]
    for real, recorded in zip(rows, experiment["events"], strict=False):
        if _facts(real) != _facts(recorded):
            at = clock_of(experiment)(real[1])
            yield text(
                "event {number} was {kind} {subject} at {at}, but the report says otherwise",
                number=recorded[0],
                kind=real[2],
                subject=real[3],
                at=at,
            )
            return
    if len(rows) != len(experiment["events"]):
        yield text(
            "the commands make {made} events, the report has {found}", made=len(rows), found=len(experiment["events"])
        )


def _facts(row: Sequence[Any]) -> tuple[Any, ...]:
    """What an event is, without how it is worded."""
    number, at, kind, subject, _, data = row
    return number, at, kind, subject, data


# --- copies


def run_of(experiment: Experiment) -> str:
    """The fingerprint of a run: who typed what, when by the wall clock; equal for copies of one run only."""
    typed = [[command["line"], command.get("at", "")] for command in experiment["typed"]]
    text = json.dumps([experiment["lab"], experiment["started"], typed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def owners_of(report: Mapping[str, Any]) -> list[str]:
    """The users whose jobs a report holds, in alphabetical order."""
    subjects = (row[3] for experiment in report["experiments"] for row in experiment["events"])
    keys = (str(subject).removeprefix("job/") for subject in subjects if str(subject).startswith("job/"))
    return sorted({key.partition("~")[0] for key in keys if "~" in key})


def copies(reports: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Which of several reports (name of the file, report) hold the same run."""
    files_by_run: dict[str, list[tuple[str, str]]] = {}
    for file, report in reports:
        for experiment in report["experiments"]:
            if experiment["typed"]:
                files_by_run.setdefault(run_of(experiment), []).append((file, experiment["lab"]))
    groups: dict[tuple[str, ...], list[str]] = {}
    for entries in files_by_run.values():
        files = tuple(dict.fromkeys(file for file, _ in entries))
        if len(files) > 1:
            groups.setdefault(files, []).append(entries[0][1])
    names = {file: str(report["name"]) for file, report in reports}
    for files, labs in groups.items():
        named_files = listed([f"{file} ({names[file]})" for file in files])
        yield text(
            "the same run in {files}: lab {labs}", files=named_files, labs=listed([lab[:2] for lab in sorted(labs)])
        )


def strange_owners(reports: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    """Reports whose jobs belong to the user who made another report under another name."""
    by_owner: dict[str, list[tuple[str, str]]] = {}
    for file, report in reports:
        for owner in owners_of(report):
            by_owner.setdefault(owner, []).append((file, str(report["name"])))
    for owner, entries in by_owner.items():
        if len({name for _, name in entries}) > 1:
            named_files = listed([f"{file} ({name})" for file, name in entries])
            yield text("the jobs of {files} all belong to user {owner}", files=named_files, owner=owner)


def other_owner(report: Mapping[str, Any]) -> list[str]:
    """The users whose jobs a report holds that have nothing in common with the name on it; empty where one has."""
    letters = _letters(str(report["name"])) + _letters(str(report.get("group", "")))
    owners = owners_of(report)
    comparable = letters.isascii() and bool(letters)
    alike = any(part and (part in letters or letters in part) for part in map(_letters, owners))
    initials = any(_letters(word) in _letters(owner) for word in str(report["name"]).split() for owner in owners)
    return [] if not comparable or alike or initials else owners


def _letters(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())
