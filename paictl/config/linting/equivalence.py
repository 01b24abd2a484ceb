"""Whether two readings of a file are the same but for some edits: the safety net under `fix`.

Each reading is laid out as a list of tokens, one for every value and every begin and end of a collection, leaving out
what an edit touches. Two lists that are equal mean that nothing else changed: not the nesting, not a neighbour's value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from paictl.config.reading.document import Document
from paictl.config.reading.edits import Replacement
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode

Token = tuple[object, ...]


def same_but_for(before: Sequence[Document], after: Sequence[Document], edits: Iterable[Replacement]) -> bool:
    """Whether the documents of a file hold the same before and after the edits, leaving out what these touch.

    A file that could not be read before only has to be readable after.
    """
    if any(document.fatal for document in after):
        return False
    if any(document.fatal for document in before):
        return True
    if len(before) != len(after):
        return False
    old, new = _Touched(), _Touched()
    shift = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < 0:  # the byte order mark is no part of the text
            continue
        old.add(edit.start, edit.end)
        new.add(edit.start + shift, edit.start + shift + len(edit.text))
        shift += len(edit.text) - (edit.end - edit.start)
    return all(list(_tokens(one, old)) == list(_tokens(two, new)) for one, two in zip(before, after, strict=True))


class _Touched:
    """Pieces of a text in ascending order that an edit replaced."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        self.starts.append(start)
        self.ends.append(end)

    def meets(self, start: int, end: int) -> bool:
        """Whether a piece overlaps or borders on the characters from `start` up to `end`."""
        return bisect_left(self.ends, start) < bisect_right(self.starts, end)

    def covers(self, start: int, end: int) -> bool:
        """Whether a piece holds all characters from `start` up to `end`."""
        index = bisect_right(self.starts, start) - 1
        return index >= 0 and end <= self.ends[index] and end > start


def _tokens(document: Document, touched: _Touched) -> Iterator[Token]:
    yield ("kind", document.kind)
    for row in document.rows:
        for item in row.fields:
            if not touched.meets(*document.source.span_to_root(item.start, item.end)):
                yield (item.text,)
        if not touched.covers(*document.source.span_to_root(row.whole.start, row.whole.end)):
            yield ("row",)
    if document.root is not None:
        yield from _node_tokens(document.root, touched)


def _node_tokens(node: Node, touched: _Touched) -> Iterator[Token]:
    first, last = node.source.span_to_root(node.start, node.end)
    if isinstance(node, ScalarNode):
        if not touched.meets(first, last):
            yield (node.tag, node.text)
        return
    if touched.covers(first, last):
        return
    yield ("begin", type(node))
    if isinstance(node, MappingNode):
        for entry in node:
            yield from _node_tokens(entry.key, touched)
            yield from _node_tokens(entry.value, touched)
    else:
        for item in node:
            yield from _node_tokens(item, touched)
    yield ("end",)
