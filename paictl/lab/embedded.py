"""The kind of cluster that labs have: an embedded one of their own, in the lab's folder.

The seam. Everything else in this package knows a cluster through `paictl.cluster.interface` only, which
`tests/test_architecture.py` keeps so. Labs on clusters of another kind need another module with these functions, and a
workspace that chooses between them; where `replayed_events` has nothing to replay, reports can be checked by their
digest only.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.present import parse_speed, plan_beginning
from paictl.cluster.embedded.store import FILE as STORE
from paictl.cluster.embedded.store import USERS_FILE, Store
from paictl.cluster.interface import Cluster, Event
from paictl.lab.manifest import Lab
from paictl.lab.messages import LabError
from paictl.units import Millis, from_unix

if TYPE_CHECKING:
    from paictl.lab.initial import Beginning

BEGINNING: Final = datetime(2026, 1, 5, 9, 0)
"""When every lab begins, so that what the texts show is what a student sees."""

ORIGIN: Final = from_unix(0)
"""From when events are dated that are told without their cluster, as in a report."""

Log = list[tuple[Millis, Mapping[str, Any]]]
"""(instant, command) of everything that changed a cluster."""


def bring_up(folder: Path, lab: Lab) -> Cluster:
    """Make a lab's cluster: its services run, and its clock is paused until it is ticked."""
    from paictl.lab.initial import beginning_of  # late: few commands begin a lab

    start, begun_at = beginning_of(lab), BEGINNING.timestamp()
    first, then = commands.bring_up(f"lab{lab.number}", start.services, start.machines, start.files)
    return EmbeddedCluster.up(folder, first, then, clock=(0.0, False), wall=lambda: begun_at)


def bring_up_class(folder: Path, start: Beginning, speed: str | None) -> Cluster:
    """Make the cluster of a class, whose time passes at a `speed` (``60``, ``max``), as on the wall by default."""
    first, then = commands.bring_up("class", start.services, start.machines, start.files)
    return EmbeddedCluster.up(folder, first, then, clock=parse_speed(speed) if speed else None)


def prepare(folder: Path) -> None:
    """Let the cluster that a student brings up in a folder begin as every lab does: with its clock paused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plan_beginning(folder, BEGINNING.timestamp())


def is_up(folder: Path) -> bool:
    """Whether a cluster lives in a lab's folder."""
    return Store.exists(folder)


def copy_cluster(folder: Path, target: Path) -> None:
    """Copy the cluster of one folder over that of another, as it is at this instant; other commands may be at work.

    Its users come along: who goes back to a step would find a user that the step is to make.
    """
    for name in (STORE, USERS_FILE):
        if not (folder / name).is_file():
            (target / name).unlink(missing_ok=True)
            continue
        with closing(sqlite3.connect(folder / name)) as source, closing(sqlite3.connect(target / name)) as copy:
            source.backup(copy)
        (target / name).chmod(0o600)


def remove_cluster(folder: Path) -> None:
    """Forget the cluster in a folder, if there is one."""
    for name in (*(f"{STORE}{suffix}" for suffix in ("", "-wal", "-shm")), USERS_FILE):
        (folder / name).unlink(missing_ok=True)


def open_cluster(folder: Path) -> Cluster:
    """The cluster of a lab; raises `LabError` that leads on if it is not up."""
    return _opened(folder)


def log_of(folder: Path) -> Log:
    """The command log of a lab's cluster, for the report."""
    return _opened(folder).log()


def replayed_events(log: Log, epoch: Millis) -> list[Event]:
    """All events that a command log makes, computed anew and dated from `ORIGIN`.

    `epoch` is the Unix time at which the cluster came up; the months of budgets depend on it.
    """
    return [happened.event(ORIGIN) for happened in commands.replay(log, epoch).events]


def _opened(folder: Path) -> EmbeddedCluster:
    if not Store.exists(folder):
        raise LabError("cluster-gone", where=str(folder), lab=folder.name[:2])
    return EmbeddedCluster.at(folder)
