"""The log of failed commands, and the reports of internal errors.

A record is a line with the time, the exit code and the command line; below it, indented, what was said and where it
came from. Passwords are never on a command line of paictl; what looks like one there or in a message is starred out.
Commands that work write nothing, so that a dry run leaves no trace.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from paictl import __version__
from paictl.config.secrets.redaction import redacted
from paictl.errors import PaictlError
from paictl.places import log_file, state_folder

SIZE: Final = 1 << 20
"""Bytes after which a new file is started."""
LOGS_KEPT: Final = 3
"""So many full files stay, ``paictl.log.1`` the newest of them."""
_SECRET: Final = re.compile(r"--?([\w-]*-)?(password|passwd|pass|secret|token)", re.IGNORECASE)
"""An option whose value is secret."""


def note_failure(words: Sequence[str], code: int, error: PaictlError, seconds: float) -> Path | None:
    """Add a record to the log file, which only its owner reads; None where that cannot be done."""
    path = log_file()
    record = "".join(f"{line}\n" for line in _record(words, code, error, seconds)).encode(errors="replace")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size + len(record) > SIZE:
            _rotate(path)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
            file.write(record)  # one write, so that commands that fail at the same time do not mix
    except OSError:
        return None
    return path


def _rotate(path: Path) -> None:
    """Number the full files anew, and drop the oldest."""
    for number in range(LOGS_KEPT, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        newer = path.with_name(f"{path.name}.{number - 1}") if number > 1 else path
        if newer.exists():
            newer.replace(older)


def _record(words: Sequence[str], code: int, error: PaictlError, seconds: float) -> Iterator[str]:
    line = redacted(f"paictl {shlex.join(_ours(words))}".replace("\n", "\\n"))
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    yield f"{now} [{os.getpid()}] {__version__} exit {code} after {seconds:.2f} s: {line}"
    yield from (f"    error: {redacted(line)}" for line in str(error).splitlines())
    if error.hint:
        yield from (f"    hint: {redacted(line)}" for line in error.hint.splitlines())
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        last = frames[-1]
        yield f"    raised in {_short(last.filename)}:{last.lineno} ({last.name})"
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield f"    because of {redacted(f'{type(cause).__name__}: {cause}'.replace(chr(10), ' '))}"
        cause = cause.__cause__ or cause.__context__


def _ours(words: Sequence[str]) -> list[str]:
    """A command line without what is run elsewhere, as by ``job exec -- COMMAND``: that may hold anything.

    No option of ours takes a secret, but somebody may try one that other programs have, ``--password hunter2``.
    """
    own = [*words[: list(words).index("--")], "--", "..."] if "--" in words else list(words)
    for place, word in enumerate(own):
        name, equals, _ = word.partition("=")
        if _SECRET.fullmatch(name):
            if equals:
                own[place] = f"{name}=***"
            elif place + 1 < len(own):
                own[place + 1] = "***"
    return own


def _short(filename: str) -> str:
    """A source file's path from its package on: the report must not show where paictl is installed."""
    _, package, rest = filename.rpartition(f"{os.sep}paictl{os.sep}")
    return f"paictl/{rest}" if package else os.path.basename(filename)  # noqa: PTH119 - no path of ours


REPORTS_KEPT: Final = 10
"""So many reports stay; the oldest go first."""


def write_crash(error: Exception, words: Sequence[str]) -> Path | None:
    """Write the traceback and the command line to a file that only its owner reads; None where that cannot be done."""
    folder = state_folder() / "crashes"
    now = datetime.now(UTC)
    path = folder / f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}.txt"
    system = f"paictl {__version__}, Python {platform.python_version()}, {platform.platform()}"
    trace = "".join(traceback.format_exception(error))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{now.isoformat(timespec='seconds')}\n{system}\npaictl {shlex.join(words)}\n\n{trace}")
        for old in sorted(folder.glob("*.txt"))[:-REPORTS_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path
