"""`paictl lab`: guided labs on a cluster of their own, each step checked."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from typing import Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption
from paictl.cli.command import App
from paictl.cli.console import Output, write, write_data, write_table
from paictl.cli.lab import author as labauthor
from paictl.cli.lab import report as labreport
from paictl.cli.lab.here import session_of
from paictl.cli.lab.play import type_words
from paictl.cli.lab.report import InLanguage, LangOption
from paictl.cli.lab.run import play_labs
from paictl.cli.lab.shell import SHELL_MARK, in_lab, in_lab_shell, in_other_lab, path_with_paictl
from paictl.cli.lab.words import (
    judged_data,
    language,
    language_here,
    say,
    show_judged,
    show_questions,
    show_step,
    show_trouble,
)
from paictl.errors import ExitCode
from paictl.lab.errors import LabError
from paictl.lab.ground import labs_folder
from paictl.lab.manifest import Step, all_labs
from paictl.lab.progress import ProgressFile
from paictl.lab.session import Session, Standing

app = App(cls=InLanguage, help="Guided labs: learn cluster scheduling by doing.")

LabWord = Annotated[str | None, typer.Argument(metavar="[LAB]", help="Number or id (default: where you are).")]


def _begun(word: str | None) -> Session:
    session = session_of(word)
    session.require_started()
    return session


@app.command("list", epilog="paictl lab list --lang zh")
def list_labs(lang: LangOption = None, output: OutputOption = Output.TABLE) -> None:
    """List the labs, and how far you are."""
    done, words = ProgressFile(labs_folder()).read(), language(lang)
    rows = []
    for lab in all_labs():
        mine = done.lab(lab.id)
        passed = sum(check.id in mine.passed for check in lab.checks)
        time_needed = say("minutes", words if output is Output.TABLE else "en", number=lab.minutes)
        rows.append((lab.id, lab.title.of(words), time_needed, f"{passed}/{len(lab.checks)}"))
    if output is Output.TABLE:
        write_table(say("list-heads", words).split(), rows)
    else:
        write_data([dict(zip(("id", "title", "time", "passed"), row, strict=True)) for row in rows], output)


@app.command()
def show(lab: LabWord = None, lang: LangOption = None) -> None:
    """Show the text of a lab, to read before, beside or after it."""
    session = session_of(lab)
    write(session.lab.text_file(language(lang, session)).read_text(encoding="utf-8").rstrip())


@app.command(
    epilog="""
    paictl lab start 1
    paictl lab shell
"""
)
def start(lab: LabWord = None, lang: LangOption = None) -> None:
    """Begin a lab: its own cluster comes up, and the first step is shown."""
    words = language(lang)
    session = _to_start(lab)
    with console.progress(say("begun", words)):
        session.start(words)
    write(f"{session.lab.number} {session.lab.title.of(words)}")
    write(say("goal", words, text=session.lab.goal.of(words).strip()))
    write("")
    if not in_lab(session):
        write(say("leave", words) * in_other_lab(session) + say("shell", words, lab=session.lab.number))
        write("")
    show_step(session.lab, session.lab.steps[0], words)
    write(say("then", words))


def _to_start(word: str | None) -> Session:
    """The lab that is named, else the one that was reset, the one after a finished one, or the first."""
    last = word or ProgressFile(labs_folder()).read().current
    session = session_of(last or "01")
    if word is None and last and session.ground.started and session.current_step() is None:
        return next((Session(lab, session.root) for lab in all_labs() if lab.id > session.lab.id), session)
    return session


@app.command()
def env(lab: LabWord = None) -> None:
    """Print what makes this shell the lab's: eval "$(paictl lab env)"."""
    session = _begun(lab)
    write(f"export PAICTL_STATE={shlex.quote(str(session.ground.folder.resolve()))}")
    write(f"cd {shlex.quote(str(session.ground.require_files().resolve()))}")
    path = path_with_paictl(session.root)
    if path is not None:
        write(f"export PATH={shlex.quote(path)}")


