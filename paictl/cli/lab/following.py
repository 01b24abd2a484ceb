"""Following a lab: start, the next step, how far, hints, verification."""

from __future__ import annotations

import math
import time
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import ClusterId
from paictl.cli.console import Output, write, write_data
from paictl.cli.lab import starting
from paictl.cli.lab.language import LangOption, speaks
from paictl.cli.lab.rendering import (
    blank,
    heading,
    result_data,
    show_questions,
    show_result,
    show_site,
    show_step,
    show_trouble,
    tell,
)
from paictl.cli.lab.sessions import LabWord, begun, present_step
from paictl.cli.names import clusters
from paictl.cli.options import OutputOption
from paictl.cli.settings import settings
from paictl.errors import ExitCode
from paictl.lab.folders import labs_folder
from paictl.lab.judging import CheckStatus, judged
from paictl.lab.language import choose_for
from paictl.lab.messages import say
from paictl.lab.session import Session

app = App()

_LOOK = 0.5
"""Seconds between two looks of `verify --watch`."""


@app.command(
    epilog="""
    paictl lab start 1
    paictl lab shell
"""
)
def start(
    lab: LabWord = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="NAME", autocompletion=clusters, help="A cluster added with paictl cluster add."
        ),
    ] = None,
    cluster_id: ClusterId = None,
    pace: Annotated[
        float,
        typer.Option("--pace", min=1, max=600, help="With --cluster: seconds of lab time per second of cluster time."),
    ] = 1,
    lang: LangOption = None,
) -> None:
    """Start a lab: its own cluster comes up, and the first step is shown. A lab you started before continues.

    With --cluster NAME it runs on the cluster added under that name, if no jobs run there.
    """
    session = starting.to_start(lab)
    if lang is not None:
        choose_for(labs_folder(), session.lab.id, lang.value)
    words = speaks(lang, session)
    if session.workspace.started:
        starting.go_on(session, words)
    else:
        starting.begin(session, words, site=starting.taken(session, words, cluster, cluster_id, pace))


@app.command("next", epilog="paictl lab next")
def next_step(lab: LabWord = None, lang: LangOption = None) -> None:
    """Show the next step, or what is missing in the current one."""

    session = begun(lab)
    words = speaks(lang, session)
    results = judged(session)
    step = session.current_step()
    if step is None:
        starting.finish(session, words)
        return
    if step.id == session.progress.shown:
        tell("same-step", words)
        for command in session.missing(step):
            tell("not-yet", words, sign="→ ", command=command)
        for result in results:
            if result.check.after == step.id and result.status is CheckStatus.FAILED:
                show_result(result, session, words)
        show_trouble(session, words)
        blank()
    session.show(step)
    show_step(session, step, words)
    number = session.lab.step_ids.index(step.id) + 1
    tell("help" if session.workspace.site is None else "help-at-site", words, step=number)
    tell("read-it", words, lab=session.lab.number)


@app.command(epilog="paictl lab status 03")
def status(lab: LabWord = None, lang: LangOption = None) -> None:
    """Show your progress in a lab: steps, checks, questions."""

    session = begun(lab)
    words = speaks(lang, session)
    results, done = judged(session), session.progress
    heading(f"{session.lab.number} {session.lab.title.of(words)}")
    show_site(session, words)
    for number, step in enumerate(session.lab.steps, 1):
        sign = "✓" if session.is_done(step, done) else "·"
        extra = say("skipped", words) if step.id in done.skipped else ""
        write(f"{sign} {number}. {step.id} {extra}".rstrip())
        for result in results:
            if result.check.after == step.id:
                show_result(result, session, words, brief=True)
    show_questions(session, words)


@app.command(epilog="paictl lab hint")
def hint(lab: LabWord = None, lang: LangOption = None) -> None:
    """Give a hint for the current step; ask again for a plainer one."""

    session = begun(lab)
    words = speaks(lang, session)
    session.observe()
    step = session.current_step() or present_step(session)
    at = session.lab.step_ids.index(step.id) + 1
    given = session.hint(step)
    if given is None:
        tell("no-hint", words, step=at, lab=session.lab.number)
        return
    number, text = given
    tell("hint", words, step=at, number=number, of=len(step.hints), text=text.of(words).strip())
    if number == len(step.hints):
        tell("last-hint", words)


@app.command(
    epilog="""
    paictl lab verify --watch
    paictl lab verify --watch --timeout 600
    paictl lab verify -v
"""
)
def verify(
    lab: LabWord = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Check again whenever the cluster changes.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, metavar="SECONDS", help="With --watch: end after this time."),
    ] = None,
    lang: LangOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare what is expected with what was observed: failed checks in full, with -v all of them.

    The exit code is 1 until every check has passed or been skipped. --watch ends then.
    """
    end = time.monotonic() + (math.inf if timeout is None else timeout)
    session = begun(lab)
    words = speaks(lang, session)
    last = -1
    while True:
        now = session.observation()
        changes = len(now.events) + len(now.typed)
        if changes != last:
            last = changes
            if watch:
                console.clear_screen()
            complete = _verify(session, words, output)
        if not watch or complete or time.monotonic() + _LOOK > end:
            break
        time.sleep(_LOOK)
    raise typer.Exit(ExitCode.OK if complete else ExitCode.NEGATIVE)


def _verify(session: Session, words: str, output: Output) -> bool:
    """Judge and show; whether the lab is complete."""

    results = judged(session)
    complete = all(result.status in (CheckStatus.PASSED, CheckStatus.SKIPPED) for result in results)
    if output is not Output.TABLE:
        write_data([result_data(result, words) for result in results], output)
        return complete
    brief = settings.verbosity <= 0
    failed = [result for result in results if result.status is CheckStatus.FAILED]
    for result in results:
        show_result(result, session, words, brief=brief)
    passed = sum(result.status is CheckStatus.PASSED for result in results)
    tell("tally", words, passed=passed, of=len(results))
    if brief and failed:
        blank()
        for result in failed:
            show_result(result, session, words)
    if failed:
        show_trouble(session, words)
    else:
        tell("go-on", words, sign="→ ")
    if complete:
        tell("why", words, sign="→ ", lab=session.lab.number)
    return complete
