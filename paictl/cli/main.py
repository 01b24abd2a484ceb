"""The entry point: takes charge of Ctrl-C and of the streams, runs the command line, and lets the lab learn of it."""

from __future__ import annotations

from paictl.cli import interrupts

interrupts.install()  # before anything else is loaded: what follows takes most of the time of a short command

# ruff: noqa: E402
import gc

gc.set_threshold(100_000, 20)  # what is imported stays: to walk it again and again costs a tenth of a short command

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from paictl.cli import console
from paictl.cli.command import without_globals
from paictl.cli.run import attempt
from paictl.errors import ExitCode

_NOT_NOTED = frozenset({"lab", "help", "version", "completion"})
_SHELL = "PAICTL_LAB_SHELL"
"""The same as `paictl.lab.folders.SHELL`, written here so that other shells load nothing of labs.

After a reset only this variable shows that a shell is a lab's.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run paictl and exit; the console script of the package."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    _prepare(words)
    code = _flushed(run(words))
    interrupts.leave()
    gc.freeze()  # nothing is left to be found: to look for it at the end, too, takes an eighth of a short command
    sys.exit(int(code))


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are said on stderr.

    Where `PAICTL_STATE` names the folder of a lab, the lab learns what was typed and how it ended.
    """
    noted = _note_taker(arguments)
    in_lab = noted is not None or os.environ.get(_SHELL)
    code, error = attempt(arguments, _language_of_lab() if in_lab else None)
    if noted is not None:
        noted(arguments, code, error)
    return code


def _note_taker(arguments: Sequence[str]) -> Callable[[Sequence[str], int, Any], None] | None:
    """What tells the lab of this shell; loaded before the command works, so that Ctrl-C finds it whole.

    The lab commands know what they do, and to ask for help or the version tells nothing about a student's work.
    """
    if not _NOT_NOTED.isdisjoint(without_globals(arguments)[:1]) or {"-h", "--help"} & set(arguments):
        return None
    folder = os.environ.get("PAICTL_STATE")
    if not folder or not os.path.exists(os.path.join(folder, "lab.json")):  # noqa: PTH110, PTH118 - before pathlib
        return None
    from paictl.cli.lab.hook import after_command

    return after_command


def _language_of_lab() -> str:
    """The language of the student in whose lab this is."""
    from paictl.cli.lab.hook import language

    return language()


def _flushed(code: int) -> int:
    """The exit code once the output has left; what is still buffered may not find its way."""
    try:
        sys.stdout.flush()
    except OSError as error:
        console.forget_output()
        if not isinstance(error, BrokenPipeError):
            console.error(console.unwritable(error))
            return ExitCode.USAGE
        return code if code else 141
    return code


def _prepare(words: Sequence[str]) -> None:
    """Settle what must hold before anything is written: help comes before the options are taken."""
    if "--no-color" in words:
        os.environ["NO_COLOR"] = "1"
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process: output has nowhere to go
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for the whole run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character gets an escape, not a traceback
            stream.reconfigure(errors="backslashreplace")
