"""What resets put aside: copies of a lab under ``backups/``, the newest few of each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from paictl.frozen import frozen

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
