"""What Ctrl-C does at each moment of a command: one line, exit code 130, never a traceback or a half-loaded module.

While modules load nothing has been done yet, so the process ends at once. While a command works it gets Python's own
`KeyboardInterrupt`, so that transactions roll back and drafts go; but not in the middle of an import, whose modules
would stay half loaded, nor while an object is finalized, where Python swallows what is raised: then it waits until that
is over. What must be finished once begun is `held`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SAID = b"interrupted\n"
_CODE = 130
_AGAIN = 0.001
"""Seconds after which an import or a finalizer is looked at again."""

_at_work = False
_held = False
_pending = False


def install() -> None:
    """Take charge of Ctrl-C for the process; what `nohup` or a script had ignored stays ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def leave() -> None:
    """Let Ctrl-C do nothing any more: the process is about to end with an exit code of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)  # Python takes its handler away at the end, and an alarm would kill


@contextmanager
def working() -> Iterator[None]:
    """The time in which a command works and may clean up after itself."""
    global _at_work
    before, _at_work = _at_work, True
    try:
        yield
    finally:
        _at_work = before


@contextmanager
def held() -> Iterator[None]:
    """A time in which Ctrl-C waits until what was begun is finished, and then ends the process."""
    global _held
    before, _held = _held, True
    try:
        yield
    finally:
        _held = before
    if _pending and not _held:
        _end()


def _interrupt(_number: int, frame: FrameType | None) -> None:
    global _at_work, _pending
    if _held:
        _pending = True
    elif not _at_work:
        _end()
    elif _must_go_on(frame):
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    else:
        _at_work = False  # a second Ctrl-C during the cleanup ends the program
        raise KeyboardInterrupt


def _end() -> None:
    os.write(2, _SAID)
    os._exit(_CODE)


def _must_go_on(frame: FrameType | None) -> bool:
    """Whether a module is being loaded, or an object finalized, somewhere below a frame."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib") or code.co_name == "__del__":
            return True
        if frame.f_globals.get("__name__") == "weakref":
            return True
        frame = frame.f_back
    return False
