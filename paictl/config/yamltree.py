"""YAML text → nodes, without recursion, with everything suspicious noted on the way.

The scanner is libyaml's (through PyYAML's events); composing is ours, because PyYAML's composer forgets duplicate
keys, expands alias bombs and recurses as deep as the input says. Values are read as YAML 1.1, as OpenPAI's Python
tools and HiveD read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from paictl.config.nodes import Entry, Mapping, Node, Scalar, Sequence
from paictl.config.problem import Located, Span
from paictl.config.source import Source

MAX_DEPTH = 64
"""Deepest nesting that is read; real files stay below 12."""

MAX_EXPANSION = 5_000_000
"""Most nodes a document may have once its aliases are written out."""

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Trouble(Enum):
    """What the reader can stumble over; each has a rule of its own under `rules/text`."""

    SYNTAX = auto()
    TAB = auto()
    DUPLICATE_KEY = auto()
    ODD_KEY = auto()
    UNKNOWN_TAG = auto()
    ALIAS_CYCLE = auto()
    ALIAS_BOMB = auto()
    UNKNOWN_ALIAS = auto()
    TOO_DEEP = auto()
    MORE_DOCUMENTS = auto()
    EMPTY = auto()
    ENCODING = auto()
    BYTE_ORDER_MARK = auto()
    SURPRISING_NUMBER = auto()


@dataclass(frozen=True, slots=True)
class Mishap:
    """Something noted while reading: what, where, and the words a rule needs for its message."""

    trouble: Trouble
    at: Located
    detail: str = ""
    other: Located | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """A parsed document: `root` is None where nothing could be read; `fatal` says that reading broke off."""

    root: Node | None
    mishaps: tuple[Mishap, ...]
    fatal: bool = False


def parse_yaml(source: Source) -> Tree:
    """Read the first document of a source; never raises for anything the text may hold."""
    tab = _leading_tab(source)
    builder = _Builder(source)
    try:
        builder.run()
    except yaml.MarkedYAMLError as error:
        if tab is not None:
            builder.note(Trouble.TAB, tab)
        else:
            builder.note(Trouble.SYNTAX, _error_span(source, error), _reason(error))
        return Tree(builder.root, tuple(builder.mishaps), fatal=True)
    except yaml.YAMLError as error:
        offset = getattr(error, "position", 0)
        builder.note(Trouble.SYNTAX, Span(source, offset, offset + 1), _reader_reason(error))
        return Tree(None, tuple(builder.mishaps), fatal=True)
    except _GiveUpError:
        return Tree(None, tuple(builder.mishaps), fatal=True)
    return Tree(builder.root, tuple(builder.mishaps))


class _GiveUpError(Exception):
    """Reading cannot go on; the reason has been noted."""


class _Builder:
    """One pass over the events; `stack` holds the open collections, so that depth costs no Python frames."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.mishaps: list[Mishap] = []
        self.root: Node | None = None
        self.stack: list[Sequence | Mapping] = []
        self.pending: list[Scalar | None] = []
        self.anchors: dict[str, Node] = {}
        self.sizes: dict[int, int] = {}
        self.extra = 0
        self.counts: list[int] = []
        self.nodes = 0

    def note(self, trouble: Trouble, at: Located, detail: str = "", other: Located | None = None) -> None:
        self.mishaps.append(Mishap(trouble, at, detail, other))

    def run(self) -> None:
        handlers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.ScalarEvent: self.scalar,
            yaml.MappingStartEvent: self.open,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.AliasEvent: self.alias,
        }
        documents = 0
        for event in _events(self.source.text):
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    start = _offsets(event)[0]
                    self.note(Trouble.MORE_DOCUMENTS, Span(self.source, start, start + 3))
                    return
        if documents == 0 or (isinstance(self.root, Scalar) and self.root.tag == "null"):
            self.root = None
            self.note(Trouble.EMPTY, Span(self.source, 0, 0))

    def scalar(self, event: yaml.ScalarEvent) -> None:
        start, end = _offsets(event)
        style = event.style
        if style in ("|", ">"):  # libyaml ends a block at the start of the next token
            end = start + len(self.source.text[start:end].rstrip())
        node = Scalar(self.source, start, end, event.value, None if style == "" else style)
        if event.tag is not None:
            self.tagged(node, event.tag)
        elif node.plain:
            node.tag, node.value, surprising = resolve(event.value)
            if surprising:
                self.note(Trouble.SURPRISING_NUMBER, node, str(node.value))
        self.add(node, event.anchor)

    def tagged(self, node: Scalar, tag: str) -> None:
        short = tag.removeprefix("tag:yaml.org,2002:")
        if short == "str" or tag == "!":
            return
        if short in ("int", "float", "bool", "null"):
            node.tag, node.value, _ = resolve(node.text)
        else:
            self.note(Trouble.UNKNOWN_TAG, node, tag)

    def open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        kind = Mapping if isinstance(event, yaml.MappingStartEvent) else Sequence
        node = kind(self.source, *_offsets(event))
        if event.tag is not None and event.tag not in ("!", *_COLLECTION_TAGS):
            self.note(Trouble.UNKNOWN_TAG, node, event.tag)
        if len(self.stack) >= MAX_DEPTH:
            self.note(Trouble.TOO_DEEP, Span(self.source, node.start, node.start + 1), str(MAX_DEPTH))
            raise _GiveUpError
        self.add(node, event.anchor)
        self.stack.append(node)
        self.pending.append(None)
        self.counts.append(self.nodes + self.extra)

    def close(self, event: yaml.CollectionEndEvent) -> None:
        node = self.stack.pop()
        self.pending.pop()
        # A block collection ends before the next token; a flow collection with its bracket.
        start, end = _offsets(event)
        node.end = end if end > start else max(_end_of(node), node.start)
        self.sizes[id(node)] = self.nodes + self.extra - self.counts.pop() + 1

    def alias(self, event: yaml.AliasEvent) -> None:
        at = Span(self.source, *_offsets(event))
        name = event.anchor or ""
        target = self.anchors.get(name)
        if target is None:
            self.note(Trouble.UNKNOWN_ALIAS, at, name)
            raise _GiveUpError
        if any(target is opened for opened in self.stack):
            self.note(Trouble.ALIAS_CYCLE, at, name, other=target)
            raise _GiveUpError
        self.extra += self.sizes.get(id(target), 1)
        if self.nodes + self.extra > MAX_EXPANSION:
            self.note(Trouble.ALIAS_BOMB, at, name)
            raise _GiveUpError
        self.attach(target)

    def add(self, node: Node, anchor: str | None) -> None:
        self.nodes += 1
        if anchor is not None:
            self.anchors[anchor] = node
        self.attach(node)

    def attach(self, node: Node) -> None:
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self.pending[-1]
        if key is None:
            self.pending[-1] = self.as_key(node)
        else:
            self.pending[-1] = None
            self.put(parent, key, node)

    def as_key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        self.note(Trouble.ODD_KEY, Span(self.source, node.start, node.start + 1))
        return Scalar(self.source, node.start, node.start + 1, f"? {node.start}", '"')

    def put(self, parent: Mapping, key: Scalar, value: Node) -> None:
        if key.plain and key.text == "<<":
            for merged in _merged(value):
                for entry in merged:
                    parent.entries.setdefault(entry.name, entry)
            return
        first = parent.entries.get(key.text)
        if first is not None and parent.start <= first.key.start < key.start:
            self.note(Trouble.DUPLICATE_KEY, key, key.text, other=first.key)
        else:
            parent.entries[key.text] = Entry(key, value)


