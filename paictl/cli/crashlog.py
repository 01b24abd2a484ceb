"""What is kept of an internal error, so that the one who met it need not meet it again to report it."""

from __future__ import annotations

import os
import platform
import shlex
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from paictl import __version__
from paictl.places import state_folder

KEPT: Final = 10
"""So many reports stay; the oldest go first."""


def write_crash(error: Exception, words: Sequence[str]) -> Path | None:
    """Write the traceback and the command line to a file that only its owner reads; None where that cannot be done."""
    folder = state_folder() / "crashes"
    now = datetime.now(UTC)
    path = folder / f"{now:%Y%m%dT%H%M%S.%f}-{os.getpid()}.txt"
    system = f"paictl {__version__}, Python {platform.python_version()}, {platform.platform()}"
    told = "".join(traceback.format_exception(error))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{now.isoformat(timespec='seconds')}\n{system}\npaictl {shlex.join(words)}\n\n{told}")
        for old in sorted(folder.glob("*.txt"))[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path
