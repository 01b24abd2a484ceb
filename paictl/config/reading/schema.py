"""The shape of a document, checked against its JSON Schema; each violation points at a node.

jsonschema-rs does the work where it is installed, jsonschema elsewhere. Both only say *where* and *which keyword*; the
words are ours (`rules/shape`), so that the same file gives the same problems with either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from paictl.config.reading.kinds import Kind
from paictl.config.reading.nodes import Data, Entry, Mapping, Node, Scalar, Sequence, follow
from paictl.resources import resource_folder

if TYPE_CHECKING:
    from pathlib import Path

Schema = dict[str, Any]
Steps = list[str | int]

SCHEMA_NAMES: dict[Kind, str] = {
    Kind.CONFIG: "config",
    Kind.LAYOUT: "layout",
    Kind.SERVICES: "services-configuration",
    Kind.HIVED: "hivedscheduler",
    Kind.JOB: "job",
    Kind.SERVICE: "service",
    Kind.LAB: "lab",
}
"""Schema file (without .schema.json) of each kind that has one."""

SCHEMA_FOLDER = "schemas"
"""Folder of the schemas: in the project, and beside the files that paictl writes."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A node that breaks a keyword of the schema.

    `schema` is the subschema that holds the keyword, `wanted` the keyword's value; `node` is the offending node: for
    a missing key the mapping that lacks it, for an unknown key that key's entry (`key`).
    """

    keyword: str
    node: Node
    schema: Schema
    wanted: Any
    key: Scalar | None = None
    missing: str | None = None
    path: tuple[str | int, ...] = ()


def schema_path(name: str) -> Path:
    """The file of a schema by its name, e.g. ``hivedscheduler``."""
    return resource_folder(SCHEMA_FOLDER) / schema_file(name)


@cache
def load_schema(name: str) -> Schema:
    """A schema as data; loaded once."""
    schema: Schema = json.loads(schema_text(name))
    return schema


def violations(root: Node, data: Data, name: str, *, fast: bool = True) -> list[Violation]:
    """Everything in which a document breaks the schema `name`, in document order.

    `data` is `to_data(root)`; `fast=False` forces the pure-Python validator (tests compare the two).
    """
    schema = load_schema(name)
    found: dict[tuple[int, str, str | None], Violation] = {}
    for path, keyword_path in sorted(_errors(root, data, name, fast=fast), key=_order):  # the two differ in order
        for violation in _violations_at(schema, root, path, keyword_path):
            at = violation.key or violation.node
            found.setdefault((at.start, violation.keyword, violation.missing), violation)
    mistyped = {id(violation.node) for violation in found.values() if violation.keyword == "type"}
    kept = (v for v in found.values() if v.keyword not in ("enum", "const") or id(v.node) not in mistyped)
    return sorted(kept, key=lambda violation: (violation.key or violation.node).start)


def keys_with_schema(root: Node, name: str) -> Iterator[tuple[tuple[str | int, ...], Entry, Schema]]:
    """(path, key with value, its subschema) of every key that the schema `name` describes, outermost first.

    Rules read the schema's annotations this way, so that facts about keys stand in one place, where editors see them.
    """
    schema = load_schema(name)
    waiting: list[tuple[tuple[str | int, ...], Node, Schema]] = [((), root, schema)]
    while waiting:
        path, node, here = waiting.pop()
        if isinstance(node, Sequence):
            items = here.get("items")
            if isinstance(items, dict):
                found = _resolved(schema, items)
                waiting.extend(((*path, index), item, found) for index, item in reversed([*enumerate(node)]))
        elif isinstance(node, Mapping):
            below: list[tuple[tuple[str | int, ...], Node, Schema]] = []
            for entry in node:
                described = here.get("properties", {}).get(entry.name, here.get("additionalProperties"))
                if isinstance(described, dict):
                    found = _resolved(schema, described)
                    yield (*path, entry.name), entry, found
                    below.append(((*path, entry.name), entry.value, found))
            waiting.extend(reversed(below))


def _order(error: tuple[Steps, Steps]) -> tuple[list[str], str]:
    path, keyword_path = error
    return [str(step) for step in path], str(keyword_path[-1])


def _errors(root: Node, data: Data, name: str, *, fast: bool) -> Iterator[tuple[Steps, Steps]]:
    """(instance path, schema path) of each error."""
    validator = _fast_validator(name) if fast else None
    if validator is not None:
        found = [
            (_with_keys(root, error.instance_path), list(error.schema_path)) for error in validator.iter_errors(data)
        ]
        if all(path is not None for path, _ in found):
            yield from ((path, keyword_path) for path, keyword_path in found if path is not None)
            return
    for error in _slow_validator(name).iter_errors(data):
        yield list(error.absolute_path), list(error.absolute_schema_path)


def _with_keys(root: Node, path: Steps) -> Steps | None:
    """A path of jsonschema-rs, which gives keys of digits as numbers; None where two keys are the same number."""
    here: Node | None = root
    steps: Steps = []
    for given in path:
        step = given
        if isinstance(here, Mapping) and isinstance(given, int):
            keys = [key for key in here.entries if _DIGITS.fullmatch(key) and int(key) == given]
            if len(keys) != 1:
                return None
            step = keys[0]
        steps.append(step)
        here = follow(here, (step,)) if here is not None else None
    return steps


_DIGITS = re.compile(r"\+?[0-9]{1,20}")


@cache
def _fast_validator(name: str) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        return None
    return jsonschema_rs.validator_for(load_schema(name))


@cache
def _slow_validator(name: str) -> Any:
    from paictl.config.reading.slowschema import Validator

    return Validator(load_schema(name))


def _violations_at(schema: Schema, root: Node, path: Steps, keyword_path: Steps) -> Iterator[Violation]:
    """The violations of one validator error; several where one keyword covers several keys."""
    keyword = str(keyword_path[-1])
    holder = _subschema(schema, keyword_path[:-1])
    node = follow(root, tuple(path))
    if node is None:
        return
    wanted = holder.get(keyword)
    if keyword == "additionalProperties" and isinstance(node, Mapping):
        for entry in node:
            if not _declared(holder, entry.name):
                yield Violation(keyword, entry.value, holder, wanted, key=entry.key, path=(*path, entry.name))
    elif keyword == "required" and isinstance(node, Mapping):
        for missing in wanted or ():
            if missing not in node:
                yield Violation(keyword, node, holder, wanted, missing=missing, path=tuple(path))
    else:
        yield Violation(keyword, node, holder, wanted, path=tuple(path))


def _declared(schema: Schema, name: str) -> bool:
    return name in schema.get("properties", {}) or any(
        portable(pattern).search(name) for pattern in schema.get("patternProperties", {})
    )


@cache
def portable(pattern: str) -> re.Pattern[str]:
    """A pattern of a schema read as editors and jsonschema-rs read it: `$` is the very end, classes are ASCII."""
    return re.compile(re.sub(r"(\\.)|\$(?=$|[|)])", lambda match: match.group(1) or r"\Z", pattern), re.ASCII)


def _subschema(schema: Schema, path: Steps) -> Schema:
    """The subschema at a schema path; a `$ref` is followed wherever one stands, named in the path or not."""
    here: Any = schema
    for step in path:
        if step == "$ref":
            continue
        if step not in here:
            here = _resolved(schema, here)
        here = here[step]
    resolved: Schema = _resolved(schema, here)
    return resolved


def _resolved(schema: Schema, here: Any) -> Any:
    while isinstance(here, dict) and isinstance(here.get("$ref"), str):
        target: Any = schema
        for part in here["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        here = target
    return here


def schema_file(name: str) -> str:
    """The name of a schema's file."""
    return f"{name}.schema.json"


def schema_text(name: str) -> str:
    """A schema as it is published."""
    return schema_path(name).read_text(encoding="utf-8")


def schema_comment(name: str) -> str:
    """The first line of a file that paictl writes: it tells editors which schema the file follows.

    The schema is meant to lie beside the file, in `SCHEMA_FOLDER`: no site on the internet has to answer for that, and
    whoever gets the folder gets the schemas of the version that wrote it.
    """
    return f"# yaml-language-server: $schema={SCHEMA_FOLDER}/{schema_file(name)}"


def named_schemas(texts: Iterable[str]) -> dict[str, str]:
    """The schemas that the first lines of files name, by their path beside the files."""
    lines = {text.partition("\n")[0].rstrip() for text in texts}
    return {
        f"{SCHEMA_FOLDER}/{schema_file(name)}": schema_text(name)
        for name in SCHEMA_NAMES.values()
        if schema_comment(name) in lines
    }
