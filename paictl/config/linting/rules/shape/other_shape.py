"""A section does not fit its schema as a whole, for instance a key without the one that belongs to it.

Why: half of a pair, such as a registry user without a password, is accepted by the old tools and fails when it is used.

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

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Located, rule
from paictl.config.linting.rules.shape.words import dotted, found
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.schema import Violation

_ELSEWHERE = frozenset(
    (
        *("type", "required", "additionalProperties", "enum", "const", "pattern", "format", "uniqueItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    )
)
"""Keywords that the other rules of this package put into words."""


@rule("SHP109", "other-shape", ERROR)
def check(document: Document) -> Findings:
    """Every violation that no other rule about shape puts into words, so that none is lost."""
    for violation in document.violations:
        if violation.keyword == "dependencies":
            yield from _lone_keys(violation)
        elif violation.keyword not in _ELSEWHERE:
            wanted = violation.schema.get("description", f"keyword {violation.keyword!r} of the schema")
            message = f"{dotted(violation.path)} is {found(violation.node)}, which does not fit its schema"
            yield Finding(violation.node, message, wanted.rstrip("."))


def _lone_keys(violation: Violation) -> Findings:
    node = violation.node
    for key, needed in violation.wanted.items():
        missing = [name for name in needed if isinstance(node, MappingNode) and name not in node]
        if isinstance(node, MappingNode) and key in node and missing:
            at: Located = node.key(key) or node
            where = dotted(violation.path)
            yield Finding(at, f"{where} has {key!r} without {missing[0]!r}", f"add {missing[0]}, or remove {key}")
