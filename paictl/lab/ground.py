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
from paictl.lab import embedded, progress
from paictl.lab.errors import LabError, writing
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
        try:
            found: Any = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            number = self.folder.name[:2]
            raise LabError(("is damaged", "已损坏"), (
                f"begin the lab again: paictl lab reset {number}, then paictl lab start {number}",
                f"重新开始实验：paictl lab reset {number}，然后 paictl lab start {number}",
            ), where=str(path))  # fmt: skip
        return found

    def require_files(self) -> Path:
        """The folder where the student works; raises `LabError` that leads on if somebody took it away."""
        if not self.files.is_dir():
            number = self.folder.name[:2]
            raise LabError(("the lab's folder is gone", "实验的文件夹不见了"), (
                f"begin the lab again: paictl lab reset {number}, then paictl lab start {number}",
                f"重新开始实验：paictl lab reset {number}，然后 paictl lab start {number}",
            ), where=str(self.files))  # fmt: skip
        return self.files

    def cluster(self) -> Cluster:
        """The lab's cluster; raises `PaictlError` that leads on if it is not up."""
        return embedded.open_cluster(self.folder)

    def log(self) -> embedded.Log:
        """(instant, command) of everything that changed the cluster, for the report."""
        return embedded.log_of(self.folder)

    def start(self, lab: Lab, language: str) -> None:
        """Bring the lab's cluster up and lay out the student's files."""
        cluster = embedded.bring_up(self.folder, lab)
        mark = {"lab": lab.id, "language": language, "events": len(cluster.events())}
        with writing(self.folder):
            self.files.mkdir(exist_ok=True)
            for path in lab.files():
                shutil.copyfile(path, self.files / path.name)
            (self.folder / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")

    def remove(self) -> None:
        """Forget the cluster, what was typed and the student's files.

        The mark goes first, so that a removal that was interrupted leaves no lab; the empty folder of the files stays,
        for a shell may stand in it.
        """
        with writing(self.folder):
            (self.folder / MARK).unlink(missing_ok=True)
            for folder in (self.files, self.folder):
                for path in folder.iterdir() if folder.is_dir() else ():
                    if path.is_symlink() or not path.is_dir():
                        path.unlink()
                    elif path != self.files:
                        shutil.rmtree(path)


def is_lab(folder: Path) -> bool:
    """Whether a state folder is a lab's."""
    return (folder / MARK).is_file()


def labs_folder() -> Path:
    """Where the labs of this user live: beside the user's own cluster, or where the present lab stands."""
    folder = embedded.state_folder()
    in_lab = is_lab(folder) or (folder.parent / progress.FILE).is_file()  # the second after a reset
    return folder.parent if in_lab else folder / LABS


def present_lab() -> Ground | None:
    """The lab that this shell works in (`PAICTL_STATE` names its folder), or None."""
    folder = embedded.state_folder()
    return Ground(folder) if is_lab(folder) else None
