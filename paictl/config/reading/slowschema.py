"""The pure-Python validator, made to answer exactly as jsonschema-rs does.

The two differ where Python's habits differ from JSON's: `$` in a pattern matches before a last line end, `\\d` matches
digits of every script, and infinity is a number. Imported only where jsonschema-rs is not installed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft7Validator, TypeChecker, ValidationError, validators

from paictl.config.reading.schema import Schema, portable


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Schema) -> Iterator[ValidationError]:
    if validator.is_type(instance, "string") and not portable(pattern).search(instance):
        yield ValidationError("pattern")


def _pattern_properties(
    validator: Any, patterns: dict[str, Schema], instance: Any, _schema: Schema
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for name, value in instance.items():
                if portable(pattern).search(name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    patterns = [portable(pattern) for pattern in schema.get("patternProperties", {})]
    declared = schema.get("properties", {})
    extra = [name for name in instance if name not in declared and not any(p.search(name) for p in patterns)]
    if isinstance(wanted, dict):
        for name in extra:
            yield from validator.descend(instance[name], wanted, path=name)
    elif wanted is False and extra:
        yield ValidationError("additionalProperties")


def _is_number(_checker: TypeChecker, instance: Any) -> bool:
    if isinstance(instance, float):
        return math.isfinite(instance)  # JSON has no infinity
    return isinstance(instance, int) and not isinstance(instance, bool)


_extend: Any = validators.extend  # untyped in its stubs
Validator: Any = _extend(
    Draft7Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
    type_checker=Draft7Validator.TYPE_CHECKER.redefine_many({"number": _is_number}),
)
