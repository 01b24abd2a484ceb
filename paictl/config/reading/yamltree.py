"""YAML text → nodes, without recursion, with everything suspicious noted on the way.

The scanner is libyaml's (through PyYAML's events); composing is ours, because PyYAML's composer forgets duplicate
keys, expands alias bombs and recurses as deep as the input says. Values are read as YAML 1.1, as OpenPAI's Python
tools and HiveD read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import yaml

from paictl.config.reading.nodes import Entry, MappingNode, Node, ScalarNode, SequenceNode
from paictl.config.reading.source import Located, Source, Span
from paictl.config.reading.values import resolve
from paictl.frozen import frozen

if TYPE_CHECKING:
    from paictl.config.reading.yamlerrors import ScanFailure

MAX_DEPTH = 64
"""Deepest nesting that is read; real files stay below 12."""

MAX_EXPANSION = 500_000
"""Most nodes that the aliases of a document may stand for together; enough for 16,384 nodes made from one anchor."""

MAX_VALUES = 600_000
"""Most values that are read, twice those of 16,384 nodes with every device listed; each takes some 600 bytes."""

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class IssueKind(Enum):
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
    TOO_MANY = auto()
    MORE_DOCUMENTS = auto()
    EMPTY = auto()
    ENCODING = auto()
    BYTE_ORDER_MARK = auto()
    SURPRISING_NUMBER = auto()


@frozen
class ReadIssue:
    """Something noted while reading: what, where, and the words a rule needs for its message."""

    kind: IssueKind
    at: Located
    detail: str = ""
    other: Located | None = None
    hint: str = ""


@frozen
class YamlTree:
    """A parsed document: `root` is None where nothing could be read; `fatal` says that reading broke off."""

    root: Node | None
    issues: tuple[ReadIssue, ...]
    fatal: bool = False


def parse_yaml(source: Source) -> YamlTree:
    """Read the first document of a source; never raises for anything the text may hold."""
    builder = _Builder(source)
    try:
        builder.run()
    except yaml.YAMLError as error:
        from paictl.config.reading.yamlerrors import explained, unreadable  # late: most files can be read

        if isinstance(error, yaml.MarkedYAMLError):
            builder.note_failure(explained(source, error, builder.quoted))
            return YamlTree(builder.root, tuple(builder.issues), fatal=True)
        builder.note(IssueKind.SYNTAX, *unreadable(source, error))
        return YamlTree(None, tuple(builder.issues), fatal=True)
    except _GiveUpError:
        return YamlTree(None, tuple(builder.issues), fatal=True)
    return YamlTree(builder.root, tuple(builder.issues))


class _GiveUpError(Exception):
    """Reading cannot go on; the reason has been noted."""


class _Open:
    """A collection that is being read; `height` counts the levels below it, `merges` what stands under `<<`."""

    __slots__ = ("anchor", "before", "height", "key", "merges", "node")

    def __init__(self, node: SequenceNode | MappingNode, anchor: str | None, before: int) -> None:
        self.node = node
        self.anchor = anchor
        self.before = before
        self.key: ScalarNode | None = None
        self.height = 0
        self.merges: list[Node] = []


@frozen
class _Anchored:
    """A node with a name; `size` and `height` say what an alias to it stands for."""

    node: Node
    size: int = 1
    height: int = 0


class _Builder:
    """One pass over the events; `stack` holds the open collections, so that depth costs no Python frames."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.issues: list[ReadIssue] = []
        self.root: Node | None = None
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Anchored] = {}
        self.written = 0
        self.repeated = 0
        self.quoted: ScalarNode | None = None

    def note(self, kind: IssueKind, at: Located, detail: str = "", other: Located | None = None) -> None:
        self.issues.append(ReadIssue(kind, at, detail, other))

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
                    self.note(IssueKind.MORE_DOCUMENTS, Span(self.source, *offsets(event)))
                    return
        if documents == 0 or (isinstance(self.root, ScalarNode) and self.root.tag == "null"):
            self.root = None
            self.note(IssueKind.EMPTY, Span(self.source, 0, 0))

    def note_failure(self, failure: ScanFailure) -> None:
        """Note why the scanner gave up."""
        kind = IssueKind.TAB if failure.tab else IssueKind.SYNTAX
        self.issues.append(ReadIssue(kind, failure.at, failure.message, hint=failure.hint))

    def scalar(self, event: yaml.ScalarEvent) -> None:
        start, end = offsets(event)
        style = event.style
        if event.anchor is not None or event.tag is not None:
            start = after_properties(self.source.text, start, end)
        if style in ("|", ">"):  # libyaml ends a block at the start of the next token
            end = start + len(self.source.text[start:end].rstrip())
        node = ScalarNode(self.source, start, end, event.value, style or None)
        if style in ("'", '"'):
            self.quoted = node
        if event.tag not in (None, "!"):
            self.tagged(node, event.tag, Span(self.source, offsets(event)[0], end))
        elif node.plain if event.tag is None else event.implicit[0]:
            node.tag, node.value, surprising = resolve(event.value)
            if surprising:
                self.note(IssueKind.SURPRISING_NUMBER, node, str(node.value))
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(node)
        self.count(node.start)
        self.attach(node)

    def count(self, at: int) -> None:
        self.written += 1
        if self.written > MAX_VALUES:
            self.note(IssueKind.TOO_MANY, Span(self.source, at, at))
            raise _GiveUpError

    def tagged(self, node: ScalarNode, tag: str, at: Span) -> None:
        short = tag.removeprefix("tag:yaml.org,2002:")
        if short == "str":
            return
        if short in ("int", "float", "bool", "null"):
            node.tag, node.value, _ = resolve(node.text)
        else:
            self.note(IssueKind.UNKNOWN_TAG, at, tag)

    def open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        kind = MappingNode if isinstance(event, yaml.MappingStartEvent) else SequenceNode
        node = kind(self.source, *offsets(event))
        if event.tag is not None and event.tag not in ("!", *_COLLECTION_TAGS):
            self.note(IssueKind.UNKNOWN_TAG, Span(self.source, node.start, node.end), event.tag)
        if len(self.stack) >= MAX_DEPTH:
            self.note(IssueKind.TOO_DEEP, Span(self.source, node.start, node.start + 1), str(MAX_DEPTH))
            raise _GiveUpError
        self.count(node.start)
        self.attach(node)
        self.stack.append(_Open(node, event.anchor, self.written + self.repeated))
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(node)

    def close(self, event: yaml.CollectionEndEvent) -> None:
        opened = self.stack.pop()
        node = opened.node
        # A block collection ends before the next token; a flow collection with its bracket.
        start, end = offsets(event)
        node.end = end if end > start else max(_end_of(node), node.start)
        if isinstance(node, MappingNode):
            for value in opened.merges:  # only now is all of it read
                self.merge(node, value)
        self.rise(opened.height)
        if opened.anchor is not None and self.anchors[opened.anchor].node is node:
            size = self.written + self.repeated - opened.before + 1
            self.anchors[opened.anchor] = _Anchored(node, size, opened.height + 1)

    def rise(self, height: int) -> None:
        """Note in the innermost open collection that it holds one whose own content has `height` levels."""
        if self.stack:
            self.stack[-1].height = max(self.stack[-1].height, height + 1)

    def alias(self, event: yaml.AliasEvent) -> None:
        at = Span(self.source, *offsets(event))
        name = event.anchor or ""
        target = self.anchors.get(name)
        if target is None:
            self.note(IssueKind.UNKNOWN_ALIAS, at, name)
            raise _GiveUpError
        if any(target.node is opened.node for opened in self.stack):
            self.note(IssueKind.ALIAS_CYCLE, at, name, other=target.node)
            raise _GiveUpError
        if len(self.stack) + target.height > MAX_DEPTH:
            self.note(IssueKind.TOO_DEEP, at, str(MAX_DEPTH))
            raise _GiveUpError
        self.repeated += target.size
        if self.repeated > MAX_EXPANSION:
            self.note(IssueKind.ALIAS_BOMB, at, name)
            raise _GiveUpError
        if target.height:
            self.rise(target.height - 1)
        self.attach(target.node, at)

    def attach(self, node: Node, alias: Span | None = None) -> None:
        if not self.stack:
            self.root = node
            return
        opened = self.stack[-1]
        parent = opened.node
        if isinstance(parent, SequenceNode):
            parent.items.append(node)
        elif opened.key is None:
            opened.key = self.as_key(node, alias)
        else:
            key, opened.key = opened.key, None
            self.put(opened, parent, key, node)

    def as_key(self, node: Node, alias: Span | None) -> ScalarNode:
        at = alias or Span(self.source, node.start, node.start + 1)
        if not isinstance(node, ScalarNode):
            self.note(IssueKind.ODD_KEY, at)
            return ScalarNode(self.source, at.start, at.end, "", _ODD)
        if alias is None:
            return node
        return ScalarNode(self.source, at.start, at.end, node.text, '"')  # stands where the alias does

    def put(self, opened: _Open, parent: MappingNode, key: ScalarNode, value: Node) -> None:
        if key.plain and key.text == "<<":
            opened.merges.append(value)
            return
        if key.style == _ODD:  # reported already, and nothing could be said about what stands under it
            return
        first = parent.entries.get(key.text)
        if first is not None:
            self.note(IssueKind.DUPLICATE_KEY, key, key.text, other=first.key)
        else:
            parent.entries[key.text] = Entry(key, value)

    def merge(self, parent: MappingNode, value: Node) -> None:
        """Take over the entries of mappings under `<<`; the first one that has a key wins, own keys win over all."""
        sources = value.items if isinstance(value, SequenceNode) else [value]
        for merged in sources:
            if not isinstance(merged, MappingNode):
                self.note(IssueKind.SYNTAX, merged, "<< takes a mapping or a list of mappings")
                continue
            for entry in merged:
                parent.entries.setdefault(entry.name, entry)


_ODD = "?"
"""Style of the key that stands in for a list or mapping used as one."""

_COLLECTION_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:omap")


_PROPERTIES = re.compile(r"(?:(?:!<[^>\s]*>|[&!][^\s,\[\]{}]*)(?:\s+#[^\r\n]*|\s+)*)+")


def after_properties(text: str, start: int, end: int) -> int:
    """Where a scalar itself begins behind its anchor and tag, which libyaml counts in."""
    match = _PROPERTIES.match(text, start, end)
    return match.end() if match else start


def _end_of(node: SequenceNode | MappingNode) -> int:
    """Offset after the last thing a collection holds."""
    if isinstance(node, SequenceNode):
        return max((item.end for item in node.items[-1:]), default=node.end)
    last = next(reversed(node.entries.values()), None)
    return max(last.key.end, last.value.end) if last else node.end


def offsets(event: yaml.Event) -> tuple[int, int]:
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
