"""Where paictl keeps what it remembers between commands, by the rules of XDG, and who uses it here."""

from __future__ import annotations

import getpass
import os
from pathlib import Path


def state_folder() -> Path:
    """This shell's state: PAICTL_STATE (the shell of a lab has its own), else `paictl` in XDG's state folder."""
    if chosen := os.environ.get("PAICTL_STATE"):
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state"
    return Path(base) / "paictl"


def log_file() -> Path:
    """Where commands that fail leave a record: one file for the user, whatever cluster or lab a shell is about."""
    base = os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state"
    return Path(base) / "paictl" / "logs" / "paictl.log"


def runs_folder() -> Path:
    """Where runs are kept: of deployments, and of services on real clusters (`paictl.plan.folder`)."""
    return state_folder() / "runs"


def config_folder() -> Path:
    """What the user has set: `paictl` in XDG's folder of configurations (`~/.config`)."""
    base = os.environ.get("XDG_CONFIG_HOME") or _home() / ".config"
    return Path(base) / "paictl"


def cache_folder() -> Path:
    """What can be computed again: `paictl` in XDG's folder of caches (`~/.cache`)."""
    base = os.environ.get("XDG_CACHE_HOME") or _home() / ".cache"
    return Path(base) / "paictl"


def _home() -> Path:
    """The user's home, ``/`` where there is none (as docker has it for users whom no file knows)."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def user_here() -> str:
    """The user's name on this machine; `paictl` where the system has none, as in a container without accounts."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "paictl"
