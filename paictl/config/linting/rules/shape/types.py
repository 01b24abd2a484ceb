"""Values of the wrong type, form or size."""

from __future__ import annotations

import json
import re

from paictl.config.linting.rule import ERROR, WARNING, Document, Edit, Finding, Findings, rule, written
from paictl.config.linting.rules.shape.words import (
    any_of,
    described,
    description,
    dotted,
    of_keyword,
    shown,
    wanted_types,
)
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode
from paictl.config.reading.schema import Violation
from paictl.config.reading.values import resolve
from paictl.i18n import phrase, text
from paictl.suggestions import nearest
from paictl.units import parse_quantity

HIVED_CONFIG = ("hivedscheduler", "config")


_TAGS = {"integer": "int", "number": "float", "boolean": "bool"}


@rule("SHP101", "wrong-type", ERROR)
def wrong_type(document: Document) -> Findings:
    """A value has the wrong type.

    Why: OpenPAI and HiveD use whatever they find: a string instead of a number ends in a crash that names nothing,
    or in a comparison that is never true.

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
        message = text(
            "{place} must be {types}, not {value}",
            place=dotted(violation.path),
            types=any_of(types),
            value=description(violation.node),
        )
        if document.kind is FileKind.SERVICES and violation.path == HIVED_CONFIG:
            yield _without_bar(document, violation.node)
            continue
        bare = _bare(violation, types)
        if bare is not None:
            yield Finding(
                violation.node, message, text("remove the quotes: {bare}", bare=bare), (Edit(violation.node, bare),)
            )
        else:
            yield Finding(violation.node, message, _advice(violation, types))


def _without_bar(document: Document, node: Node) -> Finding:
    """The cells stand below ``config:``, but a text is what OpenPAI reads there."""
    key = document.top.mapping("hivedscheduler").key("config")
    message = "hivedscheduler.config must be a text, and these lines are a mapping: '|' is missing after 'config:'"
    return Finding(key or node, message, "write config: |")


def _advice(violation: Violation, types: list[str]) -> str:
    """What to write, made of what stands there where that is clear."""
    node, real = violation.node, [name for name in types if name != "null"]
    if isinstance(node, ScalarNode) and "integer" in types:
        amount = parse_quantity(node.text) if violation.path[-1:] == ("memoryMB",) else None
        if amount is not None:
            return text("write {mebibytes}: a number of MiB without a unit", mebibytes=amount.mebibytes)
        digits = re.match(r"\d{1,9}(?=[^\d.]|$)", node.text)
        return (
            text("write {digits}: a number and nothing else", digits=digits[0])
            if digits
            else "write a whole number in digits, such as 1"
        )
    if isinstance(node, ScalarNode) and real == ["array"] and node.tag != "null":
        return "write each item on a line of its own, after '- '"
    if isinstance(node, ScalarNode) and real == ["object"] and "cellChildren" in violation.path[-2:-1]:
        return text("write cellAddress: {node}", node=node.text)
    if isinstance(node, MappingNode) and real == ["array"] and (first := next(iter(node), None)) is not None:
        return text("write '- ' in front of {first}: a list with one item", first=first.name)
    return text("write {types} here", types=any_of(types))


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

    Why: YAML reads `no` and `off` as false, `1.10` as 1.1, `012` as 10 and `12:30` as 750. If a string is expected,
    the old tools continue with that other value: a tag `1.10` pulls the image 1.1.

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
        written, read = (text("the value"), text("another type")) if secret else (node.text, _reading(node))
        yield Finding(
            node,
            text(
                "{place} must be a string, but {written} is read as {read}",
                place=dotted(violation.path),
                written=written,
                read=read,
            ),
            "put it in quotes" if secret else text("put it in quotes: {quoted}", quoted=quoted),
            () if secret else (Edit(node, quoted),),
        )


def _meant(violation: Violation, node: ScalarNode) -> str:
    """The string that was most likely meant: `yes` where only "true" and "false" are understood is "true"."""
    pattern = violation.schema.get("pattern")
    if pattern and isinstance(node.value, bool) and not re.search(pattern, node.text):
        return str(node.value).lower()
    return node.text


def _reading(node: ScalarNode) -> str:
    kind = "the boolean {value}" if node.tag == "bool" else "the number {value}"
    return text(kind, value=json.dumps(node.value))


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
        wanted, which = (
            (text("one of: {names}", names=listed), text("none of: {names}", names=listed))
            if len(names) > 1
            else (listed, text("not {names}", names=listed))
        )
        yield Finding(
            node,
            text(
                "{place} is {value}, which is {which}",
                place=dotted(violation.path),
                value=shown(node),
                which=which,
            ),
            text("did you mean {near!r}?", near=near) if near else text("write {wanted}", wanted=wanted),
            (Edit(node, written(values[near])),) if near and isinstance(node, ScalarNode) and node.plain else (),
        )


_LIMITS = {
    "minimum": "at least {limit}, not {value}",
    "maximum": "at most {limit}, not {value}",
    "exclusiveMinimum": "more than {limit}, not {value}",
    "exclusiveMaximum": "less than {limit}, not {value}",
    "minLength": "at least {limit} characters long, not {value}",
    "maxLength": "at most {limit} characters long, not {value}",
    "minItems": "a list of at least {limit}, not {value}",
    "maxItems": "a list of at most {limit}, not {value}",
    "minProperties": "a mapping of at least {limit}, not {value}",
    "maxProperties": "a mapping of at most {limit}, not {value}",
}


@rule("SHP106", "out-of-range", ERROR)
def out_of_range(document: Document) -> Findings:
    """A number, or a count of things, is too small or too large.

    Why: HiveD's parser accepts a negative or zero count, which later causes an index error or counts as nothing.

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        +    NODE: {childCellType: GPU, childCellNumber: 0, isNodeLevel: true}
    """
    # Every value outside the limits that the schema sets.
    for violation in of_keyword(document, *_LIMITS):
        yield Finding(
            violation.node,
            text("{place} must be {limit}", place=dotted(violation.path), limit=_limit(violation)),
            _bound_advice(violation),
        )


def _bound_advice(violation: Violation) -> str:
    if violation.keyword == "minimum":
        return text("write {wanted} or more", wanted=violation.wanted)
    if violation.keyword == "maximum":
        return text("write {wanted} or less", wanted=violation.wanted)
    return described(violation, "correct the value")


def _limit(violation: Violation) -> str:
    if violation.keyword in ("minLength", "minItems", "minProperties") and violation.wanted == 1:
        return text("filled in, not empty")
    return text(_LIMITS[violation.keyword], limit=violation.wanted, value=shown(violation.node))


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
        form = violation.schema.get("x-form")
        form = phrase(form) if form else text("of the form {wanted}", wanted=violation.wanted)
        yield Finding(
            violation.node,
            text(
                "{place} is {value}, which is not {form}",
                place=dotted(violation.path),
                value=shown(violation.node),
                form=form,
            ),
            described(violation, text("write {form}", form=form)),
        )
