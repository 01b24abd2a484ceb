"""Settings that a chart leaves open, found by trying: a setting is a value if it only passes through the templates.

Each number and text of a service's settings is replaced by a mark that occurs nowhere else. If what is rendered with
the mark is, once the setting is put back in its place, exactly what is rendered without, the templates do nothing with
the setting but write it down; then the tool that reads the chart may write down another. A setting that decides
something (which door, whether there is TLS) leaves other objects, and stays as it was exported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from paictl.cluster.kubernetes.exporting.objects import service_objects
from paictl.cluster.manifests.context import Renderer
from paictl.cluster.manifests.templating import TemplateError
from paictl.cluster.manifests.writing import Exported
from paictl.config.secrets.sealing import is_seal
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.resources import resource_folder

IMAGES: Final = "images"
"""The section with a reference for each image."""
_NUMBER: Final = 70_017_001
_WORD: Final = "qzvalue"
_PLAIN: Final = r"""^[^"'\\{}\n]*$"""
"""Texts that cannot break the text around them."""
_KEPT: Final = ("minimum", "maximum", "enum", "pattern", "minLength", "description")


@frozen
class Value:
    """A setting that a chart leaves open: section and keys, what was exported, and what is allowed."""

    path: tuple[str, ...]
    default: int | str
    schema: Mapping[str, Any]
    mark: int | str
    """Stands for it in the objects of `open_objects`."""

    @property
    def name(self) -> str:
        """``prometheus.storage.size``."""
        return ".".join(self.path)


def open_values(exported: Exported) -> list[Value]:
    """The settings of the exported services that can be left open, in the order of services and settings."""
    renderer = exported.renderer()
    baseline = {name: _bodies(renderer, name) for name in exported.services}
    readers = SectionReaders(exported.services)
    values = []
    for number, (path, default) in enumerate(_candidates(renderer, baseline)):
        value = Value(path, default, _schema_of(path, default), _mark(default, number))
        names = readers.of(path)
        try:
            bodies = {name: _bodies(renderer.with_settings(_nested([value])), name) for name in names}
        except PaictlError:  # a template refuses the mark, so it looks at the setting
            continue
        written = any(bodies[name] != baseline[name] for name in names)
        if written and all(_put_back(bodies[name], value) == baseline[name] for name in names):
            values.append(value)
    return values


class SectionReaders:
    """Which services read a section: each its own, and those whose templates name it; so few have to be rendered."""

    def __init__(self, services: Sequence[str]) -> None:
        root = resource_folder("templates")
        self._texts = {
            name: "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / name).glob("*.j2")))
            for name in services
        }

    def of(self, path: Sequence[str]) -> list[str]:
        """The services whose objects may change with a setting."""
        if path[0] == IMAGES:
            pattern = rf"""image\(["']{re.escape(path[1])}["']\)"""
        else:
            pattern = rf"""services(\.|\[["']|\.get\(["']){re.escape(path[0])}\b"""
        return [name for name, text in self._texts.items() if name == path[0] or re.search(pattern, text)]


def open_objects(exported: Exported, values: Sequence[Value]) -> dict[str, list[dict[str, Any]]]:
    """The objects of each service with marks in the place of the values.

    Raises `TemplateError` if two values that pass alone do not pass together, which no template of ours may do.
    """
    renderer = exported.renderer()
    marked = renderer.with_settings(_nested(values))
    by_service = {name: service_objects(exported, marked, name) for name in exported.services}
    plain = {name: service_objects(exported, renderer, name) for name in exported.services}
    for name, objects in by_service.items():
        for body, wanted in zip(objects, plain[name], strict=True):
            _take_over_hash(body, wanted)
    text = json.dumps(by_service, default=str)
    for value in values:
        text = _put_back(text, value)
    if text != json.dumps(plain, default=str):
        raise TemplateError("settings depend on each other", where=", ".join(value.name for value in values))
    return by_service


def _take_over_hash(body: dict[str, Any], wanted: Mapping[str, Any]) -> None:
    """The hash says what the objects were rendered from, and the marks are no input of anybody's."""
    body["metadata"].get("annotations", {}).update(wanted["metadata"].get("annotations", {}))
    template = (body.get("spec") or {}).get("template")
    if isinstance(template, dict) and "annotations" in template.get("metadata", {}):
        template["metadata"]["annotations"] = wanted["spec"]["template"]["metadata"]["annotations"]


def _bodies(renderer: Renderer, service: str) -> str:
    return json.dumps([manifest.body for manifest in renderer.sealed(service)], default=str)


def _put_back(bodies: str, value: Value) -> str:
    """A text of JSON with the setting in the place of its mark."""
    return bodies.replace(str(value.mark), json.dumps(str(value.default))[1:-1])


def _mark(default: int | str, number: int) -> int | str:
    return _NUMBER + number if isinstance(default, int) else f"{_WORD}{number:04d}z"


def _nested(values: Sequence[Value]) -> dict[str, dict[str, Any]]:
    settings: dict[str, Any] = {}
    for value in values:
        *above, last = value.path
        inner = settings
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = value.mark
    return settings


def _candidates(renderer: Renderer, baseline: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], int | str]]:
    for name, reference in renderer.images.items():
        if any(json.dumps(reference) in bodies for bodies in baseline.values()):
            yield (IMAGES, name), reference
    for service in baseline:
        yield from _scalars((service,), renderer.settings(service))


def _scalars(path: tuple[str, ...], settings: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], int | str]]:
    for key, setting in settings.items():
        if isinstance(setting, Mapping):
            yield from _scalars((*path, str(key)), setting)
        elif isinstance(setting, bool) or not isinstance(setting, int | str):
            continue
        elif (isinstance(setting, int) or _is_plain(setting)) and not _subschema((*path, str(key))).get("x-secret"):
            yield (*path, str(key)), setting


def _is_plain(word: str) -> bool:
    """Whether a text may be left open: not an empty one, a block of lines or a seal."""
    return bool(word) and re.fullmatch(_PLAIN, word) is not None and not is_seal(word)


def _schema_of(path: tuple[str, ...], default: int | str) -> dict[str, Any]:
    """What the schema of services-configuration.yaml allows, as far as it is of the type of what was exported."""
    if path[0] == IMAGES:
        return {"type": "string", "pattern": r"^[^\s\"'\\{}]+$", "description": f"Image {path[1]}."}
    known = _subschema(path)
    kept = {key: known[key] for key in _KEPT if key in known}
    if isinstance(default, int):
        kept.pop("pattern", None)
        return {"type": "integer", **kept}
    for key in ("minimum", "maximum"):
        kept.pop(key, None)
    if "enum" in kept:
        return {"type": "string", **kept}
    return {"type": "string", "pattern": _PLAIN, **kept}


def _subschema(path: tuple[str, ...]) -> Mapping[str, Any]:
    """The part of the schema about a setting; empty where it says nothing."""
    whole = _schema()
    part: Mapping[str, Any] = whole
    for key in path:
        part = (part.get("properties") or {}).get(key) or {}
        if reference := part.get("$ref"):
            part = {**whole["definitions"][str(reference).rpartition("/")[2]], **part}
    return part


@cache
def _schema() -> Mapping[str, Any]:
    path = resource_folder("schemas") / "services-configuration.schema.json"
    schema: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema
