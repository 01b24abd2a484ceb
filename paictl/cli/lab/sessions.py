"""Which lab a command is about, and what kind of shell this is: one of a lab, of another, or of none."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated, Any

import typer

from paictl.errors import PaictlError
from paictl.lab.fitting import session_of as session_of
from paictl.lab.folders import SHELL, lab_of_shell
from paictl.lab.manifest import Step, all_labs
from paictl.lab.messages import LabError
from paictl.lab.session import Session


def labs() -> list[str]:
    """Ids of the labs."""
    with suppress(PaictlError):
        return [lab.id for lab in all_labs()]
    return []


def steps(context: typer.Context) -> list[str]:
    """Steps and checks of the lab that the command names, or of the current one."""
    word: Any = context.params.get("lab")
    with suppress(PaictlError):
        lab = session_of(word).lab
        return [*(step.id for step in lab.steps), *(check.id for check in lab.checks)]
    return []


LabWord = Annotated[
    str | None,
    typer.Argument(metavar="[LAB]", autocompletion=labs, help="Number or id of the lab (default: the current one)."),
]
LabOption = Annotated[
    str | None,
    typer.Option("--lab", autocompletion=labs, help="Number or id of the lab (default: the current one)."),
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


def in_lab_shell() -> bool:
    """Whether this shell was opened for a lab, so that exit leads back; one that took `lab env` was not."""

    return SHELL in os.environ


def in_lab(session: Session) -> bool:
    """Whether what is typed in this shell reaches this lab already, also after `lab env`."""

    return lab_of_shell() == session.lab.id


def other_lab(session: Session) -> bool:
    """Whether this shell was opened for another lab."""
    return in_lab_shell() and not in_lab(session)
