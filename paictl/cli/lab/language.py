"""In which language the lab commands speak."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from paictl.cli.command import LazyGroup
from paictl.cli.settings import settings
from paictl.cli.userconfig import setting
from paictl.lab.folders import labs_folder
from paictl.lab.language import language_of
from paictl.lab.messages import LabError

if TYPE_CHECKING:
    from paictl.lab.session import Session


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


class InLanguage(LazyGroup):
    """The lab commands: their errors are said in the language of the labs."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Carry a command out."""

        settings.language = speaks()
        try:
            return super().invoke(ctx)
        except LabError as error:
            settings.language = ctx.meta.get(ASKED) or settings.language or "en"
            raise error.in_language(settings.language) from None


def speaks(given: str | None = None, session: Session | None = None) -> str:
    """The language in which a command speaks of a lab: as asked, else as the student chose for it.

    What the command line says after this (errors, remarks of the cluster) is said in the same language.
    """
    settings.language = language_of(labs_folder(), given, setting("lang"), lab=session.lab.id if session else "")
    return settings.language
