"""Composing YAML: the same values as PyYAML, places, and whatever a hostile text may hold."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.config.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_data
from paictl.config.reading.source import Source, place_of
from paictl.config.reading.values import resolve
from paictl.config.reading.yamltree import MAX_DEPTH, MAX_EXPANSION, IssueKind, YamlTree, parse_yaml

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def tree(text: str) -> YamlTree:
    return parse_yaml(Source("x", text))


def troubles(text: str) -> list[tuple[str, str]]:
    return [(issue.kind.name, str(place_of(issue.at)).removeprefix("x:")) for issue in tree(text).issues]


def top(text: str) -> MappingNode:
    root = tree(text).root
    assert isinstance(root, MappingNode)
    return root


def written(node: Node) -> str:
    return node.source.text[node.start : node.end]


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20))
VALUES = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4))
)


@settings(max_examples=200)
@given(VALUES, st.booleans(), st.booleans())
def test_what_pyyaml_writes_is_read_back(value: object, flow: bool, unicode: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=unicode)
    result = tree(text)
    assert not result.fatal
    read = None if result.root is None else to_data(result.root)
    assert read == yaml.load(text, Loader)  # noqa: S506 - the safe one in C


@settings(max_examples=300)
@given(st.text(alphabet="ab01:-[]{}&*!|>'\"#%@,? \n\t.~=<", max_size=40))
def test_any_text_is_read_as_pyyaml_reads_it_or_refused(text: str) -> None:
    result = tree(text)
    try:
        expected = list(yaml.load_all(text, Loader))
    except (yaml.YAMLError, ValueError):
        return
    if not result.issues and result.root is not None and not _has_dates(expected[0]):
        assert to_data(result.root) == _with_text_keys(expected[0])


def _has_dates(value: object) -> bool:
    if isinstance(value, dict):
        return any(not isinstance(key, str | int | float | bool | None) or _has_dates(v) for key, v in value.items())
    if isinstance(value, list):
        return any(_has_dates(item) for item in value)
    return not isinstance(value, str | int | float | bool | None) or (isinstance(value, float) and math.isnan(value))


def _with_text_keys(value: object) -> object:
    """Ours has the keys as they are written; only those that are text anyway can be compared."""
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            return _Any()
        return {key: _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


class _Any:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@settings(max_examples=200)
@given(st.text(alphabet="ab01:-[]{}&*!|>'\"#%, \n\té中", max_size=60))
def test_children_stand_inside_their_parents(text: str) -> None:
    result = tree(text)
    if result.root is not None and not result.issues and "*" not in text:
        _check_nesting(result.root, 0, len(text))


def _check_nesting(node: Node, start: int, end: int) -> None:
    assert start <= node.start <= node.end <= end
    if isinstance(node, MappingNode):
        for entry in node:
            _check_nesting(entry.key, node.start, node.end)
            _check_nesting(entry.value, entry.key.start, node.end)
    elif isinstance(node, SequenceNode):
        for item in node:
            _check_nesting(item, node.start, node.end)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k: &a x", "x"),
        ("k: !!str 012", "012"),
        ("k: !!str &a # why\n  'x y' # c", "'x y'"),
        ("k: &a !<tag:yaml.org,2002:int> 3", "3"),
        ("k: &a", ""),
        ("k: &a |\n  x\n\n# c\nz: 1", "|\n  x"),
        ("k: plain text # c", "plain text"),
        ("k: two\n  lines\nz: 1", "two\n  lines"),
    ],
)
def test_a_scalar_stands_where_its_value_does(text: str, expected: str) -> None:
    value = top(text).get("k")
    assert value is not None
    assert written(value) == expected


def test_a_value_after_letters_outside_ascii_has_its_place_in_characters() -> None:
    assert troubles("é: 中\nö: \x01\n") == [("SYNTAX", "2:4")]
    assert troubles("é: 中\nö: b: c\n") == [("SYNTAX", "2:4")]
    assert troubles("a: \ufffe\n") == [("SYNTAX", "1:4")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n\tb: 1\n", [("TAB", "2:1")]),
        ("a:\n  b: 1\n  \tc: 2\n", [("TAB", "3:3")]),
        ("a: |\n \tfine\nb: [\n", [("TAB", "2:2")]),
        ("a: 'x\n\tfine'\nb: ]\n", [("SYNTAX", "3:4")]),
        ("a: {\n\tb: 1}\nc: d: e\n", [("SYNTAX", "3:4")]),
        ("a: [1,\n\t2]\n", []),
    ],
)
def test_a_tab_is_blamed_only_where_the_scanner_stumbles_over_it(text: str, expected: list[tuple[str, str]]) -> None:
    assert troubles(text) == expected


def test_merge_keys_give_way_to_own_keys_wherever_these_stand() -> None:
    expected = {"k": 2, "j": 1}
    for body in ("{<<: *x, k: 2}", "{k: 2, <<: *x}"):
        text = f"a: &x {{k: 1, j: 1}}\nb: {body}\n"
        assert troubles(text) == []
        assert to_data(top(text).mapping("b")) == expected
    assert troubles("a: &x {k: 1}\n<<: *x\nk: 2\n") == []
    assert to_data(top("a: &x {k: 1}\n<<: *x\nk: 2\n")) == {"a": {"k": 1}, "k": 2}


def test_of_merged_mappings_the_first_wins_as_in_pyyaml() -> None:
    text = "a: &a {k: 1}\nb: &b {k: 2, j: 2}\nc: {<<: [*a, *b]}\n"
    assert to_data(top(text).mapping("c")) == yaml.safe_load(text)["c"] == {"k": 1, "j": 2}


def test_a_key_written_twice_beside_a_merge_is_still_a_duplicate() -> None:
    assert troubles("a: &a {k: 1}\nb: {<<: *a, k: 2, k: 3}\n") == [("DUPLICATE_KEY", "2:19")]


def test_what_cannot_be_merged_is_said() -> None:
    assert troubles("<<: 1\na: 2\n") == [("SYNTAX", "1:5")]
    assert troubles("a: {<<: [{b: 1}, 2]}\n") == [("SYNTAX", "1:18")]


def test_an_alias_as_key_is_the_text_it_stands_for() -> None:
    root = top("a: &k name\n*k : 1\n")
    assert root.integer("name") == 1
    key = root.key("name")
    assert key is not None
    assert written(key) == "*k"
    assert troubles("a: &k name\n*k : 1\n*k : 2\n") == [("DUPLICATE_KEY", "3:1")]


def test_a_list_as_key_is_reported_and_no_more_is_said_of_it() -> None:
    assert troubles("[a, b]: {c: 1}\nd: 2\n") == [("ODD_KEY", "1:1")]
    assert to_data(top("[a, b]: {c: 1}\nd: 2\n")) == {"d": 2}


# --- hostile input ----------------------------------------------------------------------------------------------------


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 60)]
    assert [name for name, _ in troubles("\n".join(lines))] == ["ALIAS_BOMB"]


def test_aliases_may_stand_for_as_many_values_as_the_largest_cluster_has() -> None:
    text = "n: &n {a: [0, 1, 2, 3, 4, 5, 6, 7]}\nall: [" + ", ".join(["*n"] * 16_384) + "]"
    assert troubles(text) == []
    assert MAX_EXPANSION > 16_384 * 20


def test_cycles_are_refused() -> None:
    for text in ("a: &a [*a]", "&a {b: *a}", "a: &a\n  b: &b\n    c: *a\n", "&a [[[*a]]]"):
        assert [name for name, _ in troubles(text)] == ["ALIAS_CYCLE"]


def test_depth_is_limited_with_and_without_aliases() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert troubles(deep) == []
    assert [name for name, _ in troubles(f"[{deep}]")] == ["TOO_DEEP"]
    ladder = "\n".join(["a0: &a0 [[[[[[1]]]]]]"] + [f"a{n}: &a{n} [[[[[*a{n - 1}]]]]]" for n in range(1, 400)])
    assert [name for name, _ in troubles(ladder)] == ["TOO_DEEP"]
    to_data(tree(ladder).root or tree("a").root or ScalarNode(Source("x", ""), 0, 0, "", None))


@pytest.mark.parametrize(
    "text",
    ["0x" + "f" * 6000, "0b" + "1" * 20_000, "9" * 6000, ":".join(["1"] * 300_000), "1" * 10**6 + ".5", "_" * 10**5],
)
def test_numbers_without_end_are_text(text: str) -> None:
    value = top(f"a: {text}\n").get("a")
    assert isinstance(value, ScalarNode)
    assert value.value == text


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 10_000, "&a " * 10_000, "!a " * 10_000]
)
def test_openings_without_end_are_refused(text: str) -> None:
    assert tree(text).fatal


def test_long_lines_and_many_keys_are_read() -> None:
    assert troubles("a: " + "x" * 10**6) == []
    assert [name for name, _ in troubles("x" * 10**6 + ": 1")] == ["SYNTAX"]
    assert len(top("".join(f"k{n}: 1\n" for n in range(30_000)))) == 30_000


@pytest.mark.parametrize(
    ("text", "tag", "value", "surprising"),
    [
        ("012", "int", 10, True),
        ("0x1F", "int", 31, True),
        ("12:30", "int", 750, True),
        ("1_000", "int", 1000, True),
        ("0b11", "int", 3, True),
        ("1e3", "str", "1e3", False),
        ("1.0e+3", "float", 1000.0, False),
        ("1.5:30", "str", "1.5:30", False),
        ("no", "bool", False, False),
        ("~", "null", None, False),
        ("", "null", None, False),
        ("2001-01-01", "timestamp", "2001-01-01", False),
        ("-.inf", "float", -math.inf, False),
        ("0", "int", 0, False),
        ("-7", "int", -7, False),
        ("0x", "str", "0x", False),
        ("089", "str", "089", False),
        ("=", "value", "=", False),
        ("<<", "merge", "<<", False),
    ],
)
def test_plain_values_are_read_as_yaml_1_1(text: str, tag: str, value: object, surprising: bool) -> None:
    found = resolve(text)
    assert found[1:] == (value, surprising)
    assert found[0] == (tag if tag not in ("value", "merge") else "str")


def test_an_empty_file_comments_and_null_are_empty() -> None:
    for text in ("", "# c\n", "---\n", "null\n", "~", "--- # c\n...\n", "\n\n"):
        assert troubles(text) == [("EMPTY", "1:1")]


def test_only_the_first_document_is_read() -> None:
    result = tree("a: 1\n---\nb: ]\n")
    assert [issue.kind for issue in result.issues] == [IssueKind.MORE_DOCUMENTS]
    assert result.root is not None
    assert to_data(result.root) == {"a": 1}


@pytest.mark.parametrize("text", ["! 0", "! '0'", "! x", "a: ! 012"])
def test_a_lone_exclamation_mark_is_read_as_pyyaml_reads_it(text: str) -> None:
    root = tree(text).root
    assert root is not None
    assert to_data(root) == yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('user: "openpai\npassword: x\n', "1:7", "never closed"),
        ("a: 1\nb:\u00a02\nc: 3\n", "2:3", "U+00A0"),
        ('user: "openpai\npassword: "secret"\n', "1:7", "only closed in line 2"),
        ("- hostname: a\n  hostip:10.0.0.1\n  type: x\n", "2:9", "a space is missing"),
        ("user admin\npassword: x\n", "1:1", "a colon is missing after 'user'"),
        ("a: 1\nlist\n- b\n", "2:1", "a colon is missing after 'list'"),
        ("a: 1\n  b: 2\n", "2:3", "deeper than line 1"),
        ("a: b: c\n", "1:4", "holds a colon"),
        ("a: {b: 1\nc: 2\n", "1:4", "is not closed"),
        ("a: ['1' '2']\n", "1:9", "a comma is missing"),
        ("a:\n    b: 1\n  c: 2\n", "3:3", "fits no line above"),
        ("a: |\nb: 1\n  c: 2\n d: 1\n", "3:3", "deeper than line 2"),
    ],
)
def test_the_place_of_a_mistake_is_where_it_was_made(text: str, place: str, words: str) -> None:
    (issue,) = tree(text).issues
    assert str(place_of(issue.at)) == f"x:{place}"
    assert words in issue.detail
