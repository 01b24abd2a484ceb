"""The ground a lab stands on: its own folder with its own embedded cluster.

The only module here that knows which kind of cluster it is. A lab's folder is a state folder of paictl (`PAICTL_STATE`
may name it) that holds, beside the cluster, the mark that makes it a lab's, the commands that were typed, and the files
on which the student works.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.store import Store, default_folder
from paictl.cluster.interface import Cluster, Event
from paictl.cluster.machines import machines_in
from paictl.cluster.presets import DEFAULT, LAYOUT, SERVICES, preset_files
from paictl.config.fileset import seal_files
from paictl.errors import PaictlError
from paictl.lab.manifest import Lab
from paictl.service.catalogue import load_catalogue
from paictl.sim.loop import Millis

MARK: Final = "lab.json"
FILES: Final = "files"
LABS: Final = "labs"

BEGINNING: Final = datetime(2026, 1, 5, 9, 0)
"""When every lab begins, so that what the texts show is what a student sees."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A lab's folder; the cluster in it may be up or not."""

    folder: Path

    @property
    def files(self) -> Path:
        """Where the student works."""
        return self.folder / FILES

    @property
    def lab_id(self) -> str:
        """Id of the lab, as the mark says."""
        return str(self._mark().get("lab", ""))

    @property
    def language(self) -> str:
        """The language in which it was started."""
        return str(self._mark().get("language", "en"))

    @property
    def first_event(self) -> int:
        """Number of the last event before the student began."""
        return int(self._mark().get("events", 0))

    @property
    def started(self) -> bool:
        """Whether the lab was started and not reset since."""
        return is_lab(self.folder)

    def _mark(self) -> dict[str, Any]:
        path = self.folder / MARK
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return found

    def cluster(self) -> Cluster:
        """The lab's cluster; raises `PaictlError` that leads on if it is not up."""
        return self._embedded()

    def _embedded(self) -> EmbeddedCluster:
        if not Store.exists(self.folder):
            raise PaictlError(
                "the lab's cluster is not up", where=str(self.folder),
                hint="begin the lab again: paictl lab reset, then paictl lab start",
            )  # fmt: skip
        return EmbeddedCluster.at(self.folder)

    def log(self) -> list[tuple[Millis, dict[str, Any]]]:
        """(instant, command) of everything that changed the cluster, for the report."""
        return self._embedded().log()

    def start(self, lab: Lab, language: str) -> None:
        """Bring the lab's cluster up and lay out the student's files."""
        files = _configuration(lab)
        services = tuple(load_catalogue().services)
        first, *then = commands.bring_up(f"lab{lab.number}", services, machines_in(files), files)
        beginning = BEGINNING.timestamp()
        cluster = EmbeddedCluster.up(self.folder, first, then, clock=(0.0, False), wall=lambda: beginning)
        self.files.mkdir(exist_ok=True)
        for path in lab.files():
            shutil.copyfile(path, self.files / path.name)
        mark = {"lab": lab.id, "language": language, "events": len(cluster.events())}
        (self.folder / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")

    def remove(self) -> None:
        """Forget the cluster, what was typed and the student's files."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)


def replayed_events(log: list[tuple[Millis, dict[str, Any]]]) -> list[Event]:
    """All events that a command log makes, computed anew."""
    return commands.replay(log).events


def is_lab(folder: Path) -> bool:
    """Whether a state folder is a lab's."""
    return (folder / MARK).is_file()


def labs_folder() -> Path:
    """Where the labs of this user live: beside the user's own cluster, or where the present lab stands."""
    folder = default_folder()
    return folder.parent if is_lab(folder) else folder / LABS


def present_lab() -> Ground | None:
    """The lab that this shell works in (`PAICTL_STATE` names its folder), or None."""
    folder = default_folder()
    return Ground(folder) if is_lab(folder) else None


def _configuration(lab: Lab) -> Mapping[str, str]:
    """The configuration with which the lab's cluster begins, secrets sealed."""
    if lab.layout is None:
        return _sealed_preset(lab.preset or DEFAULT)
    files = {LAYOUT: (lab.folder / lab.layout).read_text(encoding="utf-8")}
    services = lab.folder / SERVICES
    if services.is_file():
        files[SERVICES] = services.read_text(encoding="utf-8")
    return seal_files(files)


@cache
def _sealed_preset(name: str) -> Mapping[str, str]:
    """A preset with its secrets sealed: once in a process, because a seal takes a quarter of a second on purpose."""
    return MappingProxyType(seal_files(preset_files(name)))
