"""The shape of a document, checked against its JSON Schema; each violation points at a node.

Of what does not plainly conform (`conformance`), jsonschema says *where* and *which keyword*; the words are ours
(`rules/shape`). It reads a schema whose references have been put in place, which halves the time
(docs/decisions/json-schema-engine.md), and whose patterns mean what editors take them for.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from paictl.config.reading.conformance import conforms, portable, resolved
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import Data, Entry, MappingNode, Node, ScalarNode, SequenceNode, follow
from paictl.frozen import frozen
from paictl.resources import resource_folder

if TYPE_CHECKING:
    from pathlib import Path

Schema = dict[str, Any]
Steps = list[str | int]

SCHEMA_NAMES: dict[FileKind, str] = {
    FileKind.CONFIG: "config",
    FileKind.LAYOUT: "layout",
    FileKind.SERVICES: "services-configuration",
    FileKind.HIVED: "hivedscheduler",
    FileKind.JOB: "job",
    FileKind.SERVICE: "service",
    FileKind.LAB: "lab",
}
"""Schema file (without .schema.json) of each kind that has one."""

SCHEMA_FOLDER = "schemas"
"""Folder of the schemas: in the project, and beside the files that paictl writes."""


@frozen
class Violation:
    """A node that breaks a keyword of the schema.

    `schema` is the subschema that holds the keyword, `wanted` the keyword's value; `node` is the offending node: for
    a missing key the mapping that lacks it, for an unknown key that key's entry (`key`).
    """

    keyword: str
    node: Node
    schema: Schema
    wanted: Any
    key: ScalarNode | None = None
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


def violations(root: Node, data: Data, name: str) -> list[Violation]:
    """Everything in which a document breaks the schema `name`, in document order; `data` is `to_data(root)`."""
    schema = load_schema(name)
    if conforms(schema, schema, data):
        return []
    distinct: dict[tuple[int, str, str | None], Violation] = {}
    errors = _validator(name).iter_errors(data)
    places = ((list(error.absolute_path), list(error.absolute_schema_path)) for error in errors)
    for path, keyword_path in sorted(places, key=_order):
        for violation in _violations_at(schema, root, path, keyword_path):
            at = violation.key or violation.node
            distinct.setdefault((at.start, violation.keyword, violation.missing), violation)
    mistyped = {id(violation.node) for violation in distinct.values() if violation.keyword == "type"}
    kept = (v for v in distinct.values() if v.keyword not in ("enum", "const") or id(v.node) not in mistyped)
    return sorted(kept, key=lambda violation: (violation.key or violation.node).start)


def keys_with_schema(root: Node, name: str) -> Iterator[tuple[tuple[str | int, ...], Entry, Schema]]:
    """(path, key with value, its subschema) of every key that the schema `name` describes, outermost first.

    Rules read the schema's annotations this way, so that facts about keys stand in one place, where editors see them.
    """
    schema = load_schema(name)
    waiting: list[tuple[tuple[str | int, ...], Node, Schema]] = [((), root, schema)]
    while waiting:
        path, node, described_by = waiting.pop()
        if isinstance(node, SequenceNode):
            items = described_by.get("items")
            if isinstance(items, dict):
                subschema = resolved(schema, items)
                waiting.extend(((*path, index), item, subschema) for index, item in reversed([*enumerate(node)]))
        elif isinstance(node, MappingNode):
            below: list[tuple[tuple[str | int, ...], Node, Schema]] = []
            for entry in node:
                described = described_by.get("properties", {}).get(entry.name, described_by.get("additionalProperties"))
                if isinstance(described, dict):
                    subschema = resolved(schema, described)
                    yield (*path, entry.name), entry, subschema
                    below.append(((*path, entry.name), entry.value, subschema))
            waiting.extend(reversed(below))


def _order(error: tuple[Steps, Steps]) -> tuple[list[str], str]:
    path, keyword_path = error
    return [str(step) for step in path], str(keyword_path[-1])


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft7Validator, TypeChecker, validators

    def is_number(_checker: TypeChecker, instance: object) -> bool:
        if isinstance(instance, float):
            return math.isfinite(instance)  # JSON has no infinity
        return isinstance(instance, int) and not isinstance(instance, bool)

    extend: Any = validators.extend  # untyped in its stubs
    checker = Draft7Validator.TYPE_CHECKER.redefine("number", is_number)
    return extend(Draft7Validator, type_checker=checker)(_in_place(load_schema(name)))


def _in_place(schema: Schema) -> Schema:
    """The schema with what a reference names in the place of each, so that it may hold itself; paths stay the same."""
    whole = copy.deepcopy(schema)
    seen: set[int] = set()
    waiting: list[Any] = [whole]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or not isinstance(part, dict | list):
            continue
        seen.add(id(part))
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            part[key] = resolved(whole, value)
            waiting.append(part[key])
        if isinstance(part, dict) and isinstance(part.get("pattern"), str):
            part["pattern"] = portable(part["pattern"])
    return whole


def _violations_at(schema: Schema, root: Node, path: Steps, keyword_path: Steps) -> Iterator[Violation]:
    """The violations of one validator error; several where one keyword covers several keys."""
    keyword = str(keyword_path[-1])
    holder = _subschema(schema, keyword_path[:-1])
    node = follow(root, tuple(path))
    if node is None:
        return
    wanted = holder.get(keyword)
    if keyword == "additionalProperties" and isinstance(node, MappingNode):
        for entry in node:
            if entry.name not in holder.get("properties", {}):
                yield Violation(keyword, entry.value, holder, wanted, key=entry.key, path=(*path, entry.name))
    elif keyword == "required" and isinstance(node, MappingNode):
        for missing in wanted or ():
            if missing not in node:
                yield Violation(keyword, node, holder, wanted, missing=missing, path=tuple(path))
    else:
        yield Violation(keyword, node, holder, wanted, path=tuple(path))


def _subschema(schema: Schema, path: Steps) -> Schema:
    """The subschema at a schema path; a `$ref` is followed wherever one stands, named in the path or not."""
    part: Any = schema
    for step in path:
        if step == "$ref":
            continue
        if step not in part:
            part = resolved(schema, part)
        part = part[step]
    subschema: Schema = resolved(schema, part)
    return subschema


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
