"""What the commands that talk to a cluster share: which one, its time, its events, asking before harm is done."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.console import Output, said, write_data, write_table
from paictl.cli.options import OutputOption as OutputOption
from paictl.cli.settings import settings
from paictl.cluster.eventtext import detail
from paictl.cluster.interface import Cluster, Identity, UnreachableError, UnsupportedError
from paictl.cluster.registry import LOCAL
from paictl.cluster.targets import bound_to, chosen_name, find_target, open_target
from paictl.errors import PaictlError
from paictl.i18n import sayable, text
from paictl.lab.folders import lab_of_shell, labs_folder
from paictl.lab.language import language_of
from paictl.lab.messages import say
from paictl.operate import RefusedFilesError
from paictl.operate.jobs import find_job
from paictl.places import state_folder
from paictl.units import rfc3339

if TYPE_CHECKING:
    from paictl.config.reading.problem import Problem
    from paictl.lab.site import LabSite


StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="Folder of the embedded cluster (default: PAICTL_STATE, else XDG state)."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ClusterId = Annotated[
    str | None,
    typer.Option("--cluster-id", metavar="ID", help="Confirm the target cluster by its id and skip the prompt."),
]


def open_cluster(state: Path | None) -> Cluster:
    """The cluster that a command is about."""
    name = chosen_name(settings.cluster, state_given=settings.state_given)
    try:
        return open_target(name, folder=state)
    except UnreachableError as error:
        error.hint = (name == LOCAL and state is None and _way_to_lab()) or error.hint
        raise


def local_only(verb: str) -> None:
    """Raise `UnsupportedError` if a command that only a cluster on this machine has is asked of another one."""
    name = chosen_name(settings.cluster, state_given=settings.state_given)
    if name != LOCAL:
        raise UnsupportedError(
            text("paictl cluster {verb} works only on the local cluster; {name} is remote", verb=verb, name=name),
            hint=text(
                "use paictl cluster {verb} --cluster {local}; for what other clusters support: paictl cluster status",
                verb=verb,
                local=LOCAL,
            ),
        )


def _way_to_lab() -> str:
    """The next step for a user in a lab whose command does not reach its cluster; empty for other users."""
    from paictl.lab.fitting import session_of  # late: only this refusal needs it

    try:
        session = session_of(None)
    except PaictlError:
        return ""
    number, lang = session.lab.number, language_of(labs_folder(), lab=session.lab.id)
    if lab_of_shell():
        return say("way.anew" if session.workspace.started else "way.begin", lang, lab=number)
    return say("way.elsewhere", lang, lab=number) if session.workspace.started else ""


def lab_site() -> LabSite | None:
    """Where the lab of this shell runs, if a command is about a cluster that was added and lent to the lab."""
    if bound_to(state_folder()) == LOCAL:
        return None
    from paictl.lab.workspace import present_workspace  # late: only such a lab needs it

    workspace = present_workspace()
    site = workspace.site if workspace is not None else None
    named = chosen_name(settings.cluster, state_given=settings.state_given)
    return site if site is not None and named == site.cluster else None


def me() -> str:
    """The user's name, in a lab at a site the lab's own."""
    site = lab_site()
    return user_here() if site is None else site.user


def user_here() -> str:
    """The user's name on this machine; `paictl` where the system has none, as in a container without accounts."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "paictl"


def noted(message: str) -> str:
    """The message of a version, with the mark of the lab that pushes it: `lab reset` gives back the one before."""
    site = lab_site()
    return message if site is None else f"{site.mark}: {message}"


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


def clock_text(at: datetime | None) -> str:
    """An instant as date and time of this machine; `-` for none."""
    return "-" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def confirm(question: str, word: str, *, yes: bool) -> None:
    """Ask for a word before a destructive command; raises `PaictlError` without a terminal or for another word."""
    if yes:
        return
    if not settings.may_ask:
        raise PaictlError(text("{question}: an answer is required", question=question), hint="pass --yes to confirm")
    asked = console.said(text("{question}. Type {word!r} to continue", question=question, word=word))
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


def plain(value: Any) -> Any:
    """A result as values of JSON and YAML: dataclasses by field, instants as in RFC 3339, enumerations by value."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def show_events(cluster: Cluster, subject: str | None, output: Output) -> None:
    """Print the events of one object or of all; a job may be named as in `job show`, without its user."""
    kind, _, name = (subject or "").partition("/")
    if kind == "job" and name and "~" not in name:
        subject = f"job/{find_job(cluster, name, me()).key}"
    events = cluster.events(subject)
    if output is not Output.TABLE:
        write_data([plain(event) for event in events], output)
        return
    rows = [(clock_text(event.at), said(event.kind), event.subject, said(detail(event))) for event in events]
    columns = ("TIME", "WHAT", "OF", "DETAIL")
    if subject is not None:  # it stands on the command line
        columns, rows = ("TIME", "WHAT", "DETAIL"), [(time, kind, message) for time, kind, _, message in rows]  # type: ignore[assignment,misc]
    write_table(columns, rows)
