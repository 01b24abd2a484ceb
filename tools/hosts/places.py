"""Folders outside the tree, and the versions of what runs on the hosts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

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
