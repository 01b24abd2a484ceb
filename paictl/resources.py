"""Where the data folders of the project are: schemas, templates, playbooks, labs, traces.

In a checkout the folders stand beside the package, in a wheel inside it (see `pyproject.toml`, force-include).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_folder(name: str) -> Path:
    """The folder `name` of the project's data; raises `FileNotFoundError` if the installation lost it."""
    for folder in (_PACKAGE / "data" / name, _PACKAGE.parent / name):  # beside an installed package are others' folders
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"paictl is installed without its folder {name!r}; reinstall it")
