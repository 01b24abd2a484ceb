"""Violations: each is reported once, and means what editors take the schema for."""

from __future__ import annotations

import pytest

from paictl.config.reading import schema as schema_module
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_bytes
from paictl.config.reading.nodes import to_data
from paictl.config.reading.schema import SCHEMA_NAMES, Schema, Violation, load_schema, violations
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import parse_yaml


def found(text: str, name: str) -> list[tuple[object, ...]]:
    root = parse_yaml(Source("x", text)).root
    assert root is not None
    return [_seen(violation) for violation in violations(root, to_data(root), name)]


def _seen(violation: Violation) -> tuple[object, ...]:
    key = violation.key.text if violation.key else None
    return violation.keyword, violation.path, key or violation.missing


def with_schema(monkeypatch: pytest.MonkeyPatch, schema: Schema) -> str:
    """A schema of the test's own under a name that no other test uses."""
    name = f"test-{abs(hash(repr(schema)))}"
    original = load_schema
    monkeypatch.setattr(schema_module, "load_schema", lambda wanted: schema if wanted == name else original(wanted))
    return name


CIRCLE: Schema = {
    "definitions": {"x": {"type": "object", "properties": {"y": {"$ref": "#/definitions/x"}}}},
    "properties": {"z": {"$ref": "#/definitions/x"}},
}

TRICKY: list[tuple[Schema, str, list[tuple[object, ...]]]] = [
    ({"properties": {"p": {"pattern": "^[a-z]+$"}}}, 'p: "ab\\n"', [("pattern", ("p",), None)]),
    ({"properties": {"p": {"pattern": "^(a|b$)"}}}, 'p: "b\\n"', [("pattern", ("p",), None)]),
    ({"properties": {"p": {"pattern": "^\\$x$"}}}, "p: $x", []),
    ({"properties": {"p": {"pattern": "^\\d+$"}}}, "p: '٣'", [("pattern", ("p",), None)]),
    ({"properties": {"n": {"type": "number", "minimum": 3, "maximum": 5}}}, "n: .inf", [("type", ("n",), None)]),
    ({"properties": {"n": {"type": "number", "minimum": 3}}}, "n: .nan", [("type", ("n",), None)]),
    ({"properties": {"n": {"type": ["number", "null"]}}}, "n: -.inf", [("type", ("n",), None)]),
    (
        {"properties": {"n": {"type": "integer", "maximum": 10}}},
        "n: 12345678901234567890",
        [("maximum", ("n",), None)],
    ),
    ({"properties": {"n": {"type": "integer"}}}, "n: 1.0", []),
    ({"properties": {"n": {"enum": ["a", 1]}}}, "n: yes", [("enum", ("n",), None)]),
    ({"properties": {"n": {"const": False}}}, "n: 0", [("const", ("n",), None)]),
    ({"properties": {"n": {"type": "string", "enum": ["true"]}}}, "n: true", [("type", ("n",), None)]),
    ({"properties": {"n": {"uniqueItems": True}}}, "n: [1, true, {a: 1}]", []),
    ({"properties": {"n": {"uniqueItems": True}}}, "n: [{a: 1}, {a: 1}]", [("uniqueItems", ("n",), None)]),
    ({"properties": {"n": {"maxLength": 1}}}, "n: 😀", []),
    (CIRCLE, "z: {y: {y: 1}}", [("type", ("z", "y", "y"), None)]),
    ({"items": {"items": {"type": "string"}}}, "[[a, 1]]", [("type", (0, 1), None)]),
    ({"additionalProperties": {"type": "object"}}, "{'2': 1, '01': {}}", [("type", ("2",), None)]),
    ({"additionalProperties": {"required": ["k"]}}, "{'0': {}}", [("required", ("0",), "k")]),
    ({"minItems": 2, "maxItems": 1, "type": "array"}, "[]", [("minItems", (), None)]),
]


@pytest.mark.parametrize(("schema", "text", "expected"), TRICKY)
def test_a_schema_means_what_editors_take_it_for(
    monkeypatch: pytest.MonkeyPatch, schema: Schema, text: str, expected: list[tuple[object, ...]]
) -> None:
    assert found(text, with_schema(monkeypatch, schema)) == expected


def test_a_value_of_a_wrong_type_is_not_also_a_wrong_word(monkeypatch: pytest.MonkeyPatch) -> None:
    name = with_schema(monkeypatch, {"properties": {"a": {"type": "string", "enum": ["true", "false"]}}})
    assert [seen[0] for seen in found("a: true", name)] == ["type"]
    assert [seen[0] for seen in found("a: 'yes'", name)] == ["enum"]


def test_several_unknown_and_missing_keys_are_each_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    name = with_schema(
        monkeypatch, {"required": ["a", "b"], "properties": {"a": {}, "b": {}}, "additionalProperties": False}
    )
    seen = found("{x: 1, y: 2}", name)
    assert [(keyword, name) for keyword, _, name in seen] == [
        ("required", "a"),
        ("required", "b"),
        ("additionalProperties", "x"),
        ("additionalProperties", "y"),
    ]


@pytest.mark.parametrize("name", sorted(SCHEMA_NAMES.values()))
def test_our_schemas_use_only_what_the_reader_and_editors_understand(name: str) -> None:
    import jsonschema

    schema = load_schema(name)
    jsonschema.Draft7Validator.check_schema(schema)
    avoided = {"anyOf", "oneOf", "allOf", "not", "if", "propertyNames", "contains", "$defs", "patternProperties"}
    for part in _parts(schema):
        assert not avoided & set(part), part
        pattern = part.get("pattern")
        if isinstance(pattern, str):
            assert not any(word in pattern for word in (r"\s", r"\w", r"\b", "(?", r"\p")), pattern


def _parts(schema: object) -> list[Schema]:
    if isinstance(schema, list):
        return [part for item in schema for part in _parts(item)]
    if not isinstance(schema, dict):
        return []
    nested = [
        part for key, value in schema.items() if key not in ("enum", "const", "default") for part in _parts(value)
    ]
    holder = all(isinstance(value, dict) for value in schema.values())  # properties, definitions: names, not keywords
    return nested if holder and schema else [schema, *nested]


def test_kinds_without_a_schema_have_no_violations() -> None:
    (document,) = load_bytes("master.csv", b"a,1\n")
    assert document.kind is FileKind.MASTER_CSV
    assert document.violations == []
