"""Words, sentences and tables of the report that Markdown and the page share.

Rows are cells in the order of the heads; an empty cell is what is not known. Jobs are told by the events alone, which
`consistency` compares with the commands: nothing in the table of jobs can be altered by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from paictl.cluster.eventtext import detail
from paictl.cluster.interface import Event, EventKind
from paictl.i18n import in_language
from paictl.lab.embedded import ORIGIN
from paictl.lab.messages import catalogue, say
from paictl.lab.report.content import clock_of, phenomena
from paictl.units import millis_between

Experiment = Mapping[str, Any]


def remarks(experiment: Experiment, lang: str) -> Iterator[str]:
    """With how much help an experiment was done, and when."""
    if experiment["started"]:
        yield labelled(word("when", lang), lang) + when_text(experiment)
    if experiment["played"]:
        yield word("played", lang)
    if experiment["solved"]:
        yield labelled(word("solved", lang), lang) + ", ".join(experiment["solved"])
    if experiment["hints"]:
        yield labelled(word("hints", lang), lang) + str(sum(experiment["hints"].values()))
    if experiment["resets"]:
        yield labelled(word("resets", lang), lang) + word("join", lang).join(_resets(experiment, lang))
    if experiment["skipped"]:
        reasons = (f"{step} ({reason})" for step, reason in experiment["skipped"].items())
        yield labelled(word("skipped-steps", lang), lang) + ", ".join(reasons)


def _resets(experiment: Experiment, lang: str) -> Iterator[str]:
    for reset in experiment["resets"]:
        target = word("reset-step", lang, step=reset["step"]) if reset["step"] else word("reset-whole", lang)
        yield f"{_minute(reset['at'])} {target}"


def help_text(experiment: Experiment, lang: str) -> str:
    """The same in a few words, for the overview."""
    numbers = {
        "help-solved": len(experiment["solved"]),
        "help-skipped": len(experiment["skipped"]),
        "help-hints": sum(experiment["hints"].values()),
        "help-resets": len(experiment["resets"]),
    }
    parts = [word("help-played", lang)] if experiment["played"] else []
    single = {key: f"{key}.one" for key in ("help-hints", "help-resets")}
    parts += [
        word(single.get(key, key) if number == 1 else key, lang, number=number)
        for key, number in numbers.items()
        if number
    ]
    return word("join", lang).join(parts) or word("help-none", lang)


def when_text(experiment: Experiment) -> str:
    """From when to when an experiment was done, by the wall clock."""
    begun, ended = _minute(experiment["started"]), _minute(experiment["finished"])
    if not ended:
        return f"{begun} – …" if begun else "-"
    return f"{begun} – {ended[11:] if ended[:10] == begun[:10] else ended}"


def _minute(at: str) -> str:
    """An instant (ISO text) to the minute."""
    return at[:16].replace("T", " ")


def typed_text(typed: Mapping[str, Any], lang: str) -> str:
    """A command line as it was typed, with when and how it was refused."""
    at = f"{typed['at'][11:19]} " if typed.get("at") else ""
    why = typed["said"] or typed["message"]
    end = f"    # {labelled(word('refused', lang), lang)}{why}" if why else ""
    return f"{at}{typed['line']}{end}"


def event_name(event: Event, lang: str) -> str:
    """The kind of an event in a language; one that the labs have no word for stays as it is."""
    key = f"event.{event.kind}"
    return say(key, lang) if key in catalogue(lang) else event.kind


def event_detail(event: Event, lang: str) -> str:
    """What an event tells, in a language; the message as it was noted in English."""
    return event.message if lang == "en" else in_language(detail(event), lang)


def finding_text(finding: Mapping[str, Any], lang: str) -> str:
    """What a check found: said once where it is literally what was expected."""
    if finding["ok"] and finding["expected"].endswith(finding["observed"]):
        return labelled(word("as-expected", lang), lang) + str(finding["expected"])
    pairs = ((word(key, lang), finding[key]) for key in ("expected", "observed"))
    return " — ".join(labelled(name, lang) + value for name, value in pairs)


def made_text(report: Mapping[str, Any]) -> str:
    """When a report was made, as people write it."""
    moment = datetime.fromisoformat(report["made"])
    return moment.strftime("%Y-%m-%d %H:%M") + f" ({moment.tzname()})"


HOSTS: Final = ("host", "address", "role", "devices", "os", "driver", "cuda", "runtime")
"""Heads of the table of machines, as keys of the report's words."""
JOBS: Final = ("job", "vc", "class", "submitted", "first-started", "ended", "ran-on", "outcome")
"""Heads of the table of jobs, likewise."""
_ENDS: Final = (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.STOPPED)

Row = tuple[str, ...]


def host_rows(report: Mapping[str, Any]) -> list[Row]:
    """The machines of the labs' clusters."""
    return [tuple(str(host.get(key, "")) for key in HOSTS) for host in report["hosts"]]


def job_rows(experiment: Mapping[str, Any]) -> list[Row]:
    """The jobs of an experiment in the order of submission; times of day as the student saw them."""
    clock, jobs = clock_of(experiment), dict[str, dict[str, str]]()
    for event in phenomena(experiment):
        if not event.subject.startswith("job/"):
            continue
        key = event.subject.removeprefix("job/")
        at = clock(millis_between(ORIGIN, event.at))
        if event.kind is EventKind.SUBMITTED:
            jobs[key] = {"job": key, **_request_cells(event), "submitted": at}
        elif key in jobs:
            _apply(jobs[key], event, at)
    return [tuple(job.get(head, "") for head in JOBS) for job in jobs.values()]


def _request_cells(event: Event) -> dict[str, str]:
    """Virtual cluster and class of a job, from the event of its submission."""
    vc, priority = event.data.get("vc", ""), event.data.get("priority", "")
    return {"vc": str(vc), "class": str(priority)}


def _apply(job: dict[str, str], event: Event, at: str) -> None:
    if event.kind is EventKind.STARTED:
        job.setdefault("first-started", at)
        nodes = job.get("ran-on", "").split(", ") if "ran-on" in job else []
        job["ran-on"] = ", ".join(dict.fromkeys([*nodes, str(event.data.get("node", ""))]))
    elif event.kind in _ENDS and "role" not in event.data:
        job["ended"], job["outcome"] = at, event.kind.value


def word(key: str, language: str, **values: object) -> str:
    """A word of the report in a language."""
    return say(f"report.{key}", language, **values)


def labelled(words: str, language: str) -> str:
    """Words with the colon of their language, for something to follow."""
    return f"{words}{'：' if language == 'zh' else ': '}"
