"""The words of messages about shape: paths, types, values."""

from __future__ import annotations

from collections.abc import Iterable

from paictl.config.linting.rule import renamed
from paictl.config.reading.document import Document
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode
from paictl.config.reading.problem import Edit
from paictl.config.reading.schema import Violation
from paictl.i18n import joined, phrase, text
from paictl.suggestions import nearest

_TYPES = {
    "string": text("a string"),
    "integer": text("an integer"),
    "number": text("a number"),
    "boolean": text("true or false"),
    "object": text("a mapping"),
    "array": text("a list"),
    "null": text("empty"),
}


def of_keyword(document: Document, *keywords: str) -> Iterable[Violation]:
    """The violations of some schema keywords."""
    return (violation for violation in document.violations if violation.keyword in keywords)


def dotted(path: tuple[str | int, ...]) -> str:
    """A path as people write it: `virtualClusters.vc1.virtualCells[0]`; the document itself for the empty path."""
    words = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return words.removeprefix(".") or text("the document")


def wanted_types(violation: Violation) -> list[str]:
    """JSON types that the schema allows."""
    wanted = violation.wanted
    return [wanted] if isinstance(wanted, str) else list(wanted or ())


def any_of(types: list[str]) -> str:
    """`an integer or a string`."""
    names = [_TYPES[name] for name in types if name != "null" or len(types) == 1]
    return joined(" or ", names)


def description(node: Node) -> str:
    """What stands there, in the words of the file."""
    if isinstance(node, MappingNode):
        return _TYPES["object"]
    if not isinstance(node, ScalarNode):
        return _TYPES["array"]
    if node.tag == "null":
        return _TYPES["null"]
    kinds = {"bool": "the boolean {value}", "int": "the number {value}", "float": "the number {value}"}
    return text(kinds.get(node.tag, "the string {value}"), value=shown(node))


def described(violation: Violation, otherwise: str) -> str:
    """What the schema says that a value is for, without its full stop; `otherwise` where it says nothing."""
    words = violation.schema.get("description")
    return phrase(words.rstrip(".")) if words else otherwise


def shown(node: Node) -> str:
    """A short form of a value for a message."""
    if not isinstance(node, ScalarNode):
        return description(node)
    short = node.text if len(node.text) <= 60 else node.text[:57] + "..."
    return short if node.plain and node.tag != "str" else repr(short)


def meant(name: str, holder: Node | None, known: Iterable[str]) -> str | None:
    """The known key that an unknown one most likely stands for; one that is there already cannot be meant."""
    return nearest(name, [key for key in known if not isinstance(holder, MappingNode) or key not in holder])


MOST_COMPARED = 400
"""Above this many names nobody is asked "did you mean": the comparison with each costs more than it helps."""


def suggested(at: ScalarNode, known: Iterable[str], otherwise: str) -> tuple[str, tuple[Edit, ...]]:
    """(hint, repair) for a name that is none of those known; `otherwise` is the hint where it resembles none."""
    names = list(known)
    near = nearest(at.text, names) if len(names) <= MOST_COMPARED else None
    if near is None:
        return otherwise, ()
    return text("did you mean {near!r}?", near=near), renamed(at, near)
