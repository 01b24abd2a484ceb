"""Which lab a command is about."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import names
from paictl.lab.fitting import session_of as session_of
from paictl.lab.manifest import Step
from paictl.lab.messages import LabError
from paictl.lab.session import Session

LabWord = Annotated[
    str | None,
    typer.Argument(
        metavar="[LAB]", autocompletion=names.labs, help="Number or id of the lab (default: the current one)."
    ),
]
LabOption = Annotated[
    str | None,
    typer.Option("--lab", autocompletion=names.labs, help="Number or id of the lab (default: the current one)."),
]


def begun(word: str | None) -> Session:
    """The same; raises `LabError` if it was not started."""
    session = session_of(word)
    session.require_started()
    return session


def present_step(session: Session) -> Step:
    """The step that the student is at; raises `LabError` after the last."""

    session.observe()
    step = session.reading()
    if step is None:
        raise LabError("all-done", lab=session.lab.number)
    return step
