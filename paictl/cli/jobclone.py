"""`paictl job clone`: a job as a file again, to edit and submit it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import yaml

from paictl.cli import console
from paictl.cli.console import write_file
from paictl.cli.settings import settings
from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.operate.cloning import JobCopy
from paictl.operate.cloning import clone as clone


def _text(copy: JobCopy) -> str:
    written: str = yaml.safe_dump(dict(copy.data), sort_keys=False, allow_unicode=True, width=1000)
    return written


def show(copy: JobCopy) -> None:
    """The file on stdout; what is missing in it on stderr."""
    if copy.masked:
        fields = listed(copy.masked)
        console.warning(text("fill in the values that the cluster does not return: {fields}", fields=fields))
    write_file(_text(copy).rstrip("\n"))


def require_values(copy: JobCopy) -> None:
    """Raise `PaictlError` if a job cannot be submitted again as it is."""
    if copy.masked:
        raise PaictlError(
            text("the cluster does not return the values of {fields}", fields=listed(copy.masked)),
            hint=text("paictl job clone JOB --edit, and fill them in"),
        )


def submitted(copy: JobCopy, submit: Callable[[str], None]) -> None:
    """Submit the file as it is; raises `PaictlError` if something in it is missing."""
    require_values(copy)
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


def edited(copy: JobCopy, submit: Callable[[str], None]) -> None:
    """Let the user edit the file, then submit it; a file that was refused is kept.

    Nothing is submitted if it is left as it was and something in it is missing, or the editor fails.
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
        require_values(copy)
    try:
        submit(str(path))
    except PaictlError:
        console.info(text("your file is kept: {file}", file=str(path)))
        raise
    path.unlink()