_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:omap")


def _merged(value: Node) -> Iterator[Mapping]:
    """The mappings that a merge key (`<<`) brings in, the strongest first."""
    if isinstance(value, Mapping):
        yield value
    elif isinstance(value, Sequence):
        yield from value.mappings()


def _end_of(node: Sequence | Mapping) -> int:
    """Offset after the last thing a collection holds."""
    if isinstance(node, Sequence):
        return max((item.end for item in node.items[-1:]), default=node.end)
    last = next(reversed(node.entries.values()), None)
    return max(last.key.end, last.value.end) if last else node.end


def _offsets(event: yaml.Event) -> tuple[int, int]:
    """Character offsets where an event starts and ends; events of a scanner always carry marks."""
    assert event.start_mark is not None  # noqa: S101 - narrows the type
    assert event.end_mark is not None  # noqa: S101
    return event.start_mark.index, event.end_mark.index


def _events(text: str) -> Iterator[yaml.Event]:
    loader = _Loader(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


# --- values -----------------------------------------------------------------------------------------------------------

_resolver: Any = Resolver()  # untyped in its stubs
_constructor = SafeConstructor()
_constructors: dict[str, Callable[[yaml.ScalarNode], bool | int | float]] = {
    "int": _constructor.construct_yaml_int,
    "float": _constructor.construct_yaml_float,
    "bool": _constructor.construct_yaml_bool,
}
Value: TypeAlias = "bool | int | float | str | None"
_known: dict[str, tuple[str, Value, bool]] = {}


def resolve(text: str) -> tuple[str, Value, bool]:
    """(tag, value, surprising) of a plain scalar under YAML 1.1; dates stay text.

    A number is surprising where it is read as another one than the digits say: 012, 12:30, 1_000, 0x1F.
    """
    known = _known.get(text)
    if known is None:
        known = _resolve(text)
        if len(_known) < 100_000:
            _known[text] = known
    return known


def _resolve(text: str) -> tuple[str, Value, bool]:
    tag = str(_resolver.resolve(yaml.ScalarNode, text, (True, False))).rpartition(":")[2]
    if tag == "null":
        return "null", None, False
    construct = _constructors.get(tag)
    if construct is None:
        return ("timestamp" if tag == "timestamp" else "str"), text, False
    try:
        value = construct(yaml.ScalarNode(f"tag:yaml.org,2002:{tag}", text))
    except (ValueError, OverflowError):
        return "str", text, False
    return tag, value, tag != "bool" and not _ORDINARY_NUMBER.match(text)


_ORDINARY_NUMBER = re.compile(
    r"[-+]?(0|[1-9][0-9]*)\Z|[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?\Z|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z"
)


# --- what the scanner says --------------------------------------------------------------------------------------------


def _leading_tab(source: Source) -> Span | None:
    """The first tab in the indentation of a line, the usual reason for a scanner error nobody understands."""
    match = re.search(r"^ *(\t)[ \t]*[^\s#]", source.text, re.MULTILINE)
    return Span(source, match.start(1), match.start(1) + 1) if match else None


def _error_span(source: Source, error: yaml.MarkedYAMLError) -> Span:
    mark = error.problem_mark or error.context_mark
    offset = min(mark.index, max(len(source.text) - 1, 0)) if mark else 0
    return Span(source, offset, min(offset + 1, len(source.text)))


def _reason(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return ": ".join(parts) or "not valid YAML"


def _reader_reason(error: yaml.YAMLError) -> str:
    character = getattr(error, "character", None)
    if isinstance(character, int):
        return f"the character U+{character:04X} is not allowed in YAML"
    return str(getattr(error, "reason", None) or error).splitlines()[0]
