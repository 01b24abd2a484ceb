"""`paictl lab visit`: what a person does in a browser, or a program by REST, for where there is neither."""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Iterator
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.lab.language import speaks
from paictl.cli.lab.witness import extension_of
from paictl.cluster.targets import find_target, open_target, stamp_of
from paictl.config.reading.source import read_bytes
from paictl.lab.messages import LabError, say
from paictl.lab.visitor import Reply, Visitor
from paictl.lab.workspace import present_workspace
from paictl.operate.users.accounts import bootstrap
from paictl.server.serving import in_background

app = App()

_SHOWN: Final = re.compile(r'(?s)<p class="error">(.*?)</p>')
_TAG: Final = re.compile(r"<[^>]*>")


class Door(StrEnum):
    """How a student reaches the server."""

    PORTAL = "portal"
    REST = "rest"


@app.command(
    epilog="""
    paictl lab visit ann job-1.yaml --password-file ann.password
    paictl lab visit bob job-2.yaml --by rest --password-file bob.password --server http://127.0.0.1:9186
    """
)
def visit(
    user: Annotated[str, typer.Argument(metavar="USER", help="User to sign in as.")],
    job: Annotated[Path, typer.Argument(metavar="JOB", help="Job file (OpenPAI protocol v2).")],
    *,
    password_file: Annotated[
        Path, typer.Option("--password-file", metavar="FILE", help="File with the user's password.")
    ],
    by: Annotated[Door, typer.Option("--by", help="As a browser at the portal, or as a program.")] = Door.PORTAL,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="Default: one that runs as long as the visit.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="Certificate that signed the server's.")
    ] = None,
) -> None:
    """Sign in at the server as a user and submit a job, request by request as a browser or a program does.

    For a terminal without a browser.
    """
    words = speaks()
    written = read_bytes(str(job)).decode("utf-8", errors="replace")
    password = read_bytes(str(password_file)).decode("utf-8", errors="replace").strip()
    with _at(server) as base:
        visitor = Visitor(base, user, password, str(ca or ""), words)
        reply = _submitted(visitor, written, by)
    if reply.status not in (202, 303):
        key = "visit-taken" if reply.status == HTTPStatus.CONFLICT else "visit-refused"
        raise LabError(key, user=user, status=reply.status, reason=_reason(reply))
    console.outcome(
        say("visited-portal" if by is Door.PORTAL else "visited-rest", words, user=user, file=job),
        user=user,
        by=by.value,
    )


def _submitted(visitor: Visitor, written: str, by: Door) -> Reply:
    if by is Door.PORTAL:
        visitor.sign_in()
        return visitor.submit_on_page(written)
    visitor.ask_for_token()
    return visitor.submit_by_rest(written)


def _reason(reply: Reply) -> str:
    """Why a job was not taken: REST says it, the portal shows it below the form."""
    if message := reply.data.get("message"):
        return str(message)
    match = _SHOWN.search(reply.text)
    return " ".join(html.unescape(_TAG.sub(" ", match[1])).split()) if match else "-"


@contextlib.contextmanager
def _at(server: str | None) -> Iterator[str]:
    """The address of the server that is named, or of one of the lab's cluster, which ends with the visit."""
    if server is not None:
        yield server
        return

    workspace = present_workspace()
    if workspace is None:
        raise LabError("visit-where")
    name, folder = workspace.cluster_name, workspace.folder
    target = find_target(name, folder)
    bootstrap(open_target(name, folder=folder))
    with in_background(
        lambda: open_target(name, folder=folder), lambda: stamp_of(target), extension_of(workspace)
    ) as base:
        yield base
