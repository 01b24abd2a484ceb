"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paictl.lab.report import dial_of, phenomena
from paictl.lab.report_timeline import drawn, lines_of
from paictl.lab.report_words import word

Experiment = Mapping[str, Any]


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    return "\n".join(_report(report)) + "\n"


def _report(report: Mapping[str, Any]) -> Iterator[str]:
    lang = report["language"]
    yield from (f"# {word('title', lang)}", "")
    yield f"- {word('name', lang)}: {_cell(report['name'])}"
    yield f"- {word('made', lang)}: {report['made']}"
    yield f"- {word('digest', lang)}: `{report['digest']}` ({word('check', lang)})"
    yield from ("", f"## {word('environment', lang)}", "", "| | |", "| --- | --- |")
    for key, value in report["environment"].items():
        shown = value or (word("no-gpu", lang) if key == "gpu" else "-")
        yield f"| {word(key, lang)} | {_cell(shown)} |"
    for experiment in report["experiments"]:
        yield ""
        yield from _experiment(experiment, lang)


def _experiment(experiment: Experiment, lang: str) -> Iterator[str]:
    number = experiment["lab"][:2]
    yield from (f"## {word('experiment', lang)} {number}: {experiment['title']}", "")
    yield from (f"{word('goal', lang)}: {experiment['goal']}", "")
    yield from remarks(experiment, lang)
    yield from (f"### {word('commands', lang)}", "", "```")
    for typed in experiment["typed"]:
        end = f"    # {word('refused', lang)}: {typed['message']}" if typed["message"] else ""
        yield f"{typed['command']}{end}"
    yield from ("```", "", f"### {word('phenomena', lang)}", "")
    yield f"| {word('time', lang)} | {word('what', lang)} | {word('of', lang)} | {word('detail', lang)} |"
    yield "| --- | --- | --- | --- |"
    dial = dial_of(experiment)
    for event in phenomena(experiment):
        yield f"| {dial(event.at)} | {event.kind} | {_cell(event.subject)} | {_cell(event.message)} |"
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


def remarks(experiment: Experiment, lang: str) -> Iterator[str]:
    """With how much help an experiment was done."""
    if experiment["played"]:
        yield from (word("played", lang), "")
    if experiment["solved"]:
        yield from (f"{word('solved', lang)}: {', '.join(experiment['solved'])}", "")
    if experiment["hints"]:
        yield from (f"{word('hints', lang)}: {sum(experiment['hints'].values())}", "")
    if experiment["skipped"]:
        reasons = (f"{step} ({reason})" for step, reason in experiment["skipped"].items())
        yield from (f"{word('skipped-steps', lang)}: {', '.join(reasons)}", "")


def _check(check: Mapping[str, Any], lang: str) -> Iterator[str]:
    reason = f" ({_cell(check['reason'])})" if check["standing"] == "skipped" else ""
    yield f"- **{word(check['standing'], lang)}**{reason}: {check['says']}"
    if check["standing"] in ("passed", "failed"):
        for one in check["findings"]:
            expected, observed = _cell(one["expected"]), _cell(one["observed"])
            yield f"  - {word('expected', lang)}: {expected} — {word('observed', lang)}: {observed}"


def _cell(text: str) -> str:
    """A text on one line that Markdown takes as it is."""
    escaped = " ".join(str(text).split()).replace("\\", "\\\\")
    for character in "|<>*_`[]":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped
