"""`paictl job clone`: a job as a file again, to edit and submit it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
import yaml

from paictl.cli import console, names
from paictl.cli.clusters import StateOption, me, open_cluster
from paictl.cli.command import App
from paictl.cli.console import Output, write_file
from paictl.cli.job.options import JobName, UserOption, find
from paictl.cli.job.submit import submit
from paictl.cli.settings import settings
from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.operate.cloning import JobCopy
from paictl.operate.cloning import clone as cloned

app = App()


@app.command(
    epilog="""
    paictl job clone train > again.yaml
    paictl job clone train --edit
    paictl job clone train --submit --priority oppo
"""
)
def clone(
    job: JobName,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the new job (default: the next free number).")
    ] = None,
    vc: Annotated[
        str | None, typer.Option("--vc", autocompletion=names.vcs, help="Virtual cluster, instead of the job's.")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", autocompletion=names.priorities, help="oppo, test, prod or crit.")
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Open it in $EDITOR, then submit it.")] = False,
    again: Annotated[bool, typer.Option("--submit", help="Submit it without changes.")] = False,
    user: UserOption = None,
    state: StateOption = None,
) -> None:
    """Print a submitted job as a job file, under a free name; or submit it again."""
    cluster, whose = open_cluster(state), user or me()
    copy = cloned(cluster, find(cluster, job), whose, name).instead(vc, priority)

    def send(path: str) -> None:
        submit(
            files=[path],
            listed=None,
            vc=None,
            priority=None,
            duration=None,
            repeat=1,
            name=None,
            tags=None,
            template=None,
            settings_=None,
            user=whose,
            output=Output.TABLE,
            state=state,
        )

    if edit:
        _edited(copy, send)
    elif again:
        _submitted(copy, send)
    else:
        _show(copy)


def _text(copy: JobCopy) -> str:
    written: str = yaml.safe_dump(dict(copy.data), sort_keys=False, allow_unicode=True, width=1000)
    return written


def _show(copy: JobCopy) -> None:
    """Write the file to stdout, and what is missing in it to stderr."""
    if copy.masked:
        fields = listed(copy.masked)
        console.warning(text("fill in the values that the cluster does not return: {fields}", fields=fields))
    write_file(_text(copy).rstrip("\n"))


def _require_values(copy: JobCopy) -> None:
    """Raise `PaictlError` if values are missing in a job."""
    if copy.masked:
        raise PaictlError(
            text("the cluster does not return the values of {fields}", fields=listed(copy.masked)),
            hint=text("paictl job clone JOB --edit, and fill them in"),
        )


def _submitted(copy: JobCopy, submit: Callable[[str], None]) -> None:
    """Submit the file unchanged; raises `PaictlError` if values are missing in it."""
    _require_values(copy)
    path = _written(copy)
    try:
        submit(str(path))
    finally:
        path.unlink()


def _written(copy: JobCopy) -> Path:
    """The file, readable by its owner only, as it may contain secrets."""
    handle, name = tempfile.mkstemp(prefix=f"{copy.data.get('name', 'job')}-", suffix=".yaml")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(_text(copy))
    return Path(name)


def _edited(copy: JobCopy, submit: Callable[[str], None]) -> None:
    """Let the user edit the file, then submit it; a file that is rejected is kept.

    Nothing is submitted if the editor fails, or if values are missing and the file was not changed.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    if not editor:
        raise PaictlError(text("no editor is set"), hint=text("export EDITOR=vim, or: paictl job clone JOB > FILE"))
    if not settings.may_ask:
        raise PaictlError(text("an editor needs a terminal"), hint=text("paictl job clone JOB > FILE"))
    path = _written(copy)
    try:
        code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode  # noqa: S603 - the user's own
    except OSError as error:
        path.unlink()
        raise PaictlError(text("the editor does not start: {error}", error=str(error))) from None
    if code:
        path.unlink()
        raise PaictlError(text("the editor ended with exit code {code}; nothing was submitted", code=code))
    if copy.masked and path.read_text(encoding="utf-8") == _text(copy):
        path.unlink()
        _require_values(copy)
    try:
        submit(str(path))
    except PaictlError:
        console.info(text("your file is kept: {file}", file=str(path)))
        raise
    path.unlink()
