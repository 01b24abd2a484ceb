"""What the lab commands say, in both languages, and how labs, steps and checks are shown."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import Any, Final

from paictl.cli.console import write, write_segments
from paictl.cluster.interface import ServiceView
from paictl.lab import journal
from paictl.lab.errors import LabError
from paictl.lab.ground import labs_folder, present_lab
from paictl.lab.manifest import Lab, Step
from paictl.lab.progress import ProgressFile
from paictl.lab.session import Judged, Session

SAYINGS: Final[dict[str, tuple[str, str]]] = {
    "list-heads": ("LAB TITLE TIME PASSED", "实验 标题 时间 通过"),
    "minutes": ("{number} min", "{number} 分钟"),
    "goal": ("goal: {text}", "目标：{text}"),
    "step": ("step {number} of {of}: {id}", "第 {number} 步，共 {of} 步：{id}"),
    "help": (
        "stuck? paictl lab hint · paictl lab solve · paictl lab skip · begin anew: paictl lab reset",
        "卡住了？paictl lab hint · paictl lab solve · paictl lab skip · 重新开始：paictl lab reset",
    ),
    "shell": (
        'work in it: paictl lab shell {lab}  (or in this shell: eval "$(paictl lab env {lab})")',
        '进入实验环境：paictl lab shell {lab}    （或在当前终端：eval "$(paictl lab env {lab})"）',
    ),
    "then": ("then: paictl lab verify", "然后：paictl lab verify"),
    "check": ("{id}: {says}", "{id}：{says}"),
    "expected": ("expected: {text}", "应为：{text}"),
    "observed": ("observed: {text}", "实际：{text}"),
    "look": ("look at: {text}", "查看：{text}"),
    "skipped": ("skipped", "已跳过"),
    "skipped-why": ("skipped: {text}", "已跳过：{text}"),
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
        'write the report: paictl lab report -o report.html --name "YOUR NAME"',
        '生成报告：paictl lab report -o report.html --name "姓名"',
    ),
    "no-hint": (
        "there is no hint for this step; its commands say it all",
        "这一步没有提示；按命令操作即可",
    ),
    "hint": ("hint {number} of {of}: {text}", "提示 {number}/{of}：{text}"),
    "last-hint": (
        "that was the last hint; to see it done: paictl lab solve",
        "没有更多提示；查看做法：paictl lab solve",
    ),
    "leave": ("first leave this shell: exit; then ", "先退出当前终端：exit；然后"),
    "go-on": ("go on: paictl lab next", "继续：paictl lab next"),
    "unsolved": (
        "its checks did not pass: something before went another way; begin anew with paictl lab reset, or go on with "
        "paictl lab skip",
        "检查没有通过：之前的操作与实验不同；用 paictl lab reset 重新开始，或用 paictl lab skip 继续",
    ),
    "anew": (
        "everything was typed; what went wrong cannot be undone here: paictl lab reset begins anew",
        "所有命令都已输入；此处无法撤销：请用 paictl lab reset 重新开始",
    ),
    "left-out": (
        "everything was typed; this may need what {steps} would have done, which was skipped: paictl lab reset begins "
        "anew, or go on with paictl lab skip",
        "所有命令都已输入；这一项可能需要已跳过的步骤 {steps} 所做的事：用 paictl lab reset 重新开始，或用 "
        "paictl lab skip 继续",
    ),
    "see-above": ("it ended with exit code {code}; see what it printed", "它以退出码 {code} 结束；请看它的输出"),
    "service": (
        "note: service {name}: {reason}",
        "注意：服务 {name}：{reason}",
    ),
    "stopped": ("stopped; start it: paictl service start -n {name}", "已停止；启动：paictl service start -n {name}"),
    "stale": (
        "{reason}; to load it: paictl service refresh -n {name}",
        "仍按配置 {loaded} 运行，最新的是 {newest}；加载：paictl service refresh -n {name}",
    ),
    "perhaps": ("perhaps: {text}", "也许：{text}"),
    "begun": ("bringing the lab's cluster up", "正在启动实验集群"),
    "in-shell": ("lab {lab}: a shell in {folder}; leave it with exit", "实验 {lab}：终端位于 {folder}；用 exit 退出"),
    "in-shell-already": (
        "this is the shell of lab {lab} already; its files are in {folder}",
        "当前终端已经是实验 {lab} 的终端；实验文件位于 {folder}",
    ),
    "skip-done": ("{name} skipped; go on: paictl lab next", "已跳过 {name}；继续：paictl lab next"),
    "as-new": ("lab {lab} is as new; begin: paictl lab start {lab}", "实验 {lab} 已重置；开始：paictl lab start {lab}"),
    "noted": ("answer {number} of lab {lab} noted", "已记下实验 {lab} 第 {number} 题的回答"),
    "reported": (
        "report of {labs} written to {file}, digest {digest}",
        "{count} 个实验的报告已写入 {file}，校验摘要 {digest}",
    ),
    "elsewhere": (
        "{file} is in the lab's folder, not here: cd {folder}",
        "{file} 在实验的文件夹中，不在这里：cd {folder}",
    ),
    "taken": (
        "the checks look for that job; if it went wrong, begin anew: paictl lab reset",
        "检查针对的就是这个作业；如果它做错了，请重新开始：paictl lab reset",
    ),
    "not-noted": ("this command could not be noted: {reason}", "无法记录这条命令：{reason}"),
}


def language(given: str | None, session: Session | None = None) -> str:
    """The language: as asked, else as the lab was started, else of the last lab, else as the locale says."""
    if given is not None:
        return given
    if session is not None and session.ground.started:
        return session.ground.language
    return language_here()


def _language_of_locale() -> str:
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next((found for name in names if (found := os.environ.get(name))), None) or _mac_locale()
    return "zh" if locale.lower().startswith("zh") else "en"


def _mac_locale() -> str:
    """The language of macOS, whose programs start without LANG when no terminal sets it; empty elsewhere."""
    if platform.system() != "Darwin":
        return ""
    command = ["/usr/bin/defaults", "read", "-g", "AppleLocale"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603
    except (subprocess.SubprocessError, OSError):
        return ""


def language_here() -> str:
    """The language where no lab is named: of the lab of this shell, else of the last start, else of the locale."""
    try:
        present = present_lab()
        return (present.language if present else ProgressFile(labs_folder()).read().language) or _language_of_locale()
    except LabError:  # a file is damaged
        return _language_of_locale()


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
    write_segments(
        [[(style, sign), ("", f" {say('check', lang, id=judged.check.id, says=judged.check.says.of(lang))}")]]
    )
    if judged.standing.value == "skipped":
        write(f"    {say('skipped-why', lang, text=judged.reason)}")
    if judged.standing.value == "later" and not brief:
        write(f"    {say('later', lang, step=judged.check.after)}")
    if brief or judged.standing.value in ("skipped", "later"):
        return
    for finding in judged.findings:
        if judged.standing.value == "passed" or not finding.ok:
            expected, observed = finding.say(lang)
            write(f"    {say('expected', lang, text=expected)}")
            write(f"    {say('observed', lang, text=observed)}")
    write(f"    {say('look', lang, text=judged.check.look)}")
    guesses = [say("perhaps", lang, text=guess.of(lang).strip()) for guess in judged.guesses]
    if judged.stuck and judged.left_out:
        guesses.append(say("left-out", lang, steps=", ".join(judged.left_out)))
    elif judged.stuck:
        guesses.append(say("anew", lang))
    for advice in [*(advice.of(lang).strip() for advice in judged.advice), *guesses]:
        write_segments([[("yellow", f"    → {advice}")]])


def show_trouble(session: Session, lang: str) -> None:
    """What is in the student's way whatever the lab: nothing typed, the last command refused, a stale service."""
    if not journal.read(session.ground.folder):
        write("→ " + say("nothing-typed", lang, lab=session.lab.number))
    refusal = session.last_refusal()
    if refusal is not None:
        write("→ " + say("refused", lang, command=refusal.command))
        message = refusal.message or say("see-above", lang, code=refusal.exit)
        write(f"    {message}" + (f"; {refusal.hint}" if refusal.hint else ""))
    scene = session.scene()
    newest = scene.configuration.number if scene.configuration else 0
    meant = session.stopped_on_purpose()
    for service in scene.services:
        if service.reason and (service.running or service.name not in meant):
            write("→ " + say("service", lang, name=service.name, reason=_remark(service, newest, lang)))


def _remark(service: ServiceView, newest: int, lang: str) -> str:
    """Why a service does not do its work, and what leads on."""
    if not service.running:
        return say("stopped", lang, name=service.name)
    if service.loaded is not None and newest not in (0, service.loaded):
        return say("stale", lang, name=service.name, loaded=service.loaded, newest=newest, reason=service.reason)
    return service.reason


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


def judged_data(judged: Judged, words: str) -> dict[str, Any]:
    """A check as plain data."""
    return {
        "check": judged.check.id,
        "standing": judged.standing.value,
        "says": judged.check.says.of(words),
        "findings": [
            {"ok": one.ok, "of": one.subject, "what": one.aspect, "expected": one.expected, "observed": one.observed}
            for one in judged.findings
        ],
        "look": judged.check.look,
        "advice": [advice.of(words) for advice in judged.advice],
        "perhaps": [guess.of(words) for guess in judged.guesses],
        "reason": judged.reason,
    }
