"""The images that services need, for machines that reach no registry: which to fetch, and which are missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from paictl import __version__
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.manifests.context import Renderer, RenderInputs, images_of, lacking
from paictl.cluster.manifests.templating import TemplateError
from paictl.config.models.services import DRIVER, DRIVER_IMAGE
from paictl.config.pushing.configfile import texts_of
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.pushing import folder as folders
from paictl.resources import resource_folder
from paictl.service.catalogue import Catalogue, load_catalogue
from paictl.service.order import needed_by

ALL: Final = "all"
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "monitoring": ("alert-manager", "grafana", "job-exporter", "node-exporter", "prometheus")
}
"""Words that stand for several services."""
_NAMED: Final = re.compile(r"\bimage\('([\w-]+)'(?:\)|( ~))")
"""How templates name an image, or all whose names begin alike."""


@frozen
class ServiceImage:
    """An image that services need: its name in images.yaml, and where it comes from."""

    name: str
    reference: str
    services: tuple[str, ...]


def service_images(words: Iterable[str], folder: str = "", systems: Sequence[str] = ()) -> tuple[ServiceImage, ...]:
    """The images of services and of what these need to start, by name.

    `words` are names of services, `monitoring` or `all`. A `folder` of configuration says which images there are, of
    which registry; without one, every image that the templates of a service may name is taken,
    but of services that are off by default only if they are named. Of GPU drivers those for `systems` are taken, such
    as ``ubuntu24.04``; without any, what the `folder` says, or all. Raises `ServiceError`
    for an unknown service, `PaictlError` for files that cannot be read or a system without a driver image,
    `TemplateError` for what cannot be rendered.
    """
    catalogue = load_catalogue()
    renderer = _renderer(folder)
    names = {reference: name for name, reference in renderer.images.items()}
    users: dict[str, list[str]] = {}
    named = _named(catalogue, words)
    for service in _with_needs(catalogue, named):
        if not folder and service not in named and renderer.settings(service).get("enabled") is False:
            continue  # what others need where it is switched on, which nothing says here
        if service == DRIVER and systems:
            needed: Sequence[str] = _of_systems(renderer, systems, configured=bool(folder))
        else:
            needed = images_of(renderer.sealed(service)) if folder else _possible(service, renderer)
        for reference in needed:
            users.setdefault(reference, []).append(service)
    images = [
        ServiceImage(names.get(reference) or reference.rpartition("/")[2].partition(":")[0], reference, tuple(services))
        for reference, services in users.items()
    ]
    return tuple(sorted(images, key=lambda image: image.name))


def driver_systems(images: Iterable[ServiceImage]) -> list[str]:
    """The systems that the driver images among some images are for."""
    return [image.name.removeprefix(DRIVER_IMAGE) for image in images if image.name.startswith(DRIVER_IMAGE)]


def _of_systems(renderer: Renderer, systems: Sequence[str], *, configured: bool) -> list[str]:
    """The driver images for some systems; with `configured` those that the files ask for, if they ask for any."""
    own = renderer.settings("images")
    available = [name.removeprefix(DRIVER_IMAGE) for name in (*renderer.images, *own) if name.startswith(DRIVER_IMAGE)]
    for system in systems:
        if system not in available:
            raise PaictlError(
                text("there is no driver image for {system}", system=system),
                hint=text("there are images for: {systems}", systems=", ".join(sorted(available))),
            )
    if not configured:
        return [renderer.images[f"{DRIVER_IMAGE}{system}"] for system in dict.fromkeys(systems)]
    drivers = [images_of(renderer.with_settings({DRIVER: {"system": system}}).sealed(DRIVER)) for system in systems]
    return list(dict.fromkeys(reference for references in drivers for reference in references))


def missing_images(folder: Path, present: Collection[str], services: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """By service, the images that a folder of configuration needs and that are not `present`; none without a folder.

    Of all services, or of some and those that they need. What is wrong with the files is said where they are pushed.
    """
    if not folder.is_dir():
        return {}
    catalogue = load_catalogue()
    try:
        renderer = _renderer(str(folder))
    except PaictlError:
        return {}
    names = _with_needs(catalogue, _named(catalogue, services or [ALL]))
    missing = lacking(renderer, names, present)
    if DRIVER in names and (drivers := _missing_drivers(renderer, present)):
        missing[DRIVER] = drivers
    return missing


def _missing_drivers(renderer: Renderer, present: Collection[str]) -> tuple[str, ...]:
    """The driver images of all systems, if the systems of the nodes decide which are needed and none is `present`.

    Before there is a cluster nobody knows the systems: one image may be all that its nodes need, none never is.
    """
    settings = renderer.settings(DRIVER)
    if not settings["enabled"] or settings["system"]:
        return ()
    names = (*renderer.images, *renderer.settings("images"))
    systems = dict.fromkeys(name.removeprefix(DRIVER_IMAGE) for name in names if name.startswith(DRIVER_IMAGE))
    needed: list[str] = []
    for system in systems:
        try:
            needed += images_of(renderer.with_settings({DRIVER: {"system": system}}).sealed(DRIVER))
        except TemplateError:  # an image of your own with a tag of another form, which `config validate` reports
            continue
    return () if any(image in present for image in needed) else tuple(dict.fromkeys(needed))


def missing_lines(missing: Mapping[str, Sequence[str]]) -> list[str]:
    """What to say of services without images, and what to do."""
    lines: list[str] = []
    for service, images in missing.items():
        named = ", ".join(images)
        lines.append(
            text("service {service} lacks images among the artifacts: {images}", service=service, images=named)
        )
    if lines:
        lines.append(text("to add them: paictl deploy bundle create --services {names}", names=",".join(missing)))
    return lines


def _named(catalogue: Catalogue, words: Iterable[str]) -> set[str]:
    named: set[str] = set()
    for word in words:
        named |= set(catalogue.services) if word == ALL else set(GROUPS.get(word) or catalogue.known([word]))
    return named


def _with_needs(catalogue: Catalogue, named: set[str]) -> list[str]:
    """Services and what they need to start, in the order in which they start."""
    names = named | needed_by(catalogue.graph, named)
    return [service for service in catalogue.services if service in names]


def _renderer(folder: str) -> Renderer:
    files: Mapping[str, str] = {}
    if folder:
        read = folders.read(folder).files
        files = texts_of({name: file.sealed(file) for name, file in read.items()})
    return Renderer(RenderInputs("pai", NAMESPACE, JOBS_NAMESPACE, __version__, files))


def _possible(service: str, renderer: Renderer) -> list[str]:
    """Every image that the templates of a service may name."""
    sources = sorted((resource_folder("templates") / service).glob("*.j2"))
    named = [match for path in sources for match in _NAMED.findall(path.read_text(encoding="utf-8"))]
    references = [
        reference
        for begin, more in named
        for name, reference in renderer.images.items()
        if (name.startswith(begin) if more else name == begin)
    ]
    return list(dict.fromkeys(references))
