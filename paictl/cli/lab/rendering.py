"""How labs, steps, checks and questions are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from paictl.cli.console import write, write_segments
from paictl.cli.paragraphs import columns, wrapped
from paictl.cluster.interface import ServiceView
from paictl.lab import commandlog
from paictl.lab.judging import CheckResult
from paictl.lab.manifest import Act, Step
from paictl.lab.messages import say
from paictl.lab.session import Session


def tell(key: str, lang: str, *, sign: str = "", **values: object) -> None:
    """Say a text of the catalogue as a paragraph; `sign` stands before it and its further lines hang below."""
    paragraph(say(key, lang, **values), sign)


def paragraph(text: str, sign: str = "", style: str = "") -> None:
    """Write a sentence or more, broken at words on a terminal."""
    for line in text.splitlines() or [""]:
        for part in wrapped(line, columns(), indent=sign, hang=" " * len(sign)):
            write_segments([[(style, part)]])


def show_step(session: Session, step: Step, lang: str) -> None:
    """A step: what to do, and the commands."""
    lab = session.lab
    number = lab.step_ids.index(step.id) + 1
    write_segments([[("bold", say("step", lang, number=number, of=len(lab.steps), id=step.id))]])
    paragraph(step.text.of(lang).strip())
    if step.predict is not None and step.id not in session.progress.predictions:
        paragraph(say("predict", lang, question=step.predict.of(lang).strip(), number=number), "? ", "yellow")
    for command in step.commands:
        write_segments([[("", "  $ "), ("cyan", command)]])


_SIGNS: Final = {"passed": ("green", "✓"), "failed": ("red", "✗"), "skipped": ("yellow", "–"), "later": ("dim", "·")}


def show_result(result: CheckResult, session: Session, lang: str, *, brief: bool = False) -> None:
    """A check: one line if `brief`, else with what was expected and observed, where to look and what leads on."""
    status = result.status.value
    style, sign = _SIGNS[status]
    heading = say("check", lang, id=result.check.id, says=result.check.says.of(lang))
    first, *rest = wrapped(heading, columns(), indent="  ", hang="  ")
    write_segments([[(style, sign), ("", f" {first[2:]}")], *([("", line)] for line in rest)])
    if status == "skipped":
        tell("skipped-why", lang, sign="    ", text=result.reason)
    if status == "later" and not brief:
        tell("later", lang, sign="    ", step=result.check.after)
    if brief or status in ("skipped", "later"):
        return
    pairs = [finding.say(lang) for finding in result.findings if status == "passed" or not finding.ok]
    for expected, observed in dict.fromkeys(pairs):
        tell("expected", lang, sign="    ", text=expected)
        tell("observed", lang, sign="    ", text=observed)
    tell("look", lang, sign="    ", text=result.check.look)
    for advice in ways_on(result, session, lang):
        paragraph(advice, "    → ", "yellow")


def ways_on(result: CheckResult, session: Session, lang: str) -> list[str]:
    """What leads on where a check failed: the known mistakes, else what may be in the way, else to begin anew."""
    lines = [advice.of(lang).strip() for advice in result.advice]
    slips = result.slips
    if slips.lacks:
        lines.append(say("lacks", lang, options=" ".join(slips.lacks)))
    if result.unpredicted:
        step = session.lab.step(result.unpredicted)
        at = session.lab.step_ids.index(step.id) + 1
        if not session.outcome_seen(step):
            return [say("unpredicted", lang, step=at), *lines]
        if any("paictl lab reset" in line for line in lines):  # two ways back would be one too many
            return [*lines, say("predict-again", lang, step=at)]
        return [say("unpredicted-late", lang, step=at), *lines]
    lines += [say("perhaps", lang, text=guess.of(lang).strip()) for guess in result.guesses]
    number = session.lab.step_ids.index(result.check.after) + 1
    own = session.workspace.site is None
    lines += _about_jobs(result, lang, number, own=own)
    if result.stuck and result.left_out:
        lines.append(say("left-out", lang, steps=", ".join(result.left_out)))
    if slips.overruled:
        job, option = slips.overruled
        lines.append(say("overruled", lang, job=job, option=option, step=number))
    if slips.in_seconds:
        typed, span = slips.in_seconds
        lines.append(say("in-seconds", lang, typed=typed, span=span, step=number))
    if own and result.overtaken:
        lines.append(say("overtaken", lang, step=number))
    if result.reported and not result.left_out:
        lines.append(say("errors-reported", lang))
    elif result.stuck and not result.left_out:
        lines.append(say(_at_a_loss(session.lab.step(result.check.after), own=own), lang, step=number))
    elif own and number > 1 and not result.left_out and (result.stopped or any(map(_begins_anew, lines))):
        lines.insert(0, say("step-back", lang, step=number))  # what loses least comes first
    return lines


def _about_jobs(result: CheckResult, lang: str, number: int, *, own: bool) -> list[str]:
    """The jobs that are there and should not be, or the other way round."""
    lines = [say("stranger", lang, job=name) for name in result.strangers]
    lines += [say("stopped-job", lang, job=name) for name in result.stopped]
    lines += [say("never-came", lang, command=line, step=number) for line in result.never_came]
    if own:
        lines += [say("early-job", lang, job=job.name, of=job.step, step=job.back) for job in result.early]
    return lines


def _at_a_loss(step: Step, *, own: bool) -> str:
    """What to say where all that a step shows was typed: some steps leave a part to the student."""
    if not own:
        return "stuck-at-site"
    return "stuck" if step.solution == Act() else "left-to-you"


def _begins_anew(advice: str) -> bool:
    """Whether advice gives up the whole lab, where going back to a step would do."""
    return "paictl lab reset" in advice and "--step" not in advice


def show_site(session: Session, lang: str) -> None:
    """Where a lab runs that has no cluster of its own."""
    if (site := session.workspace.site) is not None:
        tell("at-site", lang, cluster=site.cluster, user=site.user, seconds=f"{60 / site.pace:.3g}")


def show_trouble(session: Session, lang: str) -> None:
    """Obstacles in any lab: nothing typed, the last command refused, a stale service."""

    if not commandlog.read(session.workspace.folder):
        tell("nothing-typed", lang, sign="→ ", lab=session.lab.number)
    refusal = session.last_refusal()
    if refusal is not None:
        tell("refused", lang, sign="→ ", command=refusal.line)
        reason = refusal.message or say("see-above", lang, code=refusal.exit)
        reason += f"; {refusal.hint}" if refusal.hint else ""
        paragraph(refusal.said or reason, "    ")
    observation = session.observation()
    newest = observation.configuration.number if observation.configuration else 0
    meant = session.stopped_on_purpose()
    for service in observation.services:
        if service.reason and (service.running or service.name not in meant):
            tell("service-note", lang, sign="→ ", name=service.name, reason=_remark(service, newest, lang))


def _remark(service: ServiceView, newest: int, lang: str) -> str:
    """Why a service does not do its work, and what leads on."""
    if not service.running:
        return say("stopped", lang, name=service.name)
    if service.loaded is not None and newest not in (0, service.loaded):
        return say("stale", lang, name=service.name, loaded=service.loaded, newest=newest)
    return service.reason


def show_questions(session: Session, lang: str, *, solutions: bool = False) -> None:
    """The lab's questions with the student's answers, and good ones if asked for."""
    answers = session.progress.answers
    if session.lab.questions:
        tell("questions", lang)
    for number, question in enumerate(session.lab.questions, 1):
        paragraph(question.text.of(lang).strip(), f"  {number}. ")
        if str(number) in answers:
            tell("answered", lang, sign="     ", answer=answers[str(number)])
        if solutions:
            tell("model", lang, sign="     ", answer=question.answer.of(lang).strip())


def show_edits(lines: Iterable[str]) -> None:
    """What was changed in the student's files, as a unified diff."""
    styles = {"+": "green", "-": "red", "@": "dim"}
    for line in lines:
        write_segments([[(styles.get(line[:1], ""), f"  {line}")]])


def result_data(result: CheckResult, lang: str) -> dict[str, Any]:
    """A check as plain data."""
    return {
        "check": result.check.id,
        "standing": result.status.value,
        "says": result.check.says.of(lang),
        "findings": [
            {
                "ok": finding.ok,
                "of": finding.subject.text(lang),
                "what": finding.aspect,
                "expected": finding.expected.text(lang),
                "observed": finding.observed.text(lang),
            }
            for finding in result.findings
        ],
        "look": result.check.look,
        "advice": [advice.of(lang) for advice in result.advice],
        "perhaps": [guess.of(lang) for guess in result.guesses],
        "strangers": list(result.strangers),
        "reason": result.reason,
    }


def heading(text: str) -> None:
    """Write a line in bold."""
    write_segments([[("bold", text)]])


def blank() -> None:
    """Leave a line free."""
    write("")
