"""What the lab commands say, in both languages, and how labs, steps and checks are shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from paictl.cli.console import write, write_segments

if TYPE_CHECKING:
    from paictl.lab.manifest import Lab, Step
    from paictl.lab.session import Judged, Session

SAYINGS: Final[dict[str, tuple[str, str]]] = {
    "goal": ("goal", "目标"),
    "step": ("step {number} of {of}: {id}", "第 {number} 步，共 {of} 步：{id}"),
    "help": (
        "stuck? paictl lab hint · paictl lab skip · paictl lab solve",
        "卡住了？ paictl lab hint · paictl lab skip · paictl lab solve",
    ),
    "shell": (
        'work in it: paictl lab shell {lab}  (or in this shell: eval "$(paictl lab env {lab})")',
        '进入实验环境：paictl lab shell {lab}    （或在当前终端：eval "$(paictl lab env {lab})"）',
    ),
    "then": ("then: paictl lab verify", "然后：paictl lab verify"),
    "expected": ("expected", "应为"),
    "observed": ("observed", "实际"),
    "look": ("look at", "查看"),
    "skipped": ("skipped", "已跳过"),
    "later": ("comes with step {step}", "在步骤 {step} 之后检查"),
    "tally": ("{passed} of {of} checks passed", "{of} 项检查中通过 {passed} 项"),
    "nothing-typed": (
        "no command has reached this lab's cluster yet: type them in `paictl lab shell {lab}`",
        "还没有命令到达本实验的集群：请在 `paictl lab shell {lab}` 中输入命令",
    ),
    "refused": (
        "your last command was refused: {command}",
        "你的上一条命令被拒绝：{command}",
    ),
    "not-yet": ("not typed yet: {command}", "尚未输入：{command}"),
    "same-step": ("this step is not done yet", "这一步尚未完成"),
    "all-done": ("all steps are done", "所有步骤已完成"),
    "questions": ('questions; answer with: paictl lab answer N "…"', '思考题；回答方式：paictl lab answer N "…"'),
    "answered": ("your answer: {answer}", "你的回答：{answer}"),
    "model": ("a good answer: {answer}", "参考答案：{answer}"),
    "next-lab": (
        "next lab: paictl lab start {lab}",
        "下一个实验：paictl lab start {lab}",
    ),
    "report": (
        "write the report: paictl lab report -o report.html",
        "生成报告：paictl lab report -o report.html",
    ),
    "no-hint": (
        "there is no hint for this step; its commands say it all",
        "这一步没有提示；按命令操作即可",
    ),
    "hint": ("hint {number} of {of}", "提示 {number}/{of}"),
    "service": (
        "note: service {name}: {reason}",
        "注意：服务 {name}：{reason}",
    ),
}


def language(given: str | None, session: Session | None = None) -> str:
    """The language: as asked, else as the lab was started, else as the locale says."""
    if given is not None:
        return given
    if session is not None and session.ground.started:
        return session.ground.language
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_MESSAGES") or os.environ.get("LANG") or ""
    return "zh" if locale.lower().startswith("zh") else "en"


def say(key: str, lang: str, **values: object) -> str:
    """A saying in a language."""
    return SAYINGS[key][lang == "zh"].format(**values)


def show_step(lab: Lab, step: Step, lang: str) -> None:
    """A step: what to do, and the commands."""
    number = lab.step_ids.index(step.id) + 1
    heading = say("step", lang, number=number, of=len(lab.steps), id=step.id)
    write_segments([[("bold", heading)]])
    write(step.text.of(lang).strip())
    for command in step.commands:
        write_segments([[("", "  $ "), ("cyan", command)]])


_SIGNS: Final = {"passed": ("green", "✓"), "failed": ("red", "✗"), "skipped": ("yellow", "–"), "later": ("dim", "·")}


def show_judged(judged: Judged, lang: str, *, brief: bool = False) -> None:
    """A check: passed in one line; failed with what was expected and observed, where to look and what leads on."""
    style, sign = _SIGNS[judged.standing.value]
    write_segments([[(style, sign), ("", f" {judged.check.id}: {judged.check.says.of(lang)}")]])
    if judged.standing.value == "skipped":
        write(f"    {say('skipped', lang)}: {judged.reason}")
    if judged.standing.value == "later" and not brief:
        write(f"    {say('later', lang, step=judged.check.after)}")
    if brief or judged.standing.value in ("skipped", "later"):
        return
    for finding in judged.findings:
        if judged.standing.value == "passed" or not finding.ok:
            expected, observed = finding.say(lang)
            write(f"    {say('expected', lang)}: {expected}")
            write(f"    {say('observed', lang)}: {observed}")
    write(f"    {say('look', lang)}: {judged.check.look}")
    for advice in judged.advice:
        write_segments([[("yellow", f"    → {advice.of(lang).strip()}")]])


def show_trouble(session: Session, lang: str) -> None:
    """What is in the student's way whatever the lab: nothing typed, the last command refused, a stale service."""
    from paictl.lab import journal

    if not journal.read(session.ground.folder):
        write("→ " + say("nothing-typed", lang, lab=session.lab.number))
    refusal = session.last_refusal()
    if refusal is not None:
        write("→ " + say("refused", lang, command=refusal.command))
        write(f"    {refusal.message}" + (f"; {refusal.hint}" if refusal.hint else ""))
    for service in session.ground.cluster().services():
        if service.reason:
            write("→ " + say("service", lang, name=service.name, reason=service.reason))


def show_questions(session: Session, lang: str, *, solutions: bool = False) -> None:
    """The lab's questions with the student's answers, and good ones if asked for."""
    answers = session.progress.answers
    if session.lab.questions:
        write(say("questions", lang))
    for number, question in enumerate(session.lab.questions, 1):
        write(f"  {number}. {question.text.of(lang).strip()}")
        if str(number) in answers:
            write("     " + say("answered", lang, answer=answers[str(number)]))
        if solutions:
            write("     " + say("model", lang, answer=question.answer.of(lang).strip()))
