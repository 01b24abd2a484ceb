"""Where the images of services come from: ``templates/images.yaml``, a private registry, or one's own reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml

from paictl.errors import PaictlError
from paictl.resources import resource_folder
from paictl.words import did_you_mean

PUBLIC: Final = frozenset({"", "public", "docker.io"})
"""Domains that OpenPAI writes for Docker Hub."""
OPENPAI: Final = frozenset({"", "openpai"})
"""Namespaces that hold OpenPAI's images and none of ours."""


@dataclass(frozen=True, slots=True)
class Images:
    """References of images by name, for one configuration."""

    version: str
    """Of paictl."""
    registry: str = ""
    """``DOMAIN/NAMESPACE`` that has copies of all images under their names here; empty: as published."""
    own: Mapping[str, str] | None = None
    """References that replace all else, by name."""

    def __call__(self, name: str) -> str:
        """The reference of an image. Raises `PaictlError` for a name that ``templates/images.yaml`` does not have."""
        known = published()
        if name not in known:
            hint = did_you_mean(name, known) or f"templates/images.yaml has: {', '.join(sorted(known))}"
            raise PaictlError(f"there is no image {name!r}", hint=hint)
        if self.own and name in self.own:
            return self.own[name]
        reference = known[name].replace("{version}", self.version)
        return f"{self.registry}/{name}:{reference.rpartition(':')[2]}" if self.registry else reference


@cache
def published() -> Mapping[str, str]:
    """References by name as ``templates/images.yaml`` has them, ``{version}`` not yet filled in."""
    text = (resource_folder("templates") / "images.yaml").read_text(encoding="utf-8")
    found: dict[str, str] = yaml.safe_load(text)
    return found


def images_of(services: Mapping[str, Any], version: str) -> Images:
    """References for a services-configuration.

    ``cluster.docker-registry`` counts unless it is the one of OpenPAI's own images, which every old configuration
    names and which has none of ours; its ``tag`` is OpenPAI's and never ours. Single images: section ``images``.
    """
    registry = (services.get("cluster") or {}).get("docker-registry") or {}
    domain = str(registry.get("domain") or "").rstrip("/")
    namespace = str(registry.get("namespace") or "").strip("/")
    if domain in PUBLIC:
        domain = "" if namespace in OPENPAI else "docker.io"
    own = {str(name): str(reference) for name, reference in (services.get("images") or {}).items()}
    return Images(version, "/".join(part for part in (domain, namespace) if part) if domain else "", own)
