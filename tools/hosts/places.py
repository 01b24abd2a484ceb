"""Folders outside the tree, and the versions of what runs on the hosts."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_KEPT_DAYS = 7
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

    What stands beside it and was not asked for in a week is forgotten.

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
            old = time.time() - _KEPT_DAYS * 86400
            for beside in folder.parent.glob("*.lock"):
                if beside.stat().st_mtime < old:
                    _forget(beside.with_suffix(""))
                    beside.unlink()
        os.utime(lock.fileno())
    return folder


def _forget(folder: Path) -> None:
    if folder.is_dir():
        shutil.rmtree(folder)
