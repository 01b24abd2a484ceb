"""The container images of paictl's services: `templates/images.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from paictl.errors import PaictlError
from paictl.resources import resource_folder

FILE_NAME: Final = "images.yaml"


def load_images(folder: Path | None = None) -> dict[str, str]:
    """Name → reference as written, where a reference without a tag gets the version of paictl."""
    path = (folder or resource_folder("templates")) / FILE_NAME
    found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise PaictlError("is not a mapping of names to references", where=str(path))
    return {str(name): str(one) for name, one in found.items()}
