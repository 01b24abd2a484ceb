"""Keys that are missing, unknown or do not belong together."""

from __future__ import annotations

import json

from paictl.config.linting.rule import (
    ERROR,
    WARNING,
    Document,
    Edit,
    Finding,
    Findings,
    Located,
    Severity,
    Span,
    rule,
    written,
)
from paictl.config.linting.rules.shape.words import (
    MOST_COMPARED,
    described,
    description,
    dotted,
    meant,
    of_keyword,
    shown,
)
from paictl.config.models.services import GONE
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode, follow, to_data
from paictl.config.reading.schema import Violation
from paictl.config.reading.source import place_of
from paictl.i18n import Text, listed, phrase, text


@rule("SHP103", "missing-key", ERROR)
def missing_key(document: Document) -> Findings:
    """A required key is missing.

    Why: the old tools do not say that it is missing: HiveD ends in a nil pointer, OpenPAI's Python in a KeyError far
    away from the file.

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        +    NODE: {childCellType: GPU, isNodeLevel: true}
    """
    # Every missing key, but for those that stand there misspelt (SHP104 names these).
    for violation in of_keyword(document, "required"):
        missing = str(violation.missing)
        if _misspelt(violation, missing) or _excused(violation):
            continue
        misplaced = _one_too_deep(violation, missing)
        if misplaced is not None:
            holder, key = misplaced
            message = text("{missing!r} is inside {holder!r}, but belongs beside it", missing=missing, holder=holder)
            yield Finding(
                key, message, text("indent {missing}, and all below it, like {holder}", missing=missing, holder=holder)
            )
            continue
        yield Finding(
            _place(violation),
            text("{place} lacks the key {missing!r}", place=dotted(violation.path), missing=missing),
            _to_add(document, violation, missing),
        )


def _to_add(document: Document, violation: Violation, missing: str) -> Text:
    """What to write where a key is missing; a push merges sections that the cluster has."""
    purpose = violation.schema.get("properties", {}).get(missing, {}).get("description")
    if not purpose:
        return text("add {missing}", missing=missing)
    words = phrase(purpose.rstrip("."))
    if document.kind is FileKind.SERVICES and not violation.path:
        return text(
            "add {missing}: {purpose}; a push needs only the sections that change, if the cluster has the others",
            missing=missing,
            purpose=words,
        )
    return text("add {missing}: {purpose}", missing=missing, purpose=words)


def _one_too_deep(violation: Violation, missing: str) -> tuple[str, ScalarNode] | None:
    """The key beside which the missing one belongs but inside which it stands, and where it is."""
    for entry in violation.node if isinstance(violation.node, MappingNode) else ():
        key = entry.value.key(missing) if isinstance(entry.value, MappingNode) else None
        if key is not None and missing not in violation.schema.get("properties", {}).get(entry.name, {}).get(
            "properties", {}
        ):
            return entry.name, key
    return None


def _misspelt(violation: Violation, missing: str) -> bool:
    """Whether an unknown key beside it is most likely the missing one."""
    properties = violation.schema.get("properties", {})
    if not isinstance(violation.node, MappingNode) or violation.schema.get("additionalProperties", True) is not False:
        return False
    unknown = [entry.name for entry in violation.node if entry.name not in properties]
    return any(meant(name, violation.node, properties) == missing for name in unknown[:MOST_COMPARED])


def _excused(violation: Violation) -> bool:
    """Whether a key is there that is out of place in this mapping: then a rule of its own says what to do."""
    excuses = violation.schema.get("x-not-required-beside", ())
    return isinstance(violation.node, MappingNode) and any(name in violation.node for name in excuses)


def _place(violation: Violation) -> Located:
    """The first key of the mapping: the line where the reader looks for the section."""
    node = violation.node
    first = next(iter(node), None) if isinstance(node, MappingNode) else None
    return first.key if first else Span(node.source, node.start, min(node.start + 1, node.end))


_SHOWN = 20
"""Known keys that a hint names."""


@rule("SHP104", "unknown-key", ERROR)
def unknown_key(document: Document) -> Findings:
    """A key is unknown here.

    Why: the old tools silently ignore unknown keys in most files, so a misspelt setting has no effect; in jobs
    the server refuses them.

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        +    NODE: {childCellType: GPU, childCellNum: 4, isNodeLevel: true}
    """
    # Every key that the schema does not declare; a warning where the tools ignore it and nothing is lost by that.
    for number, violation in enumerate(of_keyword(document, "additionalProperties")):
        if violation.key is None or _has_no_effect(document, violation):
            continue
        known = violation.schema.get("properties", {})
        name, parent = violation.key.text, violation.path[:-1]
        holder = text(" in {parent}", parent=dotted(parent)) if parent else ""
        holder_node = follow(document.root, parent) if document.root else None
        near = meant(name, holder_node, known) if number < MOST_COMPARED else None
        severity = Severity(violation.schema.get("x-unknown-key-severity", "error"))
        if near and _is_weighty(violation, near):
            severity = Severity.ERROR
        message = text("unknown key {name!r}{holder}", name=name, holder=holder)
        if near and violation.key.plain:
            yield Finding(
                violation.key,
                message,
                text("did you mean {near!r}?", near=near),
                (Edit(violation.key, written(near)),),
                severity,
            )
        else:
            yield Finding(violation.key, message, _advice(violation, name), (), severity)