@app.command()
def shell(lab: LabWord = None) -> None:
    """Open a shell in which paictl works on the lab's cluster; leave it with exit."""
    session = _begun(lab)
    here = in_lab_shell() and in_lab(session)  # one in another would take two exits to leave
    saying = "in-shell-already" if here else "in-shell"
    console.info(say(saying, session.ground.language, lab=session.lab.number, folder=session.ground.require_files()))
    if here:
        return
    program = os.environ.get("SHELL") or "/bin/sh"
    environment = {**os.environ, "PAICTL_STATE": str(session.ground.folder.resolve()), SHELL_MARK: session.lab.id}
    environment["PATH"] = path_with_paictl(session.root) or os.environ.get("PATH", "")
    ended = subprocess.run([program], cwd=session.ground.files, env=environment, check=False)  # noqa: S603 - theirs
    raise typer.Exit(ended.returncode)


@app.command("next")
def next_step(lab: LabWord = None, lang: LangOption = None) -> None:
    """Show the next step; where this one is not done yet, what is missing."""
    session = _begun(lab)
    words = language(lang, session)
    judged = session.judged()
    step = session.current_step()
    if step is None:
        _finish(session, words)
        return
    if step.id == session.progress.shown:
        write(say("same-step", words))
        for command in session.missing(step):
            write("→ " + say("not-yet", words, command=command))
        for one in judged:
            if one.check.after == step.id and one.standing.value == "failed":
                show_judged(one, words)
        show_trouble(session, words)
        write("")
    session.show(step)
    show_step(session.lab, step, words)
    write(say("help", words))


def _finish(session: Session, words: str) -> None:
    """What is left when all steps are done."""
    write(say("all-done", words))
    show_questions(session, words)
    following = [lab.number for lab in all_labs() if lab.id > session.lab.id]
    leave = say("leave", words) * in_lab_shell()
    write(leave + say("next-lab", words, lab=following[0]) if following else say("report", words))


@app.command()
def status(lab: LabWord = None, lang: LangOption = None) -> None:
    """Show how far you are in a lab: steps, checks, questions."""
    session = _begun(lab)
    words = language(lang, session)
    judged, done = session.judged(), session.progress
    write(f"{session.lab.number} {session.lab.title.of(words)}")
    for number, step in enumerate(session.lab.steps, 1):
        sign = "✓" if session.is_done(step, done) else "·"
        extra = say("skipped", words) if step.id in done.skipped else ""
        write(f"{sign} {number}. {step.id} {extra}".rstrip())
        for one in judged:
            if one.check.after == step.id:
                show_judged(one, words, brief=True)
    show_questions(session, words)


@app.command()
def hint(lab: LabWord = None, lang: LangOption = None) -> None:
    """Give a hint for the present step; ask again for a plainer one."""
    session = _begun(lab)
    words = language(lang, session)
    step = _present_step(session)
    given = session.hint(step)
    if given is None:
        write(say("no-hint", words))
        return
    number, text = given
    write(say("hint", words, number=number, of=len(step.hints), text=text.of(words).strip()))
    if number == len(step.hints):
        write(say("last-hint", words))


def _present_step(session: Session) -> Step:
    session.observe()
    step = session.reading()
    if step is None:
        raise LabError(
            (f"all steps of lab {session.lab.number} are done", f"实验 {session.lab.number} 的所有步骤已完成"),
            ("see: paictl lab status", "查看：paictl lab status"),
        )
    return step


