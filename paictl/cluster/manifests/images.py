"""Which image a name stands for: `templates/images.yaml`, and what the configuration says about registries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from paictl.errors import PaictlError
from paictl.resources import resource_folder
from paictl.words import did_you_mean

FILE_NAME: Final = "images.yaml"
_OPENPAI: Final = (("docker.io", "openpai"), ("docker.io", ""), ("", "openpai"))
"""Where OpenPAI's own images are, as its generated settings say: no wish to have ours from there."""


def load_images(folder: Path | None = None) -> dict[str, str]:
    """Name → reference as written, where a reference without a tag gets the version of paictl."""
    path = (folder or resource_folder("templates")) / FILE_NAME
    found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise PaictlError("is no mapping of names to references", where=str(path))
    return {str(name): str(one) for name, one in found.items()}


class Images:
    """References by name, with the registry of the configuration put in."""

    def __init__(self, known: Mapping[str, str], version: str, services: Mapping[str, Any]) -> None:
        self._known = known
        self._version = version
        self._own = _mapping(services.get("images"))
        cluster = _mapping(services.get("cluster"))
        registry = _mapping(cluster.get("docker-registry")) or _mapping(
            _mapping(cluster.get("common")).get("docker-registry")
        )
        place = (str(registry.get("domain") or ""), str(registry.get("namespace") or ""))
        self._prefix = "" if place in _OPENPAI else "/".join(filter(None, place))

    def __call__(self, name: str) -> str:
        """The reference of an image; raises `LookupError` for a name that is in no file."""
        own = self._own.get(name)
        if own:
            return str(own)
        reference = self._known.get(name)
        if reference is None:
            raise LookupError(f"there is no image {name!r}; {did_you_mean(name, self._known) or f'see {FILE_NAME}'}")
        if ":" not in reference.rpartition("/")[2]:
            reference = f"{reference}:{self._version}"
        return f"{self._prefix}/{reference.rpartition('/')[2]}" if self._prefix else reference


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
