"""Which lab a command is about."""

from __future__ import annotations

from paictl.lab.errors import LabError
from paictl.lab.ground import labs_folder, present_lab
from paictl.lab.manifest import find_lab
from paictl.lab.progress import ProgressFile
from paictl.lab.session import Session


def session_of(word: str | None) -> Session:
    """The lab that is named, else the one of this shell, else the one that was started last."""
    root, present = labs_folder(), present_lab()
    name = word or (present.lab_id if present else "") or ProgressFile(root).read().current
    if not name:
        raise LabError(
            ("no lab was started yet", "尚未开始任何实验"),
            ("see: paictl lab list; begin: paictl lab start 1", "查看：paictl lab list；开始：paictl lab start 1"),
        )
    return Session(find_lab(name), root)
