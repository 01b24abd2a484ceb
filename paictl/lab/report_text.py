"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from paictl.lab.report import dial_of, phenomena
from paictl.lab.report_timeline import drawn, lines_of
from paictl.lab.report_words import labelled, word

Experiment = Mapping[str, Any]


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    return "\n".join(_report(report)) + "\n"


def _report(report: Mapping[str, Any]) -> Iterator[str]:
    lang = report["language"]
    yield from (f"# {word('title', lang)}", "")
    yield f"- {labelled(word('name', lang), lang)}{_cell(report['name'])}"
    yield f"- {labelled(word('made', lang), lang)}{made_text(report)}"
    yield f"- {labelled(word('digest', lang), lang)}`{report['digest']}` ({word('check', lang)})"
    yield from ("", f"## {word('environment', lang)}", "", "| | |", "| --- | --- |")
    for key, value in report["environment"].items():
        shown = value or (word("no-gpu", lang) if key == "gpu" else "-")
        yield f"| {word(key, lang)} | {_cell(shown)} |"
    for experiment in report["experiments"]:
        yield ""
        yield from _experiment(experiment, lang)


def _experiment(experiment: Experiment, lang: str) -> Iterator[str]:
    number = experiment["lab"][:2]
    heading = labelled(f"{word('experiment', lang)} {number}", lang) + experiment["title"]
    yield from (f"## {heading}", "", labelled(word("goal", lang), lang) + experiment["goal"], "")
    yield from remarks(experiment, lang)
    yield from (f"### {word('commands', lang)}", "", "```")
    for typed in experiment["typed"]:
        end = f"    # {labelled(word('refused', lang), lang)}{typed['message']}" if typed["message"] else ""
        yield f"{typed['command']}{end}"
    yield from ("```", "", f"### {word('phenomena', lang)}", "")
    yield from _events(experiment, lang)
    dial = dial_of(experiment)
    picture = drawn(lines_of(phenomena(experiment), experiment["now"]), experiment["now"], dial)
    if picture:
        yield from ("", f"### {word('timeline', lang)}", "", "```", *picture, "```", "", word("legend", lang))
    yield from ("", f"### {word('checks', lang)}", "")
    for check in experiment["checks"]:
        yield from _check(check, lang)
    yield from ("", f"### {word('answers', lang)}", "")
    for question, one in enumerate(experiment["answers"], 1):
        yield f"{question}. {one['question']}"
        yield f"   > {_cell(one['answer']) or word('no-answer', lang)}"


def _events(experiment: Experiment, lang: str) -> Iterator[str]:
    events = phenomena(experiment)
    if not events:
        yield word("no-events", lang)
        return
    yield f"| {word('time', lang)} | {word('what', lang)} | {word('of', lang)} | {word('detail', lang)} |"
    yield "| --- | --- | --- | --- |"
    dial = dial_of(experiment)
    for event in events:
        yield f"| {dial(event.at)} | {event.kind} | {_cell(event.subject)} | {_cell(event.message)} |"


def remarks(experiment: Experiment, lang: str) -> Iterator[str]:
    """With how much help an experiment was done."""
    if experiment["played"]:
        yield from (word("played", lang), "")
    if experiment["solved"]:
        yield from (f"{labelled(word('solved', lang), lang)}{', '.join(experiment['solved'])}", "")
    if experiment["hints"]:
        yield from (f"{labelled(word('hints', lang), lang)}{sum(experiment['hints'].values())}", "")
    if experiment["skipped"]:
        reasons = (f"{step} ({reason})" for step, reason in experiment["skipped"].items())
        yield from (f"{labelled(word('skipped-steps', lang), lang)}{', '.join(reasons)}", "")


def _check(check: Mapping[str, Any], lang: str) -> Iterator[str]:
    reason = f" ({_cell(check['reason'])})" if check["standing"] == "skipped" else ""
    yield f"- **{word(check['standing'], lang)}**{labelled(reason, lang)}{check['says']}"
    if check["standing"] in ("passed", "failed"):
        for one in check["findings"]:
            yield f"  - {_cell(finding_text(one, lang))}"


def finding_text(one: Mapping[str, Any], lang: str) -> str:
    """What a check found: said once where it is literally what was expected."""
    if one["ok"] and one["expected"].endswith(one["observed"]):
        return labelled(word("as-expected", lang), lang) + str(one["expected"])
    pairs = ((word(key, lang), one[key]) for key in ("expected", "observed"))
    return " — ".join(labelled(name, lang) + value for name, value in pairs)


def made_text(report: Mapping[str, Any]) -> str:
    """When a report was made, as people write it."""
    made = datetime.fromisoformat(report["made"])
    return made.strftime("%Y-%m-%d %H:%M") + f" ({made.tzname()})"


def _cell(text: str) -> str:
    """A text on one line that Markdown takes as it is."""
    escaped = " ".join(str(text).split()).replace("\\", "\\\\")
    for character in "|<>*_`[]":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped
