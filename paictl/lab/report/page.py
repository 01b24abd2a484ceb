"""The report as one HTML page that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

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
    when_text,
    word,
)
from paictl.lab.report.timeline import INSTANT, LEGEND, lines_of, svg
from paictl.units import millis_between

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #2f8f5b; --bad: #c4492f; --mild: #b07d12 }
body { font: 16px/1.5 system-ui, "Noto Sans CJK SC", "PingFang SC", sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.7rem } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem }
table { border-collapse: collapse; width: 100%; font-size: .9rem } td, th { border-bottom: 1px solid var(--line);
  padding: .25rem .6rem .25rem 0; text-align: left; vertical-align: top }
.events td:nth-child(-n+2) { white-space: nowrap } .facts th { min-width: 7rem; max-width: 16rem }
pre, code { font: .85rem/1.5 ui-monospace, monospace }
pre { background: var(--soft); padding: .7rem; border-radius: 6px; white-space: pre-wrap }
.refused, .wrong { color: var(--bad) }
.scroll { overflow-x: auto } svg { width: 100%; min-width: 36rem; height: auto; max-width: 54rem }
.legend { font-size: .85rem; margin: .2rem 0 } .legend span { margin-right: 1.2rem; white-space: nowrap }
.legend i { display: inline-block; width: 1rem; height: .7rem; border-radius: 2px; margin-right: .4rem;
  print-color-adjust: exact; -webkit-print-color-adjust: exact }
.checks { list-style: none; padding: 0 } .checks > li { margin: .5rem 0; padding-left: 1rem; border-left: 4px solid }
.checks > .passed { border-color: var(--good) } .checks > .failed { border-color: var(--bad) }
.checks > .skipped, .checks > .later { border-color: var(--mild) }
.at { opacity: .6 }
.overview td:nth-child(2), .overview td:nth-child(3), .overview td:nth-child(5) { white-space: nowrap }
.findings { font-size: .85rem; opacity: .8; margin: .1rem 0; padding-left: 1rem }
blockquote { margin: .2rem 0 .8rem; padding: .3rem .8rem; background: var(--soft); border-radius: 6px;
  white-space: pre-line }
@media (prefers-color-scheme: dark) { :root { --bad: #ee8267 } }
@media print { :root { color-scheme: light; --bad: #c4492f } body { margin: 0; max-width: none; font-size: 13px }
  h2 { margin-top: 1rem } td, th { padding-top: .1rem; padding-bottom: .1rem }
  h2.experiment { break-before: page } h2, h3 { break-after: avoid } tr, li, svg { break-inside: avoid } }
"""


def page(report: Mapping[str, Any], data: str) -> str:
    """The whole page; `data` is the report as `files` packs it, to stand in a comment."""
    lang = report["language"]
    body = "\n".join(_body(report, lang))
    return (
        f'<!doctype html>\n<html lang="{"zh-CN" if lang == "zh" else "en"}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(word('title', lang))} — {escape(report['name'])}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n{data}\n"
    )


def _body(report: Mapping[str, Any], lang: str) -> Iterator[str]:
    yield f"<h1>{escape(word('title', lang))}</h1>"
    yield f"<p><strong>{escape(report['name'])}</strong> · {escape(made_text(report))}</p>"
    if report["group"]:
        yield f"<p>{escape(labelled(word('group', lang), lang) + report['group'])}</p>"
    yield (
        f'<p class="digest">{labelled(word("digest", lang), lang)}<code>{escape(report["digest"])}</code><br>'
        f"<small>{escape(word('check', lang))}</small></p>"
    )
    yield f'<h2>{escape(word("environment", lang))}</h2><table class="facts">'
    for key, value in report["environment"].items():
        shown = value or word("no-gpu" if key == "gpu" else "not-known", lang)
        yield f"<tr><th>{escape(word(key, lang))}</th><td>{escape(shown)}</td></tr>"
    yield "</table>"
    if hosts := host_rows(report):
        yield f"<h3>{escape(word('hosts', lang))}</h3>"
        yield from _table(HOSTS, hosts, lang)
    for key in ("problems", "remarks"):
        written = f"<blockquote>{escape(report[key])}</blockquote>" if report[key] else escape(word("not-given", lang))
        yield (
            f"<h2>{escape(word(key, lang))}</h2><p>{written}</p>"
            if not report[key]
            else (f"<h2>{escape(word(key, lang))}</h2>{written}")
        )
    yield f"<h2>{escape(word('overview', lang))}</h2>"
    yield from _overview(report, lang)
    for experiment in report["experiments"]:
        yield from _experiment(experiment, lang)


