"""Strategies of data and of YAML texts that people could have written: comments, blank lines, braces, blocks."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

KEYS = ("a", "b", "cluster", "rest-server", "x.y", "true", "9")
SCALARS = st.one_of(
    st.integers(-20, 20),
    st.booleans(),
    st.none(),
    st.floats(-9, 9, width=16),
    st.sampled_from(
        ["plain", "two words", "no", "12", "# no comment", "line one\nline two\n", "tail\n\n", "it's: {x}", ""]
    ),
)
DATA = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=12,
)
MAPPINGS = st.dictionaries(st.sampled_from(KEYS), DATA, max_size=5)


class Writer:
    """Writes data as YAML in a style that it draws; collects the comments that it wrote."""

    def __init__(self, draw: Any, word: str) -> None:
        self.draw = draw
        self.word = word
        self.comments: list[str] = []
        self.lines: list[str] = []

    def chance(self, of: int = 4) -> bool:
        return bool(self.draw(st.integers(0, of - 1)) == 0)

    def comment(self) -> str:
        self.comments.append(f"# {self.word} {len(self.comments)}")
        return self.comments[-1]

    def document(self, data: dict[str, Any]) -> str:
        if self.chance(6):
            self.lines.append("---")
        if self.chance():
            self.lines.append(self.comment())
        if data and self.chance(8):
            self.lines.append(json.dumps(data))
        elif data:
            self.mapping(data, 0)
        if self.chance():
            self.lines.append(self.comment())
        newline = str(self.draw(st.sampled_from(["\n", "\n", "\r\n"])))
        return newline.join(self.lines) + str(self.draw(st.sampled_from(["\n", "\n\n", ""])))

    def mapping(self, data: dict[str, Any], indent: int) -> None:
        for key, value in data.items():
            if self.chance(6):
                self.lines.append("")
            if self.chance():
                self.lines.append(" " * indent + self.comment())
            self.entry(" " * indent + (key if key not in ("true", "9") else f'"{key}"') + ":", value, indent)
            if self.chance(6):
                self.lines.append(" " * (indent + self.draw(st.sampled_from([0, 2]))) + self.comment())

    def entry(self, head: str, value: Any, indent: int) -> None:
        step = self.draw(st.sampled_from([2, 4]))
        if isinstance(value, dict) and value and not self.chance(6):
            self.lines.append(head + (f"  {self.comment()}" if self.chance() else ""))
            self.mapping(value, indent + step)
        elif isinstance(value, list) and value and not self.chance(3):
            self.lines.append(head)
            margin = " " * (indent + self.draw(st.sampled_from([0, step])))
            self.lines.extend(f"{margin}- {json.dumps(item)}" for item in value)
        elif isinstance(value, str) and value.endswith("\n"):
            self.lines.append(f"{head} {'|+' if value.endswith(chr(10) * 2) else '|'}")
            self.lines.extend(" " * (indent + step) + line if line else "" for line in value.split("\n")[:-1])
        else:
            written = "" if value is None and self.chance(2) else json.dumps(value)
            self.lines.append(f"{head} {written}".rstrip() + (f" {self.comment()}" if self.chance() else ""))


@st.composite
def texts(draw: Any, word: str) -> tuple[str, dict[str, Any], list[str]]:
    """(text, data, comments): the comments all begin with ``# <word>``."""
    data = draw(MAPPINGS)
    writer = Writer(draw, word)
    text = writer.document(data)
    return text, data, writer.comments
