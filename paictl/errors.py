"""What paictl says when it cannot go on, and the exit code that goes with it.

Every failure that a user can cause leaves the program as a `PaictlError`: one line that says what is wrong,
where, and what to do next. Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Stable exit codes of every command, listed in ``paictl --help``."""

    OK = 0
    NEGATIVE = 1
    """The command worked and its answer is "no": findings, differences, a failed check."""
    USAGE = 2
    """Wrong usage, unusable input, or an internal error: the command did not do its work."""
    PARTIAL = 3
    """Some of the objects were handled, others were not; the output says which."""
    UNREACHABLE = 4
    """A cluster, host or service did not answer."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C (128 + SIGINT)."""


class PaictlError(Exception):
    """A failure the user can act on.

    `message` says what is wrong, `where` names the place (``file:line:column``, host, object) and `hint` the
    next thing to do; each is one line without a full stop.
    """

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message
