"""YAML nodes that remember where they stand, and paths of keys as people write them.

Accessors are *tolerant*: asking a mapping for a section of another shape gives an empty one. The schema has already
reported the wrong shape, so rules never report it again and never have to guard against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from paictl import i18n
from paictl.config.reading.source import Source
from paictl.errors import PaictlError

Data: TypeAlias = "bool | int | float | str | list[Data] | dict[str, Data] | None"
Path: TypeAlias = "tuple[str | int, ...]"


class ScalarNode:
    """A single value.

    `value` is what OpenPAI's tools and HiveD read (YAML 1.1), `text` the characters that were written (without
    quotes), `tag` one of str, int, float, bool, null, timestamp; `plain` says that it stands without quotes.
    """

    __slots__ = ("end", "plain", "source", "start", "style", "tag", "text", "value")

    def __init__(self, source: Source, start: int, end: int, text: str, style: str | None) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.text = text
        self.style = style
        self.plain = style is None
        self.value: bool | int | float | str | None = text
        self.tag = "str"


class SequenceNode:
    """A list of nodes."""

    __slots__ = ("end", "items", "source", "start")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.items: list[Node] = []

    def __iter__(self) -> Iterator[Node]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def mappings(self) -> Iterator[MappingNode]:
        """The items that are mappings."""
        return (item for item in self.items if isinstance(item, MappingNode))

    def scalars(self) -> Iterator[ScalarNode]:
        """The items that are scalars."""
        return (item for item in self.items if isinstance(item, ScalarNode))


class MappingNode:
    """Keys and values in file order; of a key written twice the first counts (TXT005 reports the others)."""

    __slots__ = ("end", "entries", "source", "start")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source = source
        self.start = start
        self.end = end
        self.entries: dict[str, Entry] = {}

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: str) -> Node | None:
        """The value under a key, or None."""
        entry = self.entries.get(key)
        return entry.value if entry else None

    def key(self, key: str) -> ScalarNode | None:
        """The key itself, as a place to point at."""
        entry = self.entries.get(key)
        return entry.key if entry else None

    def mapping(self, key: str) -> MappingNode:
        """The mapping under a key; empty where there is none or it is something else."""
        value = self.get(key)
        return value if isinstance(value, MappingNode) else MappingNode(self.source, self.start, self.start)

    def sequence(self, key: str) -> SequenceNode:
        """The list under a key; empty where there is none or it is something else."""
        value = self.get(key)
        return value if isinstance(value, SequenceNode) else SequenceNode(self.source, self.start, self.start)

    def scalar(self, key: str) -> ScalarNode | None:
        """The scalar under a key, of whatever type, or None."""
        value = self.get(key)
        return value if isinstance(value, ScalarNode) else None

    def text(self, key: str) -> ScalarNode | None:
        """The scalar under a key if it is a string, else None."""
        value = self.get(key)
        return value if isinstance(value, ScalarNode) and isinstance(value.value, str) else None

    def integer(self, key: str) -> int | None:
        """The value under a key if it is an integer (never a boolean), else None."""
        value = self.get(key)
        if isinstance(value, ScalarNode) and isinstance(value.value, int) and not isinstance(value.value, bool):
            return value.value
        return None

    def at(self, *keys: str) -> MappingNode:
        """The mapping below a chain of keys, empty where the chain breaks."""
        node = self
        for key in keys:
            node = node.mapping(key)
        return node


class Entry:
    """One key with its value."""

    __slots__ = ("key", "value")

    def __init__(self, key: ScalarNode, value: Node) -> None:
        self.key = key
        self.value = value

    @property
    def name(self) -> str:
        """The key as text."""
        return self.key.text


Node: TypeAlias = "ScalarNode | SequenceNode | MappingNode"


def to_data(node: Node) -> Data:
    """Plain Python values of a node: dicts with string keys, lists, scalars. Aliased nodes share one object."""
    made: dict[int, Data] = {}

    def convert(node: Node) -> Data:
        if isinstance(node, ScalarNode):
            return node.value
        known = made.get(id(node))
        if known is None:
            if isinstance(node, MappingNode):
                known = {name: convert(entry.value) for name, entry in node.entries.items()}
            else:
                known = [convert(item) for item in node.items]
            made[id(node)] = known
        return known

    return convert(node)


def follow(node: Node, path: Path) -> Node | None:
    """The node at a path of keys and indices, or None."""
    place: Node | None = node
    for step in path:
        if isinstance(place, MappingNode) and isinstance(step, str):
            place = place.get(step)
        elif isinstance(place, SequenceNode) and isinstance(step, int) and step < len(place.items):
            place = place.items[step]
        else:
            return None
    return place


def nearest_node(node: Node, path: Path) -> Node:
    """The node at a path of keys and indices, or the deepest on the way to it that is there."""
    for length in range(len(path), 0, -1):
        candidate = follow(node, path[:length])
        if candidate is not None:
            return candidate
    return node


KeyPath: TypeAlias = "tuple[str, ...]"

_STEP = re.compile(r'("(?:[^"\\]|\\.)*"|[^".\[\]]+)(\.|\Z)')


def dotted(path: Iterable[str | int]) -> str:
    """The path as text; a key that holds a dot or anything else special stands in double quotes, an index in ``[]``."""
    return "".join(_step(step) for step in path).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    plain = step.isprintable() and step and not set(step) & set('."[]')
    return f".{step if plain else json.dumps(step)}"


def parse_dotted(text: str) -> KeyPath:
    """The path that a text means, the inverse of `dotted`; raises `PaictlError` for one that means none."""
    steps: list[str] = []
    at = 0
    while match := _STEP.match(text, at):
        word, dot = match.groups()
        steps.append(json.loads(word) if word.startswith('"') else word)
        at = match.end()
        if not dot:
            return tuple(steps)
    raise PaictlError(
        i18n.text("{text!r} is not a key path", text=text),
        hint='write it as key.key.key, with "..." around a key with dots',
    )
