"""Values of the wrong type, form or size."""

from __future__ import annotations

import json
import re

from paictl.config.linting.rule import ERROR, WARNING, Document, Edit, Finding, Findings, rule, written
from paictl.config.linting.rules.shape.words import any_of, dotted, found, of_keyword, shown, wanted_types
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode
from paictl.config.reading.schema import Violation
from paictl.config.reading.values import resolve
from paictl.units import parse_quantity
from paictl.words import nearest

HIVED_CONFIG = ("hivedscheduler", "config")


_TAGS = {"integer": "int", "number": "float", "boolean": "bool"}


@rule("SHP101", "wrong-type", ERROR)
def wrong_type(document: Document) -> Findings:
    """A value has the wrong type.

    Why: OpenPAI and HiveD take what they find: a string where a number belongs ends in a crash without a name, or in a
    comparison that is never true.

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        +    NODE: {childCellType: GPU, childCellNumber: "4", isNodeLevel: true}
    """
    # Every value of a wrong type, but for those that only lack quotes (SHP102).
    for violation in of_keyword(document, "type"):
        types = wanted_types(violation)
        if "string" in types and isinstance(violation.node, ScalarNode) and violation.node.tag != "null":
            continue
        message = f"{dotted(violation.path)} must be {any_of(types)}, not {found(violation.node)}"
        if document.kind is FileKind.SERVICES and violation.path == HIVED_CONFIG:
            yield _without_bar(document, violation.node)
            continue
        bare = _bare(violation, types)
        if bare is not None:
            yield Finding(violation.node, message, f"remove the quotes: {bare}", (Edit(violation.node, bare),))
        else:
            yield Finding(violation.node, message, _advice(violation, types))


def _without_bar(document: Document, node: Node) -> Finding:
    """The cells stand below ``config:``, but a text is what OpenPAI reads there."""
    key = document.top.mapping("hivedscheduler").key("config")
    message = "hivedscheduler.config must be a text, and these lines are a mapping: '|' is missing behind 'config:'"
    return Finding(key or node, message, "write config: |")


def _advice(violation: Violation, types: list[str]) -> str:
    """What to write, made of what stands there where that is clear."""
    node, real = violation.node, [name for name in types if name != "null"]
    if isinstance(node, ScalarNode) and "integer" in types:
        amount = parse_quantity(node.text) if violation.path[-1:] == ("memoryMB",) else None
        if amount is not None:
            return f"write {amount.mebibytes}: a number of MiB without a unit"
        digits = re.match(r"\d{1,9}(?=[^\d.]|$)", node.text)
        return (
            f"write {digits[0]}: a number and nothing else" if digits else "write a whole number in digits, such as 1"
        )
    if isinstance(node, ScalarNode) and real == ["array"] and node.tag != "null":
        return "write each item in a line of its own, behind '- '"
    if isinstance(node, ScalarNode) and real == ["object"] and "cellChildren" in violation.path[-2:-1]:
        return f"write cellAddress: {node.text}"
    if isinstance(node, MappingNode) and real == ["array"] and (first := next(iter(node), None)) is not None:
        return f"write '- ' in front of {first.name}: a list with one item"
    return f"write {any_of(types)} here"


def _bare(violation: Violation, types: list[str]) -> str | None:
    """The text without quotes where that alone gives a wanted type."""
    node = violation.node
    if not isinstance(node, ScalarNode) or node.style not in ("'", '"'):
        return None
    tag = resolve(node.text)[0]
    return node.text if any(_TAGS.get(name) == tag for name in types) else None


@rule("SHP102", "not-a-string", WARNING)
def not_a_string(document: Document) -> Findings:
    """A value that must be a string is read as something else, because it is not quoted.

    Why: YAML reads `no` and `off` as false, `1.10` as 1.1, `012` as 10 and `12:30` as 750. Where a string is wanted the
    old tools go on with that other value: a tag `1.10` pulls the image 1.1.

    Fails with::

        # hivedscheduler.yaml
             - {cellType: NODE, cellNumber: 1}
        +  "2": {}
        +kubeApiServerAddress: 12:30
    """
    # Every unquoted value that is no string where a string is wanted.
    for violation in of_keyword(document, "type"):
        node = violation.node
        if "string" not in wanted_types(violation) or not isinstance(node, ScalarNode) or node.tag == "null":
            continue
        quoted = json.dumps(_meant(violation, node), ensure_ascii=False)
        secret = violation.schema.get("x-secret", False)
        written, read = ("the value", "another type") if secret else (node.text, _reading(node))
        yield Finding(
            node,
            f"{dotted(violation.path)} must be a string, but {written} is read as {read}",
            "put it in quotes" if secret else f"put it in quotes: {quoted}",
            () if secret else (Edit(node, quoted),),
        )


