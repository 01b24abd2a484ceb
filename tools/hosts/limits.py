"""Limits of the whole machine that several systems on it run into: raised while there are labs, then set back."""

from __future__ import annotations

from pathlib import Path

from tools.hosts.places import hosts

_WANTED = {"fs/inotify/max_user_instances": 4096, "fs/inotify/max_user_watches": 524288}
"""Each systemd, containerd and kubelet takes several, all as root; 128 are enough for three hosts only."""

_SETTINGS = Path("/proc/sys")


def raise_limits(settings: Path = _SETTINGS) -> None:
    """Where a limit is lower than wanted; what it was is kept."""
    for name, wanted in _WANTED.items():
        path = settings / name
        found = int(path.read_text())
        if found < wanted:
            _was(name).parent.mkdir(parents=True, exist_ok=True)
            _was(name).write_text(f"{found}\n")
            path.write_text(f"{wanted}\n")


def restore_limits(settings: Path = _SETTINGS) -> None:
    """End `raise_limits`, unless somebody has set another value since."""
    for name, wanted in _WANTED.items():
        if _was(name).exists():
            path = settings / name
            if int(path.read_text()) == wanted:
                path.write_text(_was(name).read_text())
            _was(name).unlink()


def _was(name: str) -> Path:
    return hosts() / "limits" / name.replace("/", ".")
