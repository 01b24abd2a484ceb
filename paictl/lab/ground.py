"""The ground a lab stands on: its own folder, and the cluster that belongs to it.

A lab's folder is a state folder of paictl (`PAICTL_STATE` may name it) that holds, beside the cluster, the mark that
makes it a lab's, the commands that were typed, and the files on which the student works.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paictl.cluster.interface import Cluster
from paictl.lab import embedded
from paictl.lab.manifest import Lab

MARK: Final = "lab.json"
FILES: Final = "files"
LABS: Final = "labs"


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
        return embedded.open_cluster(self.folder)

    def log(self) -> embedded.Log:
        """(instant, command) of everything that changed the cluster, for the report."""
        return embedded.log_of(self.folder)

    def start(self, lab: Lab, language: str) -> None:
        """Bring the lab's cluster up and lay out the student's files."""
        cluster = embedded.bring_up(self.folder, lab)
        self.files.mkdir(exist_ok=True)
        for path in lab.files():
            shutil.copyfile(path, self.files / path.name)
        mark = {"lab": lab.id, "language": language, "events": len(cluster.events())}
        (self.folder / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")

    def remove(self) -> None:
        """Forget the cluster, what was typed and the student's files."""
        if self.folder.is_dir():
            shutil.rmtree(self.folder)


def is_lab(folder: Path) -> bool:
    """Whether a state folder is a lab's."""
    return (folder / MARK).is_file()


def labs_folder() -> Path:
    """Where the labs of this user live: beside the user's own cluster, or where the present lab stands."""
    folder = embedded.state_folder()
    return folder.parent if is_lab(folder) else folder / LABS


def present_lab() -> Ground | None:
    """The lab that this shell works in (`PAICTL_STATE` names its folder), or None."""
    folder = embedded.state_folder()
    return Ground(folder) if is_lab(folder) else None
