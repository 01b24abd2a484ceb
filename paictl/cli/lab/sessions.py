"""Which lab a command is about, and in which language it speaks."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from paictl.cli import names
from paictl.cli.command import Group
from paictl.cli.settings import settings
from paictl.cli.userconfig import setting
from paictl.lab.errors import LabError
from paictl.lab.language import language_of
from paictl.lab.manifest import Step
from paictl.lab.session import Session
from paictl.lab.session import session_of as session_of
from paictl.lab.workspace import labs_folder

LabWord = Annotated[
    str | None,
    typer.Argument(metavar="[LAB]", autocompletion=names.labs, help="Number or id (default: where you are)."),
]
LabOption = Annotated[
    str | None,
    typer.Option("--lab", autocompletion=names.labs, help="Number or id of the lab (default: where you are)."),
]


class Language(StrEnum):
    """Languages of the labs."""

    EN = "en"
    ZH = "zh"


ASKED: Final = "paictl.lab.language"
"""Where the context of a command line keeps which language was asked for, if one was."""


def _remember(context: typer.Context, asked: Language | None) -> Language | None:
    source = context.get_parameter_source("lang")
    if asked is None or source is None or source.name != "COMMANDLINE":
        return None  # what a configuration file says comes after what the student chose
    context.meta[ASKED] = asked.value
    return asked


LangOption = Annotated[
    Language | None,
    typer.Option("--lang", callback=_remember, help="Language of this command (see: paictl lab language)."),
]


class InLanguage(Group):
    """The lab commands: their errors are said in the language of the labs."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Carry a command out."""

        settings.language = speaks()
        try:
            return super().invoke(ctx)
        except LabError as error:
            settings.language = speaks(ctx.meta.get(ASKED))
            raise error.in_language(speaks(ctx.meta.get(ASKED))) from None


def speaks(given: str | None = None) -> str:
    """The language in which a command speaks: as asked, else as the student chose."""

    return language_of(labs_folder(), given, setting("lang"))


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
