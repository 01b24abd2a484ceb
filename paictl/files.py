"""Writing files: one in a single step, or several that belong together, all of them or none; and locking them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from paictl import i18n
from paictl.errors import PaictlError


def write_together(folder: Path, texts: Mapping[str, str], *, force: bool = False, mode: int = 0o644) -> list[Path]:
    """Write texts by file name (or path below the folder), making folders that are not there; the paths written.

    Everything is written under temporary names first and renamed at the end; if a rename fails, the files that were
    there before are put back. A file that holds its text already is in nobody's way. Raises `PaictlError` if another
    one is there and not `force`, or nothing can be written.
    """
    targets = {name: folder / name for name in texts}
    try:
        there = [name for name, path in targets.items() if _differs(path, texts[name])]
    except OSError as error:  # a name too long, a folder that may not be entered
        raise PaictlError(
            i18n.text("cannot be read: {reason}", reason=error.strerror), where=str(error.filename or folder)
        ) from None
    if there and not force:
        raise PaictlError(
            i18n.counted("{names} already exists", "{names} already exist", len(there), names=" and ".join(there)),
            where=str(folder),
            hint="replace with --force",
        )
    temporary: dict[str, Path] = {}
    try:
        for name, text in texts.items():
            targets[name].parent.mkdir(parents=True, exist_ok=True)
            temporary[name] = _write_beside(targets[name], text.encode("utf-8"), mode)
        _rename_all(temporary, targets)
    except OSError as error:
        where = str(error.filename or folder)
        raise PaictlError(
            i18n.text("cannot write: {reason}", reason=error.strerror), where=where, hint="nothing was changed"
        ) from None
    finally:
        for path in temporary.values():
            path.unlink(missing_ok=True)
    return list(targets.values())


def _differs(path: Path, text: str) -> bool:
    """Whether something else than the text is in the way."""
    if path.is_symlink() or not path.is_file():
        return path.exists() or path.is_symlink()
    return path.read_bytes() != text.encode("utf-8")


def replace_file(path: Path, data: bytes) -> None:
    """Put other bytes in a file in one step, so that no reader ever sees half of them; raises `OSError`.

    Its owner and mode stay. A file that has other names too (hard links), or an owner that cannot be given to a new
    one, is written in its place instead: one step less safe, but still the same file.
    """
    status = path.stat()
    name = _write_beside(path, data, status.st_mode & 0o7777)
    try:
        if status.st_nlink > 1 or not _given_to(name, status.st_uid, status.st_gid):
            path.write_bytes(data)
            name.unlink()
        else:
            name.replace(path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    if not hasattr(os, "O_DIRECTORY"):
        return  # Windows opens no folders
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _given_to(path: Path, user: int, group: int) -> bool:
    """Whether a file has an owner, now or already."""
    status = path.stat()
    if (status.st_uid, status.st_gid) == (user, group):
        return True
    try:
        os.chown(path, user, group)
        path.chmod(status.st_mode & 0o7777)  # a change of owner takes some bits away
    except OSError:
        return False
    return True


def _write_beside(target: Path, data: bytes, mode: int) -> Path:
    """Write a temporary file in the folder of another one."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".paictl")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _rename_all(temporary: Mapping[str, Path], targets: Mapping[str, Path]) -> None:
    kept: dict[Path, Path] = {}
    made: list[Path] = []
    try:
        for name, path in temporary.items():
            target = targets[name]
            if target.is_file() or target.is_symlink():
                kept[target] = path.with_suffix(".old")
                target.replace(kept[target])
            path.replace(target)
            made.append(target)
    except BaseException:
        for target in made:
            target.unlink(missing_ok=True)
        for target, old in kept.items():
            old.replace(target)
        raise
    for old in kept.values():
        old.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that ask for this lock waiting; its file is made and stays. Raises `OSError`."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)


def lock(handle: int | IO[str], *, wait: bool = True) -> None:
    """Lock an open file until it is closed; without `wait` raises `BlockingIOError` if another process has it."""
    import fcntl  # late: Windows has none, and what locks nothing works there

    fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
