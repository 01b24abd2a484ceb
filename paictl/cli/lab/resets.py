"""`paictl lab reset` and `restore`: a lab or a step anew, and back again."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import confirm
from paictl.cli.lab.language import speaks
from paictl.cli.lab.rendering import show_step
from paictl.cli.lab.sessions import LabWord, begun, session_of
from paictl.lab import commandlog
from paictl.lab.messages import say
from paictl.lab.workspace import Workspace

app = App()


@app.command(
    epilog="""
    paictl lab reset 2
    paictl lab reset --step 3
    paictl lab reset 2 --yes
"""
)
def reset(
    lab: LabWord = None,
    step: Annotated[str | None, typer.Option("--step", help="Go back only to the start of this step.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Restart a lab, or go back to a step: cluster, files and progress are deleted, answers stay; a backup is kept."""

    session = session_of(lab)
    words = speaks(None, session)
    number, passed = session.lab.number, len(session.progress.passed)
    if step is not None:
        chosen = begun(lab).step_named(step)
        place = session.lab.step_ids.index(chosen.id) + 1
        commands, files = session.lost_by_reset(chosen)
        if commands or files:
            asked = say(
                "step-reset-asks", words, lab=number, step=place, commands=commands, files=", ".join(files) or "-"
            )
            confirm(asked, str(place), yes=yes)
        backup = session.reset_to(chosen)
        console.info(say("step-as-new", words, lab=number, step=place))
    else:
        if passed or (session.workspace.started and commandlog.read(session.workspace.folder)):
            asked = say(
                "reset-asks",
                words,
                lab=number,
                title=session.lab.title.of(words),
                passed=passed,
                of=len(session.lab.checks),
            )
            confirm(asked, number, yes=yes)
        backup = session.reset()
        console.info(say("as-new", words, lab=number))
    if backup is not None:
        key = "backed-up" if Workspace(backup).known_site is None else "backed-up-only"
        console.info(say(key, words, folder=backup, lab=number))
    if step is not None:
        show_step(session, chosen, words)


@app.command(epilog="paictl lab restore 2")
def restore(lab: LabWord = None) -> None:
    """Undo the last reset of a lab; the current state is backed up in turn."""

    session = session_of(lab)
    words = speaks(None, session)
    source = session.restore()
    console.info(say("restored", words, lab=session.lab.number, folder=source.name))
