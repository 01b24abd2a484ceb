"""Folders outside the tree, and the versions of what runs on the hosts."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_KEPT = 5
"""Folders of a kind that stay, newest first: each change of a program makes another, of a gigabyte and more."""
_IN_USE = 3 * 3600
"""Seconds for which a folder may be in use after it was asked for."""
_VERSIONS = Path(__file__).parents[1] / "kube" / "versions.env"


def cache() -> Path:
    """What costs minutes to make and outlives a test run."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "paictl"


def hosts() -> Path:
    """The part of the cache for test hosts: base roots, unpacked packages, artifacts, and running labs."""
    return cache() / "hosts"


def versions() -> Mapping[str, str]:
    """``KUBE_VERSION`` and so on, from versions.env; the environment wins, as in build.sh."""
    lines = (line for line in _VERSIONS.read_text().splitlines() if line and not line.startswith("#"))
    read = dict(line.split("=", 1) for line in lines)
    return {name: os.environ.get(name, value) for name, value in read.items()}


def key_of(parts: Iterable[str | bytes]) -> str:
    """A short name for a content: what is made of other parts has another name."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def kept(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder of the cache named after its content: made once, whoever asks first; the others wait.

    What stands beside it is forgotten but for what was asked for last.

    Args:
        folder: where it belongs.
        make: fills an empty folder; if it fails, nothing is kept.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            part = folder.with_suffix(".part")
            _forget(part)
            part.mkdir()
            make(part)
            part.rename(folder)
            asked = sorted(((_asked(one), one) for one in folder.parent.glob("*.lock")), reverse=True)
            for at, beside in asked[_KEPT:]:
                if at < time.time() - _IN_USE:
                    _forget(beside.with_suffix(""))
                    beside.unlink(missing_ok=True)
        os.utime(lock.fileno())
    return folder


def _asked(lock: Path) -> float:
    """When a folder was last asked for: never, where another process has just forgotten it."""
    try:
        return lock.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _forget(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)
