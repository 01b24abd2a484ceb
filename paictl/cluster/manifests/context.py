"""What a template may use, made of the pushed files: settings, images, taints; once with secrets, once with seals."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

import yaml

from paictl.cluster.machines import machines_in
from paictl.cluster.manifests.certificates import PLACEHOLDER, CertificateSet
from paictl.cluster.manifests.templating import Manifest, TemplateError, render_folder
from paictl.config.models.services import DRIVER, FILE_NAME, STANDARD_NAME, load_images
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.config.secrets.sealing import is_seal
from paictl.config.secrets.walk import SEAL_PREFIX
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean
from paictl.resources import resource_folder
from paictl.workload.sku import DEVICES

DEFAULTS: Final = "defaults.yaml"
_DRIVER_USERS: Final = (DRIVER, "device-plugin", "dra-driver")
"""Services that depend on which nodes a driver can be installed on."""
_CONTAINERS: Final = ("containers", "initContainers")


@frozen
class RenderInputs:
    """What all services are rendered from: the pushed files, sealed, and the values behind the seals.

    `secrets` maps a seal to ``TAG:VALUE``, as the clusters keep them.
    """

    cluster_id: str
    namespace: str
    jobs_namespace: str
    version: str
    files: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificates: CertificateSet | None = field(default=None, repr=False)
    """Of kube-scheduler and the extender; placeholders stand for them where there are none."""
    systems: Callable[[], Mapping[str, str]] | None = field(default=None, repr=False)
    """Asks the cluster for the operating system of each of its nodes, as ``ubuntu24.04``; None where there is none."""


class Sections(dict[str, Any]):
    """The sections of services-configuration.yaml; one that nobody has written is an empty mapping."""

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


class Renderer:
    """Renders services from the same inputs; the files are read once."""

    def __init__(self, inputs: RenderInputs, templates: Path | None = None) -> None:
        self._inputs = inputs
        self._templates = templates or resource_folder("templates")
        loaded = load_memory(inputs.files)
        documents = [document for document in loaded.documents if document.kind in (FileKind.SERVICES, FileKind.LAYOUT)]
        ordered = sorted(documents, key=lambda document: document.path != STANDARD_NAME)
        self._services = _data(next((document for document in ordered if document.kind is FileKind.SERVICES), None))
        self._layout = _data(next((document for document in ordered if document.kind is FileKind.LAYOUT), None))
        machines = machines_in(inputs.files) if self._layout else []
        taints = taints_by_host(self._layout)
        self._machines = [
            {**asdict(machine), "role": machine.role.value, "taints": taints.get(machine.name, [])}
            for machine in machines
        ]
        self._images = load_images(self._templates)

    def render(self, service: str) -> list[Manifest]:
        """The objects of a service, with secrets; none for a service without templates.

        Raises `TemplateError` with file and line; also where a secret would get into an object that is no Secret.
        """
        self.sealed(service)
        return self._rendered(service, self._inputs.secrets)

    def sealed(self, service: str) -> list[Manifest]:
        """The same with the seals in the place of the secrets: what hashes may be made of, and people may see."""
        manifests = self._rendered(service, None)
        for manifest in manifests:
            if manifest.kind != "Secret" and SEAL_PREFIX in json.dumps(manifest.body, default=str):
                raise TemplateError(
                    f"{manifest.kind} {manifest.name} would hold a secret",
                    where=manifest.source,
                    hint="secrets belong in objects of kind Secret",
                )
        return manifests

    def settings(self, service: str) -> Mapping[str, Any]:
        """The service's own section over its defaults, sealed; no template is looked at."""
        own: Mapping[str, Any] = merged(self._defaults(service), self._services.get(service))
        return own

    def with_settings(self, settings: Mapping[str, Mapping[str, Any]]) -> Renderer:
        """The same with other values in some sections: section → keys, laid over what the files say."""
        other = copy.copy(self)
        other._services = merged(self._services, settings)
        return other

    @property
    def images(self) -> Mapping[str, str]:
        """Every image that a template may name, and what it stands for here."""
        references = ImageReferences(self._images, self._inputs.version, Sections(self._services))
        return {name: references(name) for name in self._images}

    def _rendered(self, service: str, secrets: Mapping[str, str] | None) -> list[Manifest]:
        return render_folder(self._templates / service, self._context(service, secrets))

    def _context(self, service: str, secrets: Mapping[str, str] | None) -> dict[str, Any]:
        inputs = self._inputs
        opened = _opened(self._services, secrets)
        sections = Sections({name: {} if section is None else section for name, section in opened.items()})
        systems = self._node_systems(service)
        images = ImageReferences(self._images, inputs.version, sections)
        return {
            "cluster": {
                "id": inputs.cluster_id,
                "namespace": inputs.namespace,
                "jobs_namespace": inputs.jobs_namespace,
            },
            "config": merged(self._defaults(service), sections[service]),
            "services": sections,
            "layout": self._layout,
            "machines": self._machines,
            "node_systems": systems,
            "gpu_driver_serves": self._driver_serves(systems, images),
            "device_resources": DEVICES,
            "files": dict(inputs.files),
            "version": inputs.version,
            # never in what hashes are made of: renewed certificates are no change of the configuration
            "certificates": (secrets is not None and inputs.certificates) or PLACEHOLDER,
            "image": images,
        }

    def _node_systems(self, service: str) -> Mapping[str, str] | None:
        """Node → system, asked for only where a driver depends on it; None where there is no cluster to ask."""
        settings = _mapping(self._services.get(DRIVER))
        if service not in _DRIVER_USERS or not settings.get("enabled") or settings.get("system"):
            return {}
        return None if self._inputs.systems is None else self._inputs.systems()

    def _driver_serves(self, systems: Mapping[str, str] | None, images: ImageReferences) -> bool:
        """Whether `gpu-driver` has pods, so that each node shows its driver where they put it: `systems` by node."""
        if not _mapping(self._services.get(DRIVER)).get("enabled"):
            return False
        names = (
            str(machine["name"]).lower() for machine in self._machines if machine["devices"] and _of_nvidia(machine)
        )
        known = {systems[name] for name in names if name in systems} if systems else set()
        return not known or any(f"nvidia-driver-{system}" in images for system in known)

    def _defaults(self, service: str) -> dict[str, Any]:
        path = self._templates / service / DEFAULTS
        if not path.is_file():
            return {}
        try:
            defaults = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            raise TemplateError(f"is broken YAML: {' '.join(str(error).split())}", where=str(path)) from None
        if not isinstance(defaults, dict):
            raise TemplateError("is not a mapping", where=str(path))
        return defaults


