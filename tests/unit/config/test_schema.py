"""Violations: both validators find the same, and each is reported once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.config.reading import schema as schema_module
from paictl.config.reading.kinds import Kind
from paictl.config.reading.load import load_bytes
from paictl.config.reading.nodes import to_data
from paictl.config.reading.schema import SCHEMA_NAMES, Schema, Violation, load_schema, portable, violations
from paictl.config.reading.source import Source
from paictl.config.reading.yamltree import parse_yaml
from tests.unit.config.cases import all_cases
from tools.fuzz_config import mutant

pytest.importorskip("jsonschema_rs")


def found(text: str, name: str, *, fast: bool) -> list[tuple[object, ...]]:
    root = parse_yaml(Source("x", text)).root
    if root is None:
        return []
    return [_seen(violation) for violation in violations(root, to_data(root), name, fast=fast)]


def _seen(violation: Violation) -> tuple[object, ...]:
    key = violation.key.text if violation.key else None
    return violation.keyword, violation.node.start, violation.path, key, violation.missing, repr(violation.wanted)


def with_schema(monkeypatch: pytest.MonkeyPatch, schema: Schema) -> str:
    """A schema of the test's own under a name that no other test uses."""
    name = f"test-{abs(hash(repr(schema)))}"
    original = load_schema
    monkeypatch.setattr(schema_module, "load_schema", lambda wanted: schema if wanted == name else original(wanted))
    return name


CASES = [(case.name, files) for case in all_cases() if (files := case.files)]


