"""Where the labs of a user live, which of them a shell is about, and the copies that resets put aside."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from paictl.frozen import frozen
from paictl.lab import progress
from paictl.places import state_folder

MARK: Final = "lab.json"
LABS: Final = "labs"
SHELL: Final = "PAICTL_LAB_SHELL"
"""Environment variable that holds the id of the lab for which a shell was opened."""


def is_lab(folder: Path) -> bool:
    """Whether a state folder is a lab's."""
    return (folder / MARK).is_file()


def labs_folder() -> Path:
    """Where the labs of this user live: beside the user's own cluster, or where the lab of this shell is."""
    folder = state_folder()
    return folder.parent if _is_in_labs(folder) else folder / LABS


def _is_in_labs(folder: Path) -> bool:
    """Whether a state folder is that of a lab, though the lab itself may have been removed."""
    return is_lab(folder) or (folder.parent / progress.FILE).is_file() or os.environ.get(SHELL) == folder.name


def lab_of_shell() -> str:
    """Id of the lab that this shell is about, even if its folder is gone; empty outside all labs."""
    if chosen := os.environ.get(SHELL):
        return chosen
    folder = state_folder()
    return folder.name if _is_in_labs(folder) else ""


FOLDER: Final = "backups"
KEPT: Final = 5
"""So many backups of a lab stay."""


@frozen
class Backups:
    """The backups of a lab in a student's labs folder."""

    root: Path
    lab: str

    def all(self) -> list[Path]:
        """The folders of the backups, oldest first."""
        return sorted((self.root / FOLDER).glob(f"{self.lab}-*[0-9]"), key=_order)

    def newest(self) -> Path | None:
        """The last one that was made, None if there is none."""
        return next(reversed(self.all()), None)

    def make(self, copy: Callable[[Path], None]) -> Path:
        """Make one with `copy`, which writes to the folder that it is given; the oldest ones go."""
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        number = 1 + max((_order(path)[1] for path in self.all() if _order(path)[0] == stamp), default=0)
        folder = self.root / FOLDER / f"{self.lab}-{stamp}-{number}"
        copy(folder)
        for old in self.all()[:-KEPT]:
            self.drop(old)
        return folder

    @staticmethod
    def drop(backup: Path) -> None:
        """Forget a backup."""
        shutil.rmtree(backup, ignore_errors=True)


def _order(path: Path) -> tuple[str, int]:
    """(when it was made, which one of that second) from the name of a backup."""
    day, time, number = path.name.rsplit("-", 3)[1:]
    return f"{day}-{time}", int(number)
