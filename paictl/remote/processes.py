"""Processes found by a mark in their environment, and ended: workers that left the session of their parent."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def marked(mark: str) -> frozenset[int]:
    """Process ids of ours with a mark (``NAME=VALUE``) in their environment; none where there is no /proc."""
    wanted, found = mark.encode(), set()
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except OSError:
            continue  # gone, or somebody else's
    return frozenset(found)


def end_marked(mark: str, patience: float = 3.0) -> None:
    """Ask all marked processes to end, and make those end that do not within `patience` seconds."""
    deadline = time.monotonic() + patience
    _signal(mark, signal.SIGTERM)
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    while _signal(mark, signal.SIGKILL):  # again, for what they had just begun
        time.sleep(0.02)


def _signal(mark: str, number: signal.Signals) -> bool:
    found = marked(mark)
    for pid in found:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return bool(found)
