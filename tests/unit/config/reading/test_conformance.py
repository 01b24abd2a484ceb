"""The quick yes: it is never given to what jsonschema finds wrong, and it is given to what people really write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.presets import PRESETS, preset_files
from paictl.config.reading import schema as schema_module
from paictl.config.reading.conformance import conforms, resolved
from paictl.config.reading.load import load
from paictl.config.reading.schema import SCHEMA_NAMES, load_schema
from tests.conftest import ROOT

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    65536,
    2.5,
    1.0,
    float("inf"),
    float("nan"),
    "",
    "x",
    "Ab-1",
    "٣",
    "1",
    "a\n",
    "10.0.0.1",
    "1Gi",
    [],
    ["a", "a"],
    [1, True],
    [[]],
    {},
    {"x": 1},
]


@st.composite
def shaped(draw: st.DrawFn, whole: Any, schema: Any, depth: int = 0) -> Any:
    """Data of the form that a schema describes, with something odd in it here and there."""
    schema = resolved(whole, schema)
    if not isinstance(schema, dict) or depth > 6 or draw(st.integers(0, 14)) == 0:
        return draw(st.sampled_from(ODD))
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if choices:
        return draw(st.sampled_from(choices))
    kinds = schema.get("type", "object" if "properties" in schema else ["string", "integer"])
    kind = kinds if isinstance(kinds, str) else draw(st.sampled_from(kinds))
    least, most = int(schema.get("minimum", -1)), int(schema.get("maximum", 70000))
    match kind:
        case "object":
            known = {
                key: draw(shaped(whole, sub, depth + 1))
                for key, sub in schema.get("properties", {}).items()
                if key in schema.get("required", ()) or draw(st.integers(0, 3)) == 0
            }
            more = draw(st.lists(st.sampled_from(["x", "y-1", "default", "Z"]), unique=True, max_size=2))
            return known | {key: draw(shaped(whole, schema.get("additionalProperties"), depth + 1)) for key in more}
        case "array":
            count = draw(st.integers(0, 3))
            return [draw(shaped(whole, schema.get("items"), depth + 1)) for _ in range(count)]
        case "integer":
            return draw(st.integers(least, most))
        case "number":
            return draw(st.integers(least, most) | st.floats(least, most))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
        case _:
            texts = st.sampled_from([one for one in ODD if isinstance(one, str)])
            return draw(st.from_regex(schema["pattern"]) | texts if "pattern" in schema else texts)


@pytest.mark.parametrize("name", sorted(set(SCHEMA_NAMES.values())))
@given(choice=st.data())
def test_what_conforms_has_nothing_that_jsonschema_finds(name: str, choice: st.DataObject) -> None:
    schema = load_schema(name)
    data = choice.draw(shaped(schema, schema))
    if conforms(schema, schema, data):
        found = [error.message for error in schema_module._validator(name).iter_errors(data)]
        assert not found, data


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"oneOf": [{"type": "string"}]}, "a"),
        ({"type": "object", "patternProperties": {"^a": {"type": "string"}}}, {"a": 1}),
        ({"items": [{"type": "string"}]}, ["a"]),
        ({"dependencies": {"a": {"required": ["b"]}}}, {"a": 1}),
        ({"type": "integer"}, 1.0),
        ({"enum": [1]}, True),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1}]),
    ],
)
def test_what_it_does_not_know_it_leaves_open(schema: dict[str, Any], data: Any) -> None:
    assert not conforms(schema, schema, data)


WRITTEN = sorted([*ROOT.glob("labs/*/*.yaml"), *ROOT.glob("templates/*/service.yaml")])


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_our_own_files_conform_plainly(path: Path) -> None:
    for document in load([str(path)]).documents:
        name = SCHEMA_NAMES.get(document.kind)
        if name is not None and not document.violations:
            schema = load_schema(name)
            assert conforms(schema, schema, document.data), document.path


@pytest.mark.parametrize("preset", PRESETS)
def test_a_right_file_does_not_load_jsonschema(preset: str, tmp_path: Path) -> None:
    for name, text in preset_files(preset).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    says = (
        "import sys; from paictl.cli.main import run; run(['config', 'validate', sys.argv[1]]);"
        "sys.exit('jsonschema' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", says, str(tmp_path)], check=True, cwd=ROOT, timeout=300)
