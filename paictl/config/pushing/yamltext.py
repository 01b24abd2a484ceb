"""Pieces of YAML text: where the lines of an entry begin and end, and how they stand at another indentation.

Used by `merge`. Nothing here is trusted alone: whoever splices text reads the result again.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from paictl.config.reading.nodes import Data, Entry, MappingNode, Node, ScalarNode, SequenceNode

_PROPERTIES_AND_BRACE = re.compile(r"(?:[&!]\S*\s+)*\{")
_KEEP = re.compile(r"[|>][1-9]?\+")


def line_start(text: str, offset: int) -> int:
    """Offset of the first character of the line that holds an offset."""
    return text.rfind("\n", 0, offset) + 1


def line_end(text: str, offset: int) -> int:
    """Offset behind the line end of the line that holds an offset."""
    return text.find("\n", offset) + 1 or len(text)


def column_of(text: str, node: Node) -> int:
    """Characters before a node in its line."""
    return node.start - line_start(text, node.start)


def is_flow(text: str, mapping: MappingNode) -> bool:
    """Whether a mapping is written with braces."""
    return _PROPERTIES_AND_BRACE.match(text, mapping.start) is not None


def stands_alone(text: str, key: ScalarNode) -> bool:
    """Whether nothing but spaces stands before a key in its line."""
    return not text[line_start(text, key.start) : key.start].strip(" ")


def is_alias(entry: Entry) -> bool:
    """Whether the value of an entry was written elsewhere, so that changing it would change that place too."""
    return entry.value.start < entry.key.end


def own_entries(text: str, mapping: MappingNode) -> list[Entry]:
    """The entries that are written as lines of a block mapping itself, not brought in by ``<<``."""
    if is_flow(text, mapping):
        return []
    entries = [entry for entry in mapping if entry.key.start >= mapping.start and stands_alone(text, entry.key)]
    own = sorted(entries, key=lambda entry: entry.key.start)
    column = min((column_of(text, entry.key) for entry in own), default=0)
    return [entry for entry in own if column_of(text, entry.key) == column]


def end_of_entry(text: str, entry: Entry) -> int:
    """Offset behind the last line of a block entry: its value, and the comments that are indented deeper than its key.

    Lines that a ``|+`` block keeps at its end belong to it.
    """
    column = column_of(text, entry.key)
    end = line_end(text, entry.key.end if is_alias(entry) else max(entry.key.end, entry.value.end))
    if _keeps_line_ends(text, entry.value):
        end = _behind_blank_lines(text, end)
    at = end
    while at < len(text):
        following = line_end(text, at)
        line = text[at:following].rstrip("\r\n")
        stripped = line.lstrip(" ")
        deeper = len(line) - len(stripped) > column
        item = (
            isinstance(entry.value, SequenceNode)
            and len(line) - len(stripped) == column
            and stripped[:2] in ("-", "- ")
        )
        if stripped and not (deeper or item):
            break
        at = following
        if stripped:
            end = at
    return end


def _behind_blank_lines(text: str, at: int) -> int:
    while at < len(text) and not text[at : line_end(text, at)].strip():
        at = line_end(text, at)
    return at


def _keeps_line_ends(text: str, node: Node) -> bool:
    while not isinstance(node, ScalarNode):
        if not len(node):
            return False
        node = node.items[-1] if isinstance(node, SequenceNode) else list(node)[-1].value
    return _KEEP.match(text, node.start) is not None


def start_of_entry(text: str, entry: Entry) -> int:
    """Offset of the first line of a block entry: its key, or the comments directly above it, indented as it is."""
    column = column_of(text, entry.key)
    start = line_start(text, entry.key.start)
    while start > 0:
        above = line_start(text, start - 1)
        if text[above:start].startswith(" " * column + "#"):
            start = above
        else:
            break
    return start


def lines_of_entry(text: str, entry: Entry, column: int) -> str:
    """The lines of a block entry with its comments, as they stand where keys are indented by `column`.

    A blank line before the entry goes along; lines that cannot be moved as far to the left stay at the margin.
    """
    start = start_of_entry(text, entry)
    shift = column - column_of(text, entry.key)
    blank = "\n" if start and not text[line_start(text, start - 1) : start].strip() else ""
    lines = text[start : end_of_entry(text, entry)].replace("\r\n", "\n").split("\n")
    return blank + "\n".join(_shifted(line, shift) for line in lines)


def _shifted(line: str, shift: int) -> str:
    if not line or shift >= 0:
        return " " * shift + line if line else line
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(-shift, spaces) :]


class _FlowDumper(yaml.SafeDumper):
    """Writes on one line: no anchors, and escapes where a text has line ends."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_FlowDumper.add_representer(str, _represent_text)


def flow_entry(name: str, data: Data) -> str:
    """An entry on one line, its value with braces and brackets; right in block and in flow mappings."""
    text = yaml.dump(
        {name: data}, Dumper=_FlowDumper, default_flow_style=True, width=2**31, allow_unicode=True, sort_keys=False
    )
    return str(text).strip()[1:-1]


def flow_value(data: Data) -> str:
    """A value on one line."""
    return flow_entry("v", data).removeprefix("v: ")
