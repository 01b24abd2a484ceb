"""Whether data plainly conform to a JSON Schema.

What is right needs no engine that can say what is wrong. Nearly every document is right, and jsonschema takes an eighth
of the time of a short command only to be loaded. So a quick yes comes first, for the keywords that our schemas use; all
that is not surely right, an unknown keyword included, is left to jsonschema, which alone decides what is wrong and
where (`reading/schema.py`; docs/decisions/json-schema-engine.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

Schema = Mapping[str, Any]


def conforms(whole: Schema, schema: Any, data: Any) -> bool:
    """Whether data surely conform to a schema, whose references lead into the `whole` one; False leaves it open."""
    schema = resolved(whole, schema)
    return isinstance(schema, dict) and all(
        _KEYWORDS[keyword](wanted, data, schema, whole) if keyword in _KEYWORDS else _says_nothing(keyword)
        for keyword, wanted in schema.items()
    )


def resolved(whole: Schema, schema: Any) -> Any:
    """What a reference names, or what stands here; what stands beside a reference counts for nothing, as in draft 7."""
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        target: Any = whole
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    return schema


@cache
def portable(pattern: str) -> str:
    """A pattern of a schema as Python has to read it to mean what editors read: `$` is the very end, `\\d` is ASCII."""
    return "(?a)" + re.sub(r"(\\.)|\$(?=$|[|)])", lambda match: match.group(1) or r"\Z", pattern)


def _says_nothing(keyword: str) -> bool:
    return keyword in _ANNOTATIONS or keyword.startswith("x-")


_ANNOTATIONS: Final = frozenset(
    {"$schema", "$id", "title", "description", "default", "deprecationMessage", "definitions"}
)

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda data: type(data) is dict,
    "array": lambda data: type(data) is list,
    "string": lambda data: type(data) is str,
    "boolean": lambda data: type(data) is bool,
    "integer": lambda data: type(data) is int,
    "number": lambda data: type(data) is int or (type(data) is float and math.isfinite(data)),
    "null": lambda data: data is None,
}
"""No subclasses, and no 1.0 for an integer: those are open."""


def _type(wanted: Any, data: Any, _schema: Schema, _whole: Schema) -> bool:
    return any(_TYPES[name](data) for name in ([wanted] if isinstance(wanted, str) else wanted))


def _enum(wanted: Any, data: Any, _schema: Schema, _whole: Schema) -> bool:
    return not isinstance(data, list | dict) and any(
        type(data) is type(allowed) and data == allowed for allowed in wanted
    )


def _const(wanted: Any, data: Any, schema: Schema, whole: Schema) -> bool:
    return _enum((wanted,), data, schema, whole)


def _pattern(wanted: Any, data: Any, _schema: Schema, _whole: Schema) -> bool:
    return not isinstance(data, str) or re.search(portable(wanted), data) is not None


def _properties(wanted: Any, data: Any, _schema: Schema, whole: Schema) -> bool:
    return not isinstance(data, dict) or all(
        conforms(whole, wanted[key], value) for key, value in data.items() if key in wanted
    )


def _additional(wanted: Any, data: Any, schema: Schema, whole: Schema) -> bool:
    if not isinstance(data, dict) or wanted is True:
        return True
    known = schema.get("properties", {})
    return all(wanted is not False and conforms(whole, wanted, data[key]) for key in data if key not in known)


def _items(wanted: Any, data: Any, _schema: Schema, whole: Schema) -> bool:
    return not isinstance(data, list) or all(conforms(whole, wanted, item) for item in data)


def _unique(wanted: Any, data: Any, _schema: Schema, _whole: Schema) -> bool:
    if wanted is False or not isinstance(data, list):
        return True
    return all(type(item) is str for item in data) and len(set(data)) == len(data)


def _dependencies(wanted: Any, data: Any, _schema: Schema, _whole: Schema) -> bool:
    return not isinstance(data, dict) or all(
        isinstance(others, list) and all(other in data for other in others)
        for key, others in wanted.items()
        if key in data
    )


def _required(wanted: Any, data: Any, _schema: Schema, _whole: Schema) -> bool:
    return not isinstance(data, dict) or all(key in data for key in wanted)


def _bound(kind: type | tuple[type, ...], holds: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    """A keyword that bounds data of some kinds and says nothing of others."""
    return lambda wanted, data, _schema, _whole: not isinstance(data, kind) or holds(data, wanted)


_KEYWORDS: Final[Mapping[str, Callable[..., bool]]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "dependencies": _dependencies,
    "items": _items,
    "uniqueItems": _unique,
    "minimum": _bound((int, float), lambda data, least: data >= least),
    "maximum": _bound((int, float), lambda data, most: data <= most),
    "minLength": _bound(str, lambda data, least: len(data) >= least),
    "maxLength": _bound(str, lambda data, most: len(data) <= most),
    "minItems": _bound(list, lambda data, least: len(data) >= least),
    "maxItems": _bound(list, lambda data, most: len(data) <= most),
    "minProperties": _bound(dict, lambda data, least: len(data) >= least),
    "maxProperties": _bound(dict, lambda data, most: len(data) <= most),
}
