"""What the commands that talk to a cluster share: which one, its time, its events, who asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from paictl.cli.console import Output, local_time, localized, write_data, write_table
from paictl.cli.lab.location import lab_site, way_to_lab
from paictl.cli.options import OutputOption as OutputOption
from paictl.cli.settings import settings
from paictl.cluster.eventtext import detail
from paictl.cluster.interface import Cluster, UnreachableError, UnsupportedError
from paictl.cluster.registry import LOCAL
from paictl.cluster.targets import chosen_name, open_target
from paictl.i18n import text
from paictl.operate.jobs import find_job
from paictl.places import user_here
from paictl.units import rfc3339

StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="Folder of the embedded cluster (default: PAICTL_STATE, else XDG state)."
    ),
]


def open_cluster(state: Path | None) -> Cluster:
    """The cluster that a command is about."""
    name = chosen_name(settings.cluster, state_given=settings.state_given)
    try:
        return open_target(name, folder=state)
    except UnreachableError as error:
        error.hint = (name == LOCAL and state is None and way_to_lab()) or error.hint
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


def me() -> str:
    """The user's name, in a lab at a site the lab's own."""
    site = lab_site()
    return user_here() if site is None else site.user


def noted(message: str) -> str:
    """The message of a version, with the mark of the lab that pushes it: `lab reset` gives back the one before."""
    site = lab_site()
    return message if site is None else f"{site.mark}: {message}"


def clock_text(at: datetime | None) -> str:
    """An instant as date and time of this machine; `-` for none."""
    return "-" if at is None else local_time(at)


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
    rows = [(clock_text(event.at), localized(event.kind), event.subject, localized(detail(event))) for event in events]
    columns = ("TIME", "WHAT", "OF", "DETAIL")
    if subject is not None:  # it stands on the command line
        columns, rows = ("TIME", "WHAT", "DETAIL"), [(time, kind, message) for time, kind, _, message in rows]  # type: ignore[assignment,misc]
    write_table(columns, rows)
