"""A value stands in typographic quotation marks.

Why: word processors and web pages put “ and ” where YAML wants the plain ones. To YAML they are a part of the text: the
user is then called “openpai” with the marks, and nobody can log in.

Passes::

    # config.yaml
    user: "operator"
    password: "Kelp-and-Tundra-9"
    docker_image_tag: v1.8.1

Fails with::

    # config.yaml
    -user: "operator"
    +user: “operator”
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode

_OPENING, _CLOSING = "“”„‟«‘‚", "“”‟»’"


@rule("TXT017", "typographic-quotes", WARNING)
def check(document: Document) -> Findings:
    """Every key and value that begins and ends with such marks."""
    if document.root is None or not any(mark in document.source.text for mark in _OPENING):
        return
    seen: set[int] = set()
    waiting: list[Node] = [document.root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ScalarNode):
            if node.plain and len(node.text) > 1 and node.text[0] in _OPENING and node.text[-1] in _CLOSING:
                yield Finding(node, "these quotation marks are a part of the text", 'write the plain ones: "..."')
        elif isinstance(node, MappingNode):
            waiting += [part for entry in node for part in (entry.key, entry.value)]
        else:
            waiting += node.items