def images_of(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """The references of all images that objects name, each once, in their order."""
    return tuple(dict.fromkeys(reference for manifest in manifests for reference in _references(manifest.body)))


def lacking(renderer: Renderer, names: Iterable[str], present: Collection[str]) -> dict[str, tuple[str, ...]]:
    """By service the images that it needs and that are not here; services that need no others are not in it.

    What cannot be rendered lacks nothing: whoever starts it is told.
    """
    by_service = {}
    for name in names:
        try:
            needed = images_of(renderer.sealed(name))
        except TemplateError:
            continue
        if missing := tuple(image for image in needed if image not in present):
            by_service[name] = missing
    return by_service


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in _CONTAINERS and isinstance(item, list):
                yield from (str(each["image"]) for each in item if each.get("image"))
            else:
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def merged(defaults: Any, own: Any) -> Any:
    """`own` over `defaults`: mappings key by key, all else replaced; null leaves what was there."""
    if isinstance(defaults, Mapping) and isinstance(own, Mapping):
        return {
            **defaults,
            **{key: merged(defaults[key], value) if key in defaults else value for key, value in own.items()},
        }
    return defaults if own is None else own


def _of_nvidia(machine: Mapping[str, Any]) -> bool:
    kind = str(machine["device_type"])
    return "/" not in kind or kind.startswith("nvidia.com/")


def _data(document: Document | None) -> dict[str, Any]:
    if document is None:
        return {}
    if document.fatal or not isinstance(document.data, dict):
        raise PaictlError("cannot be read", where=document.path, hint="see what is wrong: paictl config validate")
    return document.data


def _opened(value: Any, secrets: Mapping[str, str] | None) -> Any:
    """A value with secrets for seals, of the type that they were written in; without `secrets` as it is.

    Raises `PaictlError` if there is a seal whose secret is not known.
    """
    if isinstance(value, Mapping):
        return {key: _opened(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_opened(item, secrets) for item in value]
    if secrets is None or not is_seal(value):
        return value
    secret = secrets.get(value)
    if secret is None:
        raise PaictlError(
            "a secret of the configuration is not in the cluster any more",
            where=STANDARD_NAME,
            hint="write the secrets themselves into the files and push them: paictl config push",
        )
    tag, _, text = secret.partition(":")
    return yaml.safe_load(text) if tag not in ("str", "timestamp") else text


def taints_by_host(layout: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The taints of each machine that has some, by its hostname, as Kubernetes' objects write them."""
    return {
        str(machine.get("hostname")): [_parsed(str(word)) for word in machine["taints"]]
        for machine in layout.get("machine-list") or ()
        if isinstance(machine, Mapping) and machine.get("taints")
    }


def _parsed(word: str) -> dict[str, str]:
    about, _, effect = word.rpartition(":")
    key, _, value = about.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


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

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._known or bool(self._own.get(name)))

    def __call__(self, name: str, tag: str = "") -> str:
        """The reference of an image; raises `LookupError` for a name that is in no file.

        `tag` replaces the tag that comes with paictl, but not that of an image which the configuration names itself.
        """
        own = self._own.get(name)
        if own:
            return str(own)
        reference = self._known.get(name)
        if reference is None:
            raise LookupError(f"no image {name!r}; {did_you_mean(name, self._known) or f'see {FILE_NAME}'}")
        if ":" not in reference.rpartition("/")[2]:
            reference = f"{reference}:{self._version}"
        if tag:
            reference = f"{reference.rpartition(':')[0]}:{tag}"
        return f"{self._prefix}/{name}:{reference.rpartition(':')[2]}" if self._prefix else reference


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
