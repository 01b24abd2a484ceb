"""`paictl lab skip`, `solve`, `answer`, `predict` and `run`: what is done in a lab."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import write
from paictl.cli.lab.inprocess import play_labs, type_words
from paictl.cli.lab.language import LangOption, speaks
from paictl.cli.lab.rendering import show_edits, show_questions, show_step, tell
from paictl.cli.lab.sessions import LabOption, LabWord, begun, present_step, session_of, steps
from paictl.errors import ExitCode
from paictl.lab.commandlog import TypedCommand
from paictl.lab.manifest import all_labs
from paictl.lab.messages import LabError, say

app = App()


@app.command(epilog='paictl lab skip two-run --reason "no time"')
def skip(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[STEP|CHECK]", autocompletion=steps, help="Default: the current step."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="The reason; it appears in the report.")] = "",
    lab: LabOption = None,
) -> None:
    """Skip a step or check, with a reason."""

    session = begun(lab)
    if not reason.strip():
        raise LabError("needs-reason")
    chosen = name or present_step(session).id
    session.skip(chosen, reason.strip())
    console.info(say("skip-done", speaks(None, session), name=chosen))


@app.command(
    epilog="""
    paictl lab solve
    paictl lab solve 03 --all
"""
)
def solve(
    lab: LabWord = None,
    whole: Annotated[bool, typer.Option("--all", help="All remaining steps.")] = False,
    lang: LangOption = None,
) -> None:
    """Do the current step for you, and show how; at the end, answer the questions."""

    session = begun(lab)
    words = speaks(lang, session)
    session.observe()

    def runner(command: str) -> TypedCommand:
        write(f"$ {command}")
        return type_words(session, shlex.split(command)[1:])

    def edited(lines: list[str]) -> None:
        tell("edited", words)
        show_edits(lines)

    while (step := session.reading()) is not None:
        show_step(session, step, words)
        session.solve(step, runner, edited, language=words)
        if step.id not in session.progress.solved:
            key = "unsolved" if session.workspace.site is None else "unsolved-at-site"
            tell(key, words, sign="→ ", step=session.lab.step_ids.index(step.id) + 1)
            raise typer.Exit(ExitCode.NEGATIVE)
        if not whole:
            return
    show_questions(session, words, solutions=True)


@app.command(epilog='paictl lab answer 1 "because the quota of vc1 is used up"')
def answer(
    number: Annotated[int, typer.Argument(help="Number of the question.")],
    answer_words: Annotated[list[str], typer.Argument(metavar="ANSWER", help="Your answer.")],
    lab: LabOption = None,
) -> None:
    """Answer a question of the lab; the report includes it."""

    session = session_of(lab)
    words = " ".join(answer_words)  # many students leave the quotes out
    before = session.answer(number, words)
    console.info(say("noted", speaks(None, session), lab=session.lab.number, number=number))
    if before and before != words.strip():
        console.info(say("replaced", speaks(None, session), answer=before))


@app.command(epilog='paictl lab predict 2 "it waits"')
def predict(
    step: Annotated[str, typer.Argument(metavar="STEP", autocompletion=steps, help="Number or id of the step.")],
    expected_words: Annotated[list[str], typer.Argument(metavar="WHAT", help="What you expect to see.")],
    lab: LabOption = None,
) -> None:
    """Predict a step's outcome before you do it; the report compares it with what happened."""

    session = begun(lab)
    chosen = session.step_named(step)
    words = " ".join(expected_words)
    before = session.predict(chosen, words)
    console.info(say("foretold", speaks(None, session), lab=session.lab.number, step=chosen.id))
    if before and before != words.strip():
        console.info(say("replaced", speaks(None, session), answer=before))


@app.command(
    epilog="""
    paictl lab run 3
    paictl lab run --all --fast
"""
)
def run(
    lab: LabWord = None,
    every: Annotated[bool, typer.Option("--all", help="Play all labs in turn.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Without pauses.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Play in your labs folder, for a report.")] = False,
    lang: LangOption = None,
) -> None:
    """Play a lab for you to watch: every command typed, every check shown."""

    labs = all_labs() if every else [session_of(lab or "01").lab]
    failed = play_labs(labs, speaks(lang), pause=0 if fast else 2, keep=keep)
    raise typer.Exit(ExitCode.NEGATIVE if failed else ExitCode.OK)
