"""Commands as root, with errors that say what failed and what it said."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


class LabError(Exception):
    """A test host could not be made or changed; the message is for people."""


def run(
    words: Sequence[str | Path],
    *,
    check: bool = True,
    text: str | None = None,
    seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command with its output caught; standard input is `text` or nothing.

    Raises:
        LabError: it failed (with `check`), took more than `seconds`, or is not there.
    """
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command,
            input=text or "",
            text=True,
            errors="replace",
            capture_output=True,
            timeout=seconds,
            env=None if environment is None else dict(environment),
            cwd=folder,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{_short(command)}: no end after {seconds:g} s") from error
    except FileNotFoundError as error:
        raise LabError(f"{command[0]} is not on this machine") from error
    if check and done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-8:]
        raise LabError(f"{_short(command)}: exit code {done.returncode}\n" + "\n".join(f"  {line}" for line in said))
    return done


def wait_until(ready: Callable[[], bool], what: str, *, seconds: float = 180.0, pause: float = 0.05) -> None:
    """Ask again and again until it is so.

    Raises:
        LabError: it is not so after `seconds`.
    """
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise LabError(f"{what}: not after {seconds:g} s")
        time.sleep(pause)


def _short(command: Sequence[str]) -> str:
    line = " ".join(command)
    return line if len(line) <= 200 else line[:197] + "..."