@app.command(epilog="paictl lab verify --watch")
def verify(
    lab: LabWord = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again whenever the cluster changes.")] = False,
    lang: LangOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare what is expected with what is observed; exit code 1 until every check passed or was skipped."""
    session = _begun(lab)
    words = language(lang, session)
    seen = -1
    while True:
        changes = len(session.scene().events) + len(session.scene().typed)
        if changes != seen:
            seen = changes
            if watch:
                console.clear_screen()
            complete = _verify(session, words, output)
        if not watch or complete:
            break
        time.sleep(0.5)
    raise typer.Exit(ExitCode.OK if complete else ExitCode.NEGATIVE)


def _verify(session: Session, words: str, output: Output) -> bool:
    """Judge and show; whether the lab is complete."""
    judged = session.judged()
    failed = any(one.standing is Standing.FAILED for one in judged)
    if output is not Output.TABLE:
        write_data([judged_data(one, words) for one in judged], output)
    else:
        for one in judged:
            show_judged(one, words)
        passed = sum(one.standing is Standing.PASSED for one in judged)
        write(say("tally", words, passed=passed, of=len(judged)))
        if failed:
            show_trouble(session, words)
        else:
            write("→ " + say("go-on", words))
    return all(one.standing in (Standing.PASSED, Standing.SKIPPED) for one in judged)


@app.command(epilog='paictl lab skip two-run --reason "no time"')
def skip(
    name: Annotated[str | None, typer.Argument(metavar="[STEP|CHECK]", help="Default: the present step.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; the report gives it.")] = "",
    lab: Annotated[str | None, typer.Option("--lab", help="Number or id of the lab.")] = None,
) -> None:
    """Leave a step or check out, with a reason."""
    session = _begun(lab)
    if not reason.strip():
        raise LabError(
            ("a skip needs its reason", "跳过需要说明理由"),
            ('paictl lab skip --reason "…"', 'paictl lab skip --reason "…"'),
        )
    chosen = name or _present_step(session).id
    session.skip(chosen, reason.strip())
    console.info(say("skip-done", session.ground.language, name=chosen))


@app.command()
def reset(lab: LabWord = None) -> None:
    """Begin a lab anew: its cluster, files and progress go, answers stay."""
    words = language_here()
    session = session_of(lab)
    session.reset()
    console.info(say("as-new", words, lab=session.lab.number))


@app.command()
def solve(
    lab: LabWord = None,
    whole: Annotated[bool, typer.Option("--all", help="All steps that are left.")] = False,
    lang: LangOption = None,
) -> None:
    """Do the present step for you, and show how; at the end, good answers to the questions."""
    session = _begun(lab)
    words = language(lang, session)
    session.observe()

    def typist(command: str) -> Any:
        write(f"$ {command}")
        return type_words(session, shlex.split(command)[1:])

    while (step := session.reading()) is not None:
        show_step(session.lab, step, words)
        session.solve(step, typist)
        if step.id not in session.progress.solved:
            write("→ " + say("unsolved", words))
            raise typer.Exit(ExitCode.NEGATIVE)
        if not whole:
            return
    show_questions(session, words, solutions=True)


@app.command(epilog='paictl lab answer 1 "because the quota of vc1 is used up"')
def answer(
    number: Annotated[int, typer.Argument(help="Number of the question.")],
    words: Annotated[str, typer.Argument(metavar="ANSWER", help="Your answer.")],
    lab: Annotated[str | None, typer.Option("--lab", help="Number or id of the lab.")] = None,
) -> None:
    """Answer a question of the lab; the report holds it."""
    session = session_of(lab)
    session.answer(number, words)
    console.info(say("noted", language_here(), lab=session.lab.number, number=number))


@app.command(
    epilog="""
    paictl lab run 3
    paictl lab run --all --fast
"""
)
def run(
    lab: LabWord = None,
    every: Annotated[bool, typer.Option("--all", help="All labs, one after the other.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Without pauses.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Play in your labs folder, for a report.")] = False,
    lang: LangOption = None,
) -> None:
    """Play a lab for a reader: every step typed, every check shown."""
    labs = all_labs() if every else [session_of(lab or "01").lab]
    failed = play_labs(labs, language(lang), pause=0 if fast else 2, keep=keep)
    raise typer.Exit(ExitCode.NEGATIVE if failed else ExitCode.OK)


app.command(epilog="paictl lab report -o report.html --name 'Li Hua'")(labreport.report)
app.command(
    "check-report",
    epilog="""
    paictl lab check-report report.html
    exit code 0 consistent, 1 not
""",
)(labreport.check_report)
app.command(epilog="paictl lab selftest 03 --update", hidden=True)(labauthor.selftest)
