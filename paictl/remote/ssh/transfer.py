"""Files to and from a host through one command: checked by SHA-256, renamed into place in one step, with sudo too.

Only `sh` and coreutils are needed there, no SFTP. A link that is cut leaves nothing behind: the shell sees the end of
its input, finds another checksum and removes what it wrote.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from paictl.i18n import text
from paictl.remote.ssh.command import Ended, RemoteCommand, execute
from paictl.remote.ssh.link import Link, NotReachedError
from paictl.remote.ssh.results import CommandStatus

UNCHANGED: Final = "unchanged"
"""What an upload says of a file that is there already."""

_OTHER_SUM: Final = 65
_PUT: Final = """
umask 077
dst=$1 name=$2 mode=$3 sum=$4
[ -d "$dst" ] && dst=${dst%/}/$name
if [ -f "$dst" ]; then
  now=$(sha256sum < "$dst"); [ "${now%% *}" = "$sum" ] && { echo unchanged; exit 0; }
fi
tmp=$(mktemp -- "$(dirname -- "$dst")/.paictl.XXXXXXXX") || exit 1
trap 'rm -f -- "$tmp"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cat > "$tmp" || exit 1
now=$(sha256sum < "$tmp")
[ "${now%% *}" = "$sum" ] || exit 65
if [ -n "$mode" ]; then chmod "$mode" "$tmp"
elif [ -f "$dst" ]; then chmod --reference="$dst" "$tmp" && chown --reference="$dst" "$tmp"
else chmod 644 "$tmp"; fi || exit 1
sync "$tmp" 2>/dev/null
mv -fT -- "$tmp" "$dst"
"""
_GET: Final = 'sha256sum < "$1" >&2 && cat -- "$1"'


def upload(link: Link, source: Path, target: str, *, mode: int | None, settings: RemoteCommand) -> Ended:
    """Put a local file there as `target` (a file, or a folder that is there); its mode stays where `mode` is None.

    `stdout` is `UNCHANGED` if the file had that content already. Raises `NotReachedError`, and `OSError` for the local
    file.
    """
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        arguments = (target, source.name, "" if mode is None else f"{mode:o}", digest)
        ended = execute(link, replace(settings, line=_script(_PUT, *arguments), stdin=file))
    if ended.code == _OTHER_SUM:
        raise NotReachedError(
            CommandStatus.FAILED, text("what arrived is not what was sent"), text("nothing was changed; try again")
        )
    if ended.code:
        raise NotReachedError(CommandStatus.FAILED, _last_line(ended.stderr) or text("it could not be written"))
    return Ended(0, UNCHANGED if ended.stdout.strip() == UNCHANGED else "", "")


def download(link: Link, source: str, target: Path, *, settings: RemoteCommand) -> Ended:
    """Fetch a file from there as the local file `target`, in one step; raises `NotReachedError`, `OSError`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".paictl")
    digest = hashlib.sha256()
    try:
        with os.fdopen(handle, "wb") as file:

            def take(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            ended = execute(link, replace(settings, line=_script(_GET, source), take=take))
        if ended.code:
            raise NotReachedError(CommandStatus.FAILED, _last_line(ended.stderr) or text("it could not be read"))
        if ended.stderr.split()[:1] != [digest.hexdigest()]:
            raise NotReachedError(CommandStatus.FAILED, text("the file changed while it was read"), text("try again"))
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)
    return Ended(0, "", "")


def _script(script: str, *arguments: str) -> str:
    return " ".join(["sh", "-c", shlex.quote(script), "paictl", *map(shlex.quote, arguments)])


def _last_line(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return lines[-1].split("paictl: ")[-1] if lines else ""
