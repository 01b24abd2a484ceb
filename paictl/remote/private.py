"""Folders and processes that must not outlive a run: secrets, sockets, raw events, workers that left their session.

They lie in memory where the system offers that, and each is locked while its process lives: whoever makes one removes
those that nobody holds any more, so that nothing stays behind for long after `kill -9` either.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from paictl.errors import PaictlError
from paictl.files import lock, locked
from paictl.i18n import text

MARK: Final = "PAICTL_PRIVATE_FOLDER"
"""Environment variable by which the processes of a run are found: the path of its folder."""

_LOCK: Final = ".lock"


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder of mode 0700 with a short path (sockets need that); it is removed at the end.

    Raises `PaictlError` if another user's file or folder is in its place.
    """
    root = _root()
    clean_private_folders()
    folder = Path(tempfile.mkdtemp(prefix="", dir=root))
    with locked(folder / _LOCK):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def write_private(path: Path, content: str) -> None:
    """Write a file that only the owner can read, from its first byte on; it must not be there yet."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(content)


def clean_private_folders() -> None:
    """Remove the folders of processes that are gone, and end what they left running."""
    for folder in _root().iterdir():
        try:
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # about to be made, or removed, by another process
        try:
            lock(handle, wait=False)
            end_marked(f"{MARK}={folder}")  # workers that outlived who began them
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use
        finally:
            os.close(handle)


def _root() -> Path:
    """The folder above them, ours alone."""
    for base in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", tempfile.gettempdir()):  # noqa: S108 - checked below
        if base and os.access(base, os.W_OK | os.X_OK):
            break
    root = Path(str(base)) / f"paictl-{os.getuid()}"
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.lstat()
    except OSError as error:
        raise PaictlError(text("cannot be created: {strerror}", strerror=error.strerror), where=str(root)) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PaictlError("is not a folder that belongs to you alone", where=str(root), hint="remove it, or set TMPDIR")
    return root


_PROC: Final = Path("/proc")


def marked(mark: str) -> frozenset[int]:
    """Ids of our processes with a mark (``NAME=VALUE``) in their environment; empty without /proc."""
    entry, pids = mark.encode(), set()
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                pids.add(int(folder.name))
        except OSError:
            continue  # gone, or another user's
    return frozenset(pids)


def end_marked(mark: str, patience: float = 3.0) -> None:
    """Ask all marked processes to end, and make those end that do not within `patience` seconds."""
    deadline = time.monotonic() + patience
    _signal(mark, signal.SIGTERM)
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    while _signal(mark, signal.SIGKILL):  # again, for what they had just begun
        time.sleep(0.02)


def _signal(mark: str, number: signal.Signals) -> bool:
    pids = marked(mark)
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return bool(pids)
