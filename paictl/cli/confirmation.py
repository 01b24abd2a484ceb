"""What a command says and asks before it does harm: what is wrong with files, which cluster, and whether it may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console
from paictl.cli.settings import settings
from paictl.cluster.interface import Identity
from paictl.cluster.registry import LOCAL
from paictl.cluster.targets import chosen_name, find_target
from paictl.errors import PaictlError
from paictl.i18n import sayable, text
from paictl.operate import RefusedFilesError

if TYPE_CHECKING:
    from paictl.config.reading.problem import Problem

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ClusterId = Annotated[
    str | None,
    typer.Option("--cluster-id", metavar="ID", help="Confirm the target cluster by its id and skip the prompt."),
]


def check_id(cluster: Identity, wanted: str | None) -> None:
    """Raise `PaictlError` if a command names another cluster than the one that it would reach.

    Of a cluster that is not on this machine it is said first where it is: several may have the same id.
    """
    name = chosen_name(settings.cluster, state_given=settings.state_given)
    if name != LOCAL:
        console.info(
            text(
                "cluster {name} is {target}, at {where}", name=cluster.name, target=name, where=find_target(name).where
            )
        )
    if wanted is not None and wanted != cluster.name:
        message = text("this is cluster {name}, not {wanted}", name=cluster.name, wanted=wanted)
        raise PaictlError(message, hint="nothing was done; check --cluster and --state")


def confirm(question: str, word: str, *, yes: bool) -> None:
    """Ask for a word before a destructive command; raises `PaictlError` without a terminal or for another word."""
    if yes:
        return
    if not settings.may_ask:
        raise PaictlError(text("{question}: an answer is required", question=question), hint="pass --yes to confirm")
    asked = console.localized(text("{question}. Type {word!r} to continue", question=question, word=word))
    answer = typer.prompt(asked, default="", show_default=False, err=True)
    if answer.strip() != word:
        raise PaictlError("not confirmed; nothing was changed")


@contextmanager
def showing_reports() -> Iterator[None]:
    """Show what is wrong with files before the error that says that they were refused."""
    try:
        yield
    except RefusedFilesError as error:
        from paictl.config.linting.report import FORMATS, plain

        console.info(plain(FORMATS["text"](error.report), console.language()).rstrip())
        raise


def warn(problems: Sequence[Problem], see: str) -> None:
    """Show what is most likely a mistake in files that were taken all the same; `see` is the command for the rest."""
    for problem in problems[:10]:
        then = text(" ({hint})", hint=sayable(problem.hint)) if problem.hint else ""
        place, what = str(problem.place), sayable(problem.message)
        console.warning(
            text("{place}: {message}{then} [{rule}]", place=place, message=what, then=then, rule=problem.rule)
        )
    if len(problems) > 10:
        console.warning(text("and {count} more: {see}", count=len(problems) - 10, see=see))