@pytest.mark.parametrize("name", sorted(SCHEMA_NAMES.values()))
def test_both_validators_agree_on_every_case_under_every_schema(name: str) -> None:
    for case, files in CASES:
        for data in files.values():
            text = data.decode("utf-8", "replace")
            assert found(text, name, fast=True) == found(text, name, fast=False), case


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_both_validators_agree_on_mutants(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for name, data in mutant(rng, [files for _, files in CASES]).items():
        for document in load_bytes(name, data):
            schema = SCHEMA_NAMES.get(document.kind)
            if document.root is not None and schema is not None:
                fast, slow = (violations(document.root, document.data, schema, fast=fast) for fast in (True, False))
                assert [_seen(violation) for violation in fast] == [_seen(violation) for violation in slow]


def test_both_validators_agree_on_mutants_of_the_corpus(shared: Path) -> None:
    rng = random.Random(5)  # noqa: S311
    paths = sorted((shared / "corpus").rglob("*.y*ml"))
    pool = [{path.name: path.read_bytes()} for path in paths]
    checked = 0
    for _ in range(150):
        for name, data in mutant(rng, pool).items():
            for document in load_bytes(name, data):
                schema = SCHEMA_NAMES.get(document.kind)
                if document.root is not None and schema is not None:
                    fast, slow = (violations(document.root, document.data, schema, fast=f) for f in (True, False))
                    assert [_seen(violation) for violation in fast] == [_seen(violation) for violation in slow]
                    checked += 1
    assert checked > 50


TRICKY: list[tuple[Schema, str]] = [
    ({"properties": {"p": {"pattern": "^[a-z]+$"}}}, 'p: "ab\\n"'),
    ({"properties": {"p": {"pattern": "^(a|b$)"}}}, 'p: "b\\n"'),
    ({"properties": {"p": {"pattern": "^\\$x$"}}}, "p: $x"),
    ({"properties": {"p": {"pattern": "^\\d+$"}}}, "p: '٣'"),
    ({"patternProperties": {"^x\\d$": {"const": 1}}, "additionalProperties": False}, "{x1: 1, x2: 2, x٣: 1, y: 1}"),
    ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": {"type": "null"}}, "{x: 1, y: 1, z: }"),
    ({"properties": {"n": {"type": "number", "minimum": 3, "maximum": 5}}}, "n: .inf"),
    ({"properties": {"n": {"type": "number", "minimum": 3}}}, "n: .nan"),
    ({"properties": {"n": {"type": ["number", "null"]}}}, "n: -.inf"),
    ({"properties": {"n": {"type": "integer", "maximum": 10}}}, "n: 123456789012345678901234567890"),
    ({"properties": {"n": {"type": "integer"}}}, "n: 1.0"),
    ({"properties": {"n": {"enum": ["a", 1, True, None]}}}, "n: 1.0"),
    ({"properties": {"n": {"enum": ["a", 1]}}}, "n: yes"),
    ({"properties": {"n": {"const": False}}}, "n: 0"),
    ({"properties": {"n": {"type": "string", "enum": ["true"]}}}, "n: true"),
    ({"properties": {"n": {"uniqueItems": True}}}, "n: [1, 1.0, true, {a: 1}, {a: 1}]"),
    ({"properties": {"n": {"minLength": 2, "maxLength": 3}}}, "n: 😀"),
    ({"dependencies": {"a": ["b", "c"], "d": ["a"]}}, "{a: 1, d: 1}"),
    ({"required": ["a", "b"], "minProperties": 3}, "{c: 1}"),
    ({"definitions": {"x": {"type": "object", "properties": {"y": {"$ref": "#/definitions/x"}}}},
      "properties": {"z": {"$ref": "#/definitions/x"}}}, "z: {y: {y: 1}}"),
    ({"items": {"items": {"type": "string"}}}, "[[a, 1], [2, b]]"),
    ({"additionalProperties": {"required": ["k"], "additionalProperties": False}}, "{'0': {}, a: {k: 1, l: 2, m: 3}}"),
    ({"additionalProperties": {"type": "object"}}, "{'2': 1, '+1': 2, '01': 3, '1': 4, '-1': 5, '1.0': 6}"),
    ({"additionalProperties": {"type": "object"}}, "{'007': [1], '99999999999999999999999': 2}"),
    ({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}, "{a: &x [1], b: *x}"),
    ({"minItems": 2, "maxItems": 1, "type": "array"}, "[]"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text"), TRICKY)
def test_both_validators_agree_where_python_and_json_differ(
    monkeypatch: pytest.MonkeyPatch, schema: Schema, text: str
) -> None:
    name = with_schema(monkeypatch, schema)
    assert found(text, name, fast=True) == found(text, name, fast=False)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "x1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "x1"]), inner, max_size=3),
)
PARTS: dict[str, st.SearchStrategy[object]] = {
    "type": st.sampled_from(["string", "integer", "object", "array", ["null", "boolean"]]),
    "enum": st.lists(VALUES, min_size=1, max_size=3),
    "const": VALUES,
    "minimum": st.integers(-2, 2),
    "pattern": st.sampled_from(["^[ab]$", "x", "^.*$"]),
    "required": st.lists(st.sampled_from(["a", "b"]), unique=True, min_size=1),
    "minItems": st.integers(1, 2),
    "uniqueItems": st.booleans(),
    "additionalProperties": st.booleans(),
    "patternProperties": st.just({"^x": {"type": "integer"}}),
}
FLAT = st.fixed_dictionaries({}, optional=PARTS)
SCHEMAS = st.recursive(
    FLAT,
    lambda inner: st.tuples(FLAT, inner, inner).map(lambda p: p[0] | {"properties": {"a": p[1]}, "items": p[2]}),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, VALUES)
def test_both_validators_agree_on_any_schema(schema: Schema, value: object) -> None:
    import yaml

    with pytest.MonkeyPatch.context() as monkeypatch:
        name = with_schema(monkeypatch, schema)
        text = yaml.safe_dump(value)
        try:
            assert found(text, name, fast=True) == found(text, name, fast=False)
        finally:
            schema_module._fast_validator.cache_clear()
            schema_module._slow_validator.cache_clear()


def test_a_value_of_a_wrong_type_is_not_also_a_wrong_word(monkeypatch: pytest.MonkeyPatch) -> None:
    name = with_schema(monkeypatch, {"properties": {"a": {"type": "string", "enum": ["true", "false"]}}})
    assert [seen[0] for seen in found("a: true", name, fast=True)] == ["type"]
    assert [seen[0] for seen in found("a: 'yes'", name, fast=True)] == ["enum"]


def test_several_unknown_and_missing_keys_are_each_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    name = with_schema(
        monkeypatch, {"required": ["a", "b"], "properties": {"a": {}, "b": {}}, "additionalProperties": False}
    )
    seen = found("{x: 1, y: 2}", name, fast=True)
    assert [(keyword, key, missing) for keyword, _, _, key, missing, _ in seen] == [
        ("required", None, "a"), ("required", None, "b"),
        ("additionalProperties", "x", None), ("additionalProperties", "y", None),
    ]  # fmt: skip


def test_patterns_mean_what_editors_take_them_for() -> None:
    assert not portable("^a$").search("a\n")
    assert portable(r"^\$$").search("$")
    assert not portable(r"^\d$").search("٣")
    assert portable("^(a$|b)").search("a")


@pytest.mark.parametrize("name", sorted(SCHEMA_NAMES.values()))
def test_our_schemas_use_only_what_both_validators_and_editors_understand(name: str) -> None:
    import jsonschema

    schema = load_schema(name)
    jsonschema.Draft7Validator.check_schema(schema)
    avoided = {"anyOf", "oneOf", "allOf", "not", "if", "propertyNames", "contains", "$defs"}
    for part in _parts(schema):
        assert not avoided & set(part), part
        for pattern in [part.get("pattern"), *part.get("patternProperties", {})]:
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
    assert document.kind is Kind.MASTER_CSV
    assert document.violations == []
