"""`paictl lab`: guided labs on a cluster of their own, each step checked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption
from paictl.cli.console import Output, write, write_data, write_table
from paictl.cli.lab import author, doing, reading, reports, resets, shell
from paictl.cli.lab.sessions import InLanguage, LabWord, LangOption, begun, present_step, session_of, speaks
from paictl.errors import ExitCode

if TYPE_CHECKING:
    from paictl.lab.session import Session

app = typer.Typer(cls=InLanguage, help="Guided labs: learn cluster scheduling by doing.", no_args_is_help=True)


@app.command("list", epilog="Example: paictl lab list --lang zh")
def list_labs(lang: LangOption = None, output: OutputOption = Output.TABLE) -> None:
    """List the labs, and how far you are."""
    from paictl.lab.manifest import all_labs
    from paictl.lab.messages import say
    from paictl.lab.progress import ProgressFile
    from paictl.lab.workspace import labs_folder

    done, words = ProgressFile(labs_folder()).read(), speaks(lang)
    rows = []
    for lab in all_labs():
        mine = done.lab(lab.id)
        passed = sum(check.id in mine.passed for check in lab.checks)
        needed = say("minutes", words if output is Output.TABLE else "en", number=lab.minutes)
        rows.append((lab.id, lab.title.of(words), needed, f"{passed}/{len(lab.checks)}"))
    if output is Output.TABLE:
        write_table(say("list-heads", words).split(), rows)
    else:
        write_data([dict(zip(("id", "title", "time", "passed"), row, strict=True)) for row in rows], output)


@app.command(epilog="Example: paictl lab start 1, then paictl lab shell")
def start(lab: LabWord = None, lang: LangOption = None) -> None:
    """Begin a lab: its own cluster comes up, and the first step is shown. One that has begun goes on."""
    from paictl.cli.lab.shown import blank, heading, show_step, tell
    from paictl.lab.language import choose
    from paictl.lab.workspace import labs_folder

    if lang is not None:
        choose(labs_folder(), lang.value)
    words, session = speaks(lang), _to_start(lab)
    if session.workspace.started:
        go_on(session, words)
        return
    begin(session, words)
    heading(f"{session.lab.number} {session.lab.title.of(words)}")
    tell("goal", words, text=session.lab.goal.of(words).strip())
    tell("read-it", words, lab=session.lab.number)
    blank()
    if not shell.in_lab(session):
        other = shell.other_lab(session)
        tell("shell-after-exit" if other else "shell", words, lab=session.lab.number)
        blank()
    show_step(session, session.lab.steps[0], words)
    tell("then", words)


def begin(session: Session, words: str) -> None:
    """Start a lab that was not started."""
    from paictl.lab.messages import say

    with console.progress(say("begun", words)):
        session.start()


def go_on(session: Session, words: str) -> None:
    """Say that a lab has begun already, and show where the student is."""
    from paictl.cli.lab.shown import heading, show_step, tell

    heading(f"{session.lab.number} {session.lab.title.of(words)}")
    tell("goes-on", words, at=session.progress.started[:16].replace("T", " "), lab=session.lab.number)
    if not shell.in_lab(session):
        tell("shell-after-exit" if shell.other_lab(session) else "shell", words, lab=session.lab.number)
    session.observe()
    step = session.reading()
    if step is None:
        _finish(session, words)
    else:
        session.show(step)
        show_step(session, step, words)
        tell("then", words)


def _to_start(word: str | None) -> Session:
    """The lab that is named, else the one that was reset, the one after a finished one, or the first."""
    from paictl.lab.manifest import all_labs
    from paictl.lab.progress import ProgressFile
    from paictl.lab.session import Session
    from paictl.lab.workspace import lab_of_shell, labs_folder

    last = word or lab_of_shell() or ProgressFile(labs_folder()).read().current
    session = session_of(last or "01")
    if word is None and last and session.workspace.started and session.current_step() is None:
        return next((Session(lab, session.root) for lab in all_labs() if lab.id > session.lab.id), session)
    return session


app.command()(shell.env)
app.command("shell")(shell.open_shell)


@app.command("next")
def next_step(lab: LabWord = None, lang: LangOption = None) -> None:
    """Show the next step; where this one is not done yet, what is missing."""
    from paictl.cli.lab.shown import blank, show_result, show_step, show_trouble, tell
    from paictl.lab.judging import Status, judged

    session, words = begun(lab), speaks(lang)
    results = judged(session)
    step = session.current_step()
    if step is None:
        _finish(session, words)
        return
    if step.id == session.progress.shown:
        tell("same-step", words)
        for command in session.missing(step):
            tell("not-yet", words, sign="→ ", command=command)
        for one in results:
            if one.check.after == step.id and one.status is Status.FAILED:
                show_result(one, session, words)
        show_trouble(session, words)
        blank()
    session.show(step)
    show_step(session, step, words)
    tell("help", words)
    tell("read-it", words, lab=session.lab.number)


def _finish(session: Session, words: str) -> None:
    """What is left when all steps are done."""
    from paictl.cli.lab.shown import show_questions, tell
    from paictl.lab.manifest import all_labs

    tell("all-done", words)
    tell("why", words, lab=session.lab.number)
    show_questions(session, words)
    following = [lab.number for lab in all_labs() if lab.id > session.lab.id]
    if following:
        tell("next-lab-after-exit" if shell.in_lab_shell() else "next-lab", words, lab=following[0])
    else:
        tell("report-it", words)


@app.command()
def status(lab: LabWord = None, lang: LangOption = None) -> None:
    """Show how far you are in a lab: steps, checks, questions."""
    from paictl.cli.lab.shown import heading, show_questions, show_result
    from paictl.lab.judging import judged
    from paictl.lab.messages import say

    session, words = begun(lab), speaks(lang)
    results, done = judged(session), session.progress
    heading(f"{session.lab.number} {session.lab.title.of(words)}")
    for number, step in enumerate(session.lab.steps, 1):
        sign = "✓" if session.is_done(step, done) else "·"
        extra = say("skipped", words) if step.id in done.skipped else ""
        write(f"{sign} {number}. {step.id} {extra}".rstrip())
        for one in results:
            if one.check.after == step.id:
                show_result(one, session, words, brief=True)
    show_questions(session, words)


@app.command()
def hint(lab: LabWord = None, lang: LangOption = None) -> None:
    """Give a hint for the present step; ask again for a plainer one."""
    from paictl.cli.lab.shown import tell

    session, words = begun(lab), speaks(lang)
    step = present_step(session)
    given = session.hint(step)
    if given is None:
        tell("no-hint", words, lab=session.lab.number)
        return
    number, text = given
    tell("hint", words, number=number, of=len(step.hints), text=text.of(words).strip())
    if number == len(step.hints):
        tell("last-hint", words)


@app.command(epilog="Example: paictl lab verify --watch · paictl lab verify -v")
def verify(
    lab: LabWord = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again whenever the cluster changes.")] = False,
    lang: LangOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare what is expected with what is observed, the failed checks in full (with -v all of them).

    Exit code 1 until every check passed or was skipped.
    """
    session, words = begun(lab), speaks(lang)
    seen = -1
    while True:
        now = session.observation()
        changes = len(now.events) + len(now.typed)
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
    from paictl.cli.lab.shown import blank, result_data, show_result, show_trouble, tell
    from paictl.cli.settings import settings
    from paictl.lab.judging import Status, judged

    results = judged(session)
    complete = all(one.status in (Status.PASSED, Status.SKIPPED) for one in results)
    if output is not Output.TABLE:
        write_data([result_data(one, words) for one in results], output)
        return complete
    brief = settings.verbosity <= 0
    failed = [one for one in results if one.status is Status.FAILED]
    for one in results:
        show_result(one, session, words, brief=brief)
    passed = sum(one.status is Status.PASSED for one in results)
    tell("tally", words, passed=passed, of=len(results))
    if brief and failed:
        blank()
        for one in failed:
            show_result(one, session, words)
    if failed:
        show_trouble(session, words)
    else:
        tell("go-on", words, sign="→ ")
    if complete:
        tell("why", words, sign="→ ", lab=session.lab.number)
    return complete


for _add in (reading, doing, resets, reports, author):
    _add.register(app)