def _has_no_effect(document: Document, violation: Violation) -> bool:
    """Whether a key is in the section of a service that is gone (SVC718): no key there has an effect."""
    return document.kind is FileKind.SERVICES and len(violation.path) > 1 and violation.path[0] in GONE


def _advice(violation: Violation, name: str) -> str:
    """What to do about a key that resembles none: its new name, its section, the key that has its word, or some."""
    if instead := violation.schema.get("x-instead", {}).get(name):
        return text("write {instead} instead", instead=instead)
    for start, section in violation.schema.get("x-elsewhere", {}).items():
        if name.startswith(start):
            return text("move it into {section}", section=section)
    properties = violation.schema.get("properties", {})
    inside = [key for key, schema in properties.items() if name in schema.get("properties", {})]
    if len(inside) == 1:
        return text("move it into {section}", section=inside[0])
    holding = [key for key in properties if len(name) > 3 and name.lower() in key.lower()]
    if len(holding) == 1:
        return text("did you mean {near!r}?", near=holding[0])
    offered = sorted(key for key, schema in properties.items() if not schema.get("x-legacy", False))
    return text("known keys: {names}", names=listed(offered, _SHOWN)) if offered else "remove it"


def _is_weighty(violation: Violation, meant_key: str) -> bool:
    """Whether a key that is mistyped leaves out what must be there, or a whole section: that is never just ignored."""
    described = violation.schema.get("properties", {}).get(meant_key, {})
    section = "$ref" in described or described.get("type") in ("object", "array")
    return section or meant_key in violation.schema.get("required", ())


@rule("SHP108", "repeated-item", WARNING)
def not_unique(document: Document) -> Findings:
    """A list names the same thing twice.

    Why: if order and number matter, as for prerequisites and roles, a repeated entry is most likely a copy-and-paste
    mistake.

    Passes::

        # service.yaml
        cluster-type: [k8s]
        prerequisite: []
        template-list: [start.sh]
        start-script: start.sh
        stop-script: stop.sh
        delete-script: delete.sh
        refresh-script: refresh.sh

    Fails with::

        # service.yaml
        -cluster-type: [k8s]
        +cluster-type: [k8s, k8s]
    """
    # Every item after the first of its value, in lists that must not repeat any.
    for violation in of_keyword(document, "uniqueItems"):
        if not isinstance(violation.node, SequenceNode):
            continue
        seen: dict[str, Node] = {}
        for item in violation.node:
            first = seen.setdefault(_value(item), item)
            if first is not item:
                line = place_of(first).line
                yield Finding(
                    item,
                    text(
                        "{place} names {item} twice, first in line {line}",
                        place=dotted(violation.path),
                        item=shown(item),
                        line=line,
                    ),
                    "remove one of the two",
                )


def _value(node: Node) -> str:
    """What JSON Schema compares: values, in which the order of keys does not count and 1.0 is 1."""
    if isinstance(node, ScalarNode) and isinstance(node.value, float) and node.value.is_integer():
        return str(int(node.value))
    return json.dumps(to_data(node), sort_keys=True)


_ELSEWHERE = frozenset(
    (
        *("type", "required", "additionalProperties", "enum", "const", "pattern", "format", "uniqueItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    )
)
"""Keywords that the other rules of this package put into words."""


@rule("SHP109", "other-shape", ERROR)
def other_shape(document: Document) -> Findings:
    """A section does not fit its schema as a whole, for instance a key without the one that belongs to it.

    Why: half of a pair, such as a registry user without a password, is accepted by the old tools and fails when it is
    used.

    Passes::

        # services-configuration.yaml
        cluster:
          docker-registry: {domain: docker.io, username: someone, password: kept-elsewhere}
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1

    Fails with::

        # services-configuration.yaml
        -  docker-registry: {domain: docker.io, username: someone, password: kept-elsewhere}
        +  docker-registry: {domain: docker.io, username: someone}
    """
    # Every violation that no other rule about shape puts into words, so that none is lost.
    for violation in document.violations:
        if violation.keyword == "dependencies":
            yield from _lone_keys(violation)
        elif violation.keyword not in _ELSEWHERE:
            message = text(
                "{place} is {kind}, which does not fit its schema",
                place=dotted(violation.path),
                kind=description(violation.node),
            )
            yield Finding(
                violation.node,
                message,
                described(violation, text("keyword {keyword!r} of the schema", keyword=violation.keyword)),
            )


def _lone_keys(violation: Violation) -> Findings:
    node = violation.node
    for key, needed in violation.wanted.items():
        missing = [name for name in needed if isinstance(node, MappingNode) and name not in node]
        if isinstance(node, MappingNode) and key in node and missing:
            at: Located = node.key(key) or node
            where = dotted(violation.path)
            yield Finding(
                at,
                text("{where} has {key!r} without {missing!r}", where=where, key=key, missing=missing[0]),
                text("add {missing}, or remove {key}", missing=missing[0], key=key),
            )
