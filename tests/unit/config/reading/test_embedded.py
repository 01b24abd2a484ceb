"""The way from an embedded text back to the file around it."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paictl.config.reading.nested import embedded_source
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.source import Source, Span, place_of
from paictl.config.reading.yamltree import parse_yaml

INNER = st.text(alphabet="ab:'\"\\ \n\té中#-", min_size=1, max_size=50)


def embedded_in(text: str, key: str = "k") -> Source:
    root = parse_yaml(Source("x", text)).root
    assert isinstance(root, MappingNode)
    scalar = root.text(key)
    assert scalar is not None
    return embedded_source(scalar)


def check_alignment(text: str) -> None:
    """Each character that is no white space leads to the same one in the file, or to the escape that stands for it."""
    inner = embedded_in(text)
    last = -1
    for offset, character in enumerate(inner.text):
        at = inner.to_root(offset)
        if character.isspace():
            continue
        assert at > last, "two characters lead to the same place"
        last = at
        assert text[at] == character or text[at] == "\\", (offset, character, text[at])


@settings(max_examples=300)
@given(INNER, st.sampled_from(["'", '"', "|", ">"]), st.integers(10, 80), st.booleans(), st.booleans())
@example("a\n\n\n b\n", "|", 20, False, True)
@example("  a\nb", "|", 20, False, False)
@example("a b a b a b a b a b a b", ">", 10, False, False)
@example('\\"\\\\\n', '"', 10, False, True)
def test_alignment(inner: str, style: str, width: int, unicode: bool, windows: bool) -> None:
    text = yaml.dump(
        {"before": 1, "k": inner, "z": 2}, default_style=style, width=width, allow_unicode=unicode, sort_keys=False
    )
    written = text.replace("\n", "\r\n") if windows else text
    check_alignment(written)


@pytest.mark.parametrize(
    "text",
    [
        "k: |\n  a: 1\n\n  b:\n    - c\nz: 1\n",
        "k: |2\n    a: 1\n   b: 2\n",
        "k: |+ # comment\n  a\n\n\nz: 1\n",
        "k: &anchor |\n  a\n  b\n",
        "k: !!str >-\n  a\n  b\n\n  c\n",
        "k: !!str 'it''s\n  so\n\n  good'\n",
        'k: "a\\x41\\u00e9\\U0001F600 \\\n    b\\\n    c"\n',
        "k: plain text\n  over two lines\nz: 1\n",
        "k: |\r\n  a: 1\r\n    b: 2\r\n\r\n  c: 3\r\nz: 1\r\n",
        "{k: 'a b', z: 1}",
    ],
)
def test_alignment_of_written_forms(text: str) -> None:
    check_alignment(text)


def test_a_place_in_an_embedded_text_is_that_of_the_file() -> None:
    inner = embedded_in("a: 1\nk: |\n    x: 1\n    y: [2\nz: 3\n")
    issue = parse_yaml(inner).issues[0]
    assert str(place_of(issue.at)) == "x:4:11" or place_of(issue.at).line == 4
    assert str(place_of(Span(inner, inner.text.index("y"), inner.text.index("y") + 1))) == "x:4:5"


def test_an_empty_text_stands_where_its_string_does() -> None:
    inner = embedded_in("a: 1\nk: ''\n")
    assert place_of(Span(inner, 0, 0)).line == 2