def _overview(report: Mapping[str, Any], lang: str) -> Iterator[str]:
    heads = (word(key, lang) for key in ("experiment", "passed-of", "answered-of", "help-of", "when"))
    yield '<div class="scroll"><table class="overview"><tr>'
    yield "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"
    for experiment in report["experiments"]:
        passed = sum(check["standing"] == "passed" for check in experiment["checks"])
        answered = sum(bool(answer["answer"]) for answer in experiment["answers"])
        cells = (
            f"{passed} / {len(experiment['checks'])}",
            f"{answered} / {len(experiment['answers'])}",
            help_text(experiment, lang),
            when_text(experiment),
        )
        yield (
            f'<tr><td><a href="#{escape(experiment["lab"])}">'
            f"{experiment['lab'][:2]} {escape(experiment['title'])}</a></td>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            + "</tr>"
        )
    yield "</table></div>"


def _experiment(experiment: Mapping[str, Any], lang: str) -> Iterator[str]:
    heading = labelled(f"{word('experiment', lang)} {experiment['lab'][:2]}", lang) + experiment["title"]
    yield f'<h2 class="experiment" id="{escape(experiment["lab"])}">{escape(heading)}</h2>'
    yield f"<p>{escape(experiment['goal'])}</p>"
    yield from (f"<p>{escape(remark.replace('`', ''))}</p>" for remark in remarks(experiment, lang) if remark)
    yield f"<h3>{escape(word('commands', lang))}</h3><pre>"
    for typed in experiment["typed"]:
        refusal = labelled(word("refused", lang), lang) + (typed["said"] or typed["message"])
        at = f'<span class="at">{escape(typed["at"][11:19])}</span> ' if typed["at"] else ""
        yield (
            at
            + escape(typed["line"])
            + (f'\n  <span class="refused">{escape(refusal)}</span>' if typed["message"] else "")
        )
    yield "</pre>"
    lines = lines_of(phenomena(experiment), experiment["now"])
    picture = svg(lines, experiment["now"], clock_of(experiment), lambda key: word(key, lang))
    if picture:
        yield f'<h3>{escape(word("timeline", lang))}</h3><div class="scroll">{picture}</div>'
        yield _legend(picture, lang)
    yield from _events(experiment, lang)
    if jobs := job_rows(experiment):
        yield f"<h3>{escape(word('jobs-of', lang))}</h3>"
        yield from _table(JOBS, jobs, lang)
    if experiment["predictions"]:
        yield f"<h3>{escape(word('predictions', lang))}</h3>"
        yield from _answers(experiment["predictions"], lang)
    yield f'<h3>{escape(word("checks", lang))}</h3><ul class="checks">'
    for check in experiment["checks"]:
        yield from _check(check, lang)
    yield f"</ul><h3>{escape(word('answers', lang))}</h3>"
    yield from _answers(experiment["answers"], lang)


def _table(heads: Sequence[str], rows: Iterable[Row], lang: str) -> Iterator[str]:
    yield '<div class="scroll"><table><tr>'
    yield "".join(f"<th>{escape(word(head, lang))}</th>" for head in heads) + "</tr>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell) or '-'}</td>" for cell in row) + "</tr>"
    yield "</table></div>"


def _answers(rows: list[Mapping[str, str]], lang: str) -> Iterator[str]:
    yield "<ol>"
    for row in rows:
        answer = row["answer"] or word("no-answer", lang)
        yield f"<li>{escape(row['question'])}<blockquote>{escape(answer)}</blockquote></li>"
    yield "</ol>"


def _legend(picture: str, lang: str) -> str:
    """What the colours and signs of a picture mean, those that are in it."""
    parts = [
        f'<span><i style="background:{colour}"></i>{escape(word(key, lang))}</span>'
        for key, colour in LEGEND
        if colour in picture
    ]
    if INSTANT in picture:
        parts.append(f"<span>◆ {escape(word('no-length', lang))}</span>")
    return f'<p class="legend">{"".join(parts)}</p>'


def _events(experiment: Mapping[str, Any], lang: str) -> Iterator[str]:
    heading = f"<h3>{escape(word('phenomena', lang))}</h3>"
    events = phenomena(experiment)
    if not events:
        yield f"{heading}<p>{escape(word('no-events', lang))}</p>"
        return
    yield f'{heading}<table class="events"><tr>'
    yield "".join(f"<th>{escape(word(key, lang))}</th>" for key in ("time", "what", "of", "detail")) + "</tr>"
    clock = clock_of(experiment)
    for event in events:
        cells = (
            clock(millis_between(ORIGIN, event.at)),
            event_name(event, lang),
            event.subject,
            event_detail(event, lang),
        )
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table>"


def _check(check: Mapping[str, Any], lang: str) -> Iterator[str]:
    reason = f" ({escape(check['reason'])})" if check["standing"] == "skipped" else ""
    heading = f"<strong>{word(check['standing'], lang)}</strong>{labelled(reason, lang)}"
    yield f'<li class="{escape(check["standing"])}">{heading}{escape(check["says"])}'
    if check["standing"] in ("passed", "failed"):
        yield '<ul class="findings">'
        for finding in check["findings"]:
            yield f"<li{'' if finding['ok'] else ' class=wrong'}>{escape(finding_text(finding, lang))}</li>"
        yield "</ul>"
    yield "</li>"
