"""Values that a template left to be filled in: `<% latest-release %>`, `forexample`, `IP`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from paictl.config.reading.nodes import MappingNode, Node, ScalarNode

_TEMPLATE = re.compile(
    r"<%.*%>"  # of OpenPAI's release templates
    r"|<[A-Za-z][\w .:/-]*>"
    r"|\$\{\s*your[\w -]*\}"
    r"|`[^`]*`"  # a shell command that is to be run by hand
    r"|\b(for_?example|example(user|passw(or)?d?))\b"
    r"|\byour[_-]\w+"
    r"|/path/to/"
    r"|//ip(:port)?\b"
    r"|\bchange[_-]?me\b",
    re.IGNORECASE,
)
_WORDS = frozenset(("IP", "PORT", "HOSTNAME", "hostname", "nodename", "username", "xxx", "TODO"))


def is_placeholder(text: str) -> bool:
    """Whether a value still is what a template or a manual put there."""
    return text.strip() in _WORDS or _TEMPLATE.search(text) is not None


def scalars_below(node: Node, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, ScalarNode]]:
    """(path, value) of every value at any depth, in order; what aliases repeat comes once."""
    seen = set() if seen is None else seen
    if isinstance(node, ScalarNode):
        yield path, node
    elif id(node) not in seen:
        seen.add(id(node))
        if isinstance(node, MappingNode):
            for entry in node:
                yield from scalars_below(entry.value, f"{path}.{entry.name}" if path else entry.name, seen)
        else:
            for index, item in enumerate(node):
                yield from scalars_below(item, f"{path}[{index}]", seen)
