"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paictl.lab.embedded import ORIGIN
from paictl.lab.report.content import clock_of, phenomena
from paictl.lab.report.phrases import (
    HOSTS,
    JOBS,
    Row,
    event_detail,
    event_name,
    finding_text,
    help_text,
    host_rows,
    job_rows,
    labelled,
    made_text,
    remarks,
    typed_text,
    when_text,
    word,
)
from paictl.lab.report.timeline import drawn, lines_of
from paictl.units import millis_between

Experiment = Mapping[str, Any]


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report."""
    return "\n".join(_report(report)) + "\n"


def _report(report: Mapping[str, Any]) -> Iterator[str]:
    lang = report["language"]
    yield from (f"# {word('title', lang)}", "")
    yield f"- {labelled(word('name', lang), lang)}{_cell(report['name'])}"
    if report["group"]:
        yield f"- {labelled(word('group', lang), lang)}{_cell(report['group'])}"
    yield f"- {labelled(word('made', lang), lang)}{made_text(report)}"
    yield f"- {labelled(word('digest', lang), lang)}`{report['digest']}` ({word('check', lang)})"
    yield from ("", f"## {word('environment', lang)}", "", "| | |", "| --- | --- |")
    for key, value in report["environment"].items():
        shown = value or word("no-gpu" if key == "gpu" else "not-known", lang)
        yield f"| {word(key, lang)} | {_cell(shown)} |"
    if hosts := host_rows(report):
        yield from ("", f"### {word('hosts', lang)}", "", *_table(HOSTS, hosts, lang))
    for key in ("problems", "remarks"):
        yield from ("", f"## {word(key, lang)}", "")
        yield "\n".join(map(_cell, report[key].splitlines())) or word("not-given", lang)
    yield from ("", f"## {word('overview', lang)}", "")
    yield from _overview(report, lang)
    for experiment in report["experiments"]:
        yield ""
        yield from _experiment(experiment, lang)


def _overview(report: Mapping[str, Any], lang: str) -> Iterator[str]:
    heads = ("experiment", "passed-of", "answered-of", "help-of", "when")
    yield f"| {' | '.join(word(key, lang) for key in heads)} |"
    yield "| --- " * len(heads) + "|"
    for experiment in report["experiments"]:
        passed = sum(check["standing"] == "passed" for check in experiment["checks"])
        answered = sum(bool(answer["answer"]) for answer in experiment["answers"])
        yield (
            f"| {experiment['lab'][:2]} {_cell(experiment['title'])} | {passed} / {len(experiment['checks'])} "
            f"| {answered} / {len(experiment['answers'])} "
            f"| {_cell(help_text(experiment, lang))} | {when_text(experiment)} |"
        )


def _experiment(experiment: Experiment, lang: str) -> Iterator[str]:
    number = experiment["lab"][:2]
    heading = labelled(f"{word('experiment', lang)} {number}", lang) + experiment["title"]
    yield from (f"## {heading}", "", labelled(word("goal", lang), lang) + experiment["goal"], "")
    for remark in remarks(experiment, lang):
        yield from (_cell(remark), "")
    yield from (f"### {word('commands', lang)}", "", "```")
    yield from (typed_text(typed, lang) for typed in experiment["typed"])
    yield from ("```", "", f"### {word('phenomena', lang)}", "")
    yield from _events(experiment, lang)
    if jobs := job_rows(experiment):
        yield from ("", f"### {word('jobs-of', lang)}", "", *_table(JOBS, jobs, lang))
    clock = clock_of(experiment)
    picture = drawn(lines_of(phenomena(experiment), experiment["now"]), experiment["now"], clock)
    if picture:
        yield from ("", f"### {word('timeline', lang)}", "", "```", *picture, "```", "", word("legend", lang))
    if experiment["predictions"]:
        yield from ("", f"### {word('predictions', lang)}", "")
        yield from _answers(experiment["predictions"], lang)
    yield from ("", f"### {word('checks', lang)}", "")
    for check in experiment["checks"]:
        yield from _check(check, lang)
    yield from ("", f"### {word('answers', lang)}", "")
    yield from _answers(experiment["answers"], lang)


def _table(heads: Sequence[str], rows: Iterable[Row], lang: str) -> Iterator[str]:
    yield f"| {' | '.join(word(head, lang) for head in heads)} |"
    yield "| --- " * len(heads) + "|"
    yield from (f"| {' | '.join(_cell(cell) or '-' for cell in row)} |" for row in rows)


def _answers(rows: list[Mapping[str, str]], lang: str) -> Iterator[str]:
    for number, row in enumerate(rows, 1):
        yield f"{number}. {row['question']}"
        yield f"   > {_cell(row['answer']) or word('no-answer', lang)}"


def _events(experiment: Experiment, lang: str) -> Iterator[str]:
    events = phenomena(experiment)
    if not events:
        yield word("no-events", lang)
        return
    yield f"| {word('time', lang)} | {word('what', lang)} | {word('of', lang)} | {word('detail', lang)} |"
    yield "| --- | --- | --- | --- |"
    clock = clock_of(experiment)
    for event in events:
        at, name = clock(millis_between(ORIGIN, event.at)), event_name(event, lang)
        yield f"| {at} | {name} | {_cell(event.subject)} | {_cell(event_detail(event, lang))} |"


def _check(check: Mapping[str, Any], lang: str) -> Iterator[str]:
    reason = f" ({_cell(check['reason'])})" if check["standing"] == "skipped" else ""
    yield f"- **{word(check['standing'], lang)}**{labelled(reason, lang)}{check['says']}"
    if check["standing"] in ("passed", "failed"):
        for finding in check["findings"]:
            yield f"  - {_cell(finding_text(finding, lang))}"


def _cell(text: str) -> str:
    """A text on one line that Markdown takes as it is."""
    escaped = " ".join(str(text).split()).replace("\\", "\\\\")
    for character in "|<>*_`[]":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped
