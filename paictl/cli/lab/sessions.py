"""Which lab a command is about, and what kind of shell this is: one of a lab, of another, or of none."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from paictl.cli import names
from paictl.lab.fitting import session_of as session_of
from paictl.lab.folders import SHELL, lab_of_shell
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


def in_lab_shell() -> bool:
    """Whether this shell was opened for a lab, so that exit leads back; one that took `lab env` was not."""

    return SHELL in os.environ


def in_lab(session: Session) -> bool:
    """Whether what is typed in this shell reaches this lab already, also after `lab env`."""

    return lab_of_shell() == session.lab.id


def other_lab(session: Session) -> bool:
    """Whether this shell was opened for another lab."""
    return in_lab_shell() and not in_lab(session)