def _meant(violation: Violation, node: ScalarNode) -> str:
    """The string that was most likely meant: `yes` where only "true" and "false" are understood is "true"."""
    pattern = violation.schema.get("pattern")
    if pattern and isinstance(node.value, bool) and not re.search(pattern, node.text):
        return str(node.value).lower()
    return node.text


def _reading(node: ScalarNode) -> str:
    kind = "boolean" if node.tag == "bool" else "number"
    return f"the {kind} {json.dumps(node.value)}"


@rule("SHP105", "not-allowed-value", ERROR)
def not_allowed_value(document: Document) -> Findings:
    """A value is not one of those allowed.

    Why: the old tools compare with a fixed list and silently take the default, or refuse the file without saying where.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist_1
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]

    Fails with::

        # job.yaml
        -type: job
        +type: jobs
    """
    # Every value outside the list that the schema gives.
    for violation in of_keyword(document, "enum", "const"):
        allowed = [violation.wanted] if violation.keyword == "const" else list(violation.wanted)
        node = violation.node
        values = {str(value).lower() if isinstance(value, bool) else str(value): value for value in reversed(allowed)}
        names = list(reversed(values))
        near = nearest(node.text, names) if isinstance(node, ScalarNode) else None
        listed = ", ".join(names)
        wanted, which = (f"one of: {listed}", f"none of: {listed}") if len(names) > 1 else (listed, f"not {listed}")
        yield Finding(
            node,
            f"{dotted(violation.path)} is {shown(node)}, which is {which}",
            f"did you mean {near!r}?" if near else f"write {wanted}",
            (Edit(node, written(values[near])),) if near and isinstance(node, ScalarNode) and node.plain else (),
        )


_LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters long",
    "maxLength": "at most {} characters long",
    "minItems": "a list of at least {}",
    "maxItems": "a list of at most {}",
    "minProperties": "a mapping of at least {}",
    "maxProperties": "a mapping of at most {}",
}


@rule("SHP106", "out-of-range", ERROR)
def out_of_range(document: Document) -> Findings:
    """A number, or a count of things, is too small or too large.

    Why: a negative or zero count passes HiveD's parser and ends in an index error, or counts as nothing, later on.

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        +    NODE: {childCellType: GPU, childCellNumber: 0, isNodeLevel: true}
    """
    # Every value outside the limits that the schema sets.
    for violation in of_keyword(document, *_LIMITS):
        yield Finding(
            violation.node,
            f"{dotted(violation.path)} must be {_limit(violation)}",
            _bound_advice(violation),
        )


def _bound_advice(violation: Violation) -> str:
    if violation.keyword == "minimum":
        return f"write {violation.wanted} or more"
    if violation.keyword == "maximum":
        return f"write {violation.wanted} or less"
    return str(violation.schema.get("description", "correct the value")).rstrip(".")


def _limit(violation: Violation) -> str:
    if violation.keyword in ("minLength", "minItems", "minProperties") and violation.wanted == 1:
        return "filled in, not empty"
    return f"{_LIMITS[violation.keyword].format(violation.wanted)}, not {shown(violation.node)}"


@rule("SHP107", "bad-form", ERROR)
def bad_form(document: Document) -> Findings:
    """A value does not have the required form.

    Why: names, addresses and versions end up as names of Kubernetes objects or in generated files, which refuse other
    forms far away from the line that you wrote.

    Passes::

        # job.yaml
        protocolVersion: 2
        name: mnist_1
        type: job
        prerequisites:
        - {name: image, type: dockerimage, uri: openpai/standard:python_3.6-pytorch_1.2.0-gpu}
        taskRoles:
          train:
            dockerImage: image
            resourcePerInstance: {cpu: 4, memoryMB: 8192, gpu: 1}
            commands: [python3 train.py]

    Fails with::

        # job.yaml
        -name: mnist_1
        +name: mnist no. 1
    """
    # Every value that a pattern of the schema refuses; the schema's `x-form` says the form in words.
    for violation in of_keyword(document, "pattern", "format"):
        form = violation.schema.get("x-form") or f"of the form {violation.wanted}"
        yield Finding(
            violation.node,
            f"{dotted(violation.path)} is {shown(violation.node)}, which is not {form}",
            violation.schema.get("description", f"write {form}").rstrip("."),
        )
