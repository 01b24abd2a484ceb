"""Which image a name stands for: `templates/images.yaml`, and what the configuration says about registries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.config.models.images import FILE_NAME
from paictl.i18n import did_you_mean

_PUBLIC: Final = ("", "public", "docker.io")
"""Domains that OpenPAI's settings write for Docker Hub."""
_OPENPAI: Final = ("", "openpai")
"""Namespaces there of OpenPAI's own images, as its generated settings say: no wish to have ours from there."""


class ImageReferences:
    """References by name, with the registry of the configuration put in.

    A private registry has all images as DOMAIN/NAMESPACE/NAME:TAG: two projects may call theirs alike.
    """

    def __init__(self, known: Mapping[str, str], version: str, services: Mapping[str, Any]) -> None:
        self._known = known
        self._version = version
        self._own = _mapping(services.get("images"))
        cluster = _mapping(services.get("cluster"))
        registry = _mapping(cluster.get("docker-registry")) or _mapping(
            _mapping(cluster.get("common")).get("docker-registry")
        )
        domain, namespace = (str(registry.get(key) or "").strip("/") for key in ("domain", "namespace"))
        if domain in _PUBLIC:
            domain = "docker.io"
        public = domain == "docker.io" and namespace in _OPENPAI
        self._prefix = "" if public else "/".join(filter(None, (domain, namespace)))

    def __call__(self, name: str) -> str:
        """The reference of an image; raises `LookupError` for a name that is in no file."""
        own = self._own.get(name)
        if own:
            return str(own)
        reference = self._known.get(name)
        if reference is None:
            raise LookupError(f"no image {name!r}; {did_you_mean(name, self._known) or f'see {FILE_NAME}'}")
        if ":" not in reference.rpartition("/")[2]:
            reference = f"{reference}:{self._version}"
        return f"{self._prefix}/{name}:{reference.rpartition(':')[2]}" if self._prefix else reference


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
