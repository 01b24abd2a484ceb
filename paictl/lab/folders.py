"""Where the labs of a user live, and which of them a shell is about; what every lab command asks first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

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
    """Where the labs of this user live: beside the user's own cluster, or where the lab of this shell stands."""
    folder = state_folder()
    return folder.parent if _is_in_labs(folder) else folder / LABS


def _is_in_labs(folder: Path) -> bool:
    """Whether a state folder is that of a lab, though the lab itself may have been removed."""
    return is_lab(folder) or (folder.parent / progress.FILE).is_file() or os.environ.get(SHELL) == folder.name


def lab_of_shell() -> str:
    """Id of the lab that this shell is about, whatever has become of its folder; empty outside all labs."""
    if chosen := os.environ.get(SHELL):
        return chosen
    folder = state_folder()
    return folder.name if _is_in_labs(folder) else ""
