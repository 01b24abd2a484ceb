"""Where the secrets of a file stand.

A value is secret if its schema says so (``"x-secret": true``), if it stands below such a key, if the schema does not
know its key and the key sounds like a secret, or if it is an address with a password in it. The text is walked event by
event and not as a tree, because the tree forgets what a valid file does not have (a key written twice, a second
document, an overridden ``<<``), and a forgotten secret would be stored in clear.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from paictl import i18n
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.schema import SCHEMA_NAMES, load_schema
from paictl.config.reading.values import resolve
from paictl.config.reading.yamltree import after_properties, offsets
from paictl.config.secrets.redaction import ADDRESS_WITH_PASSWORD, sounds_secret
from paictl.errors import PaictlError
from paictl.frozen import frozen

Schema: TypeAlias = "dict[str, Any]"
Path: TypeAlias = "tuple[str | int, ...]"

MARK = "\ufeff"
"""The byte order mark that a text may begin with."""

SEAL_PREFIX = "sealed:scrypt:"
SHOWN = "<secret>"
"""What stands for a secret in a text that is stored, and in one that is shown; a secret wherever it turns up."""

_COMBINERS = ("allOf", "anyOf", "oneOf")
_MAX_DEPTH = 64

_Loader: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class SecretError(PaictlError):
    """A text whose secrets cannot be told from the rest, or a seal that is none."""


@frozen
class Secret:
    """A secret value: where it stands (`path`, character offsets) and what it is; never shown by `repr`."""

    path: Path
    start: int
    end: int
    value: str = field(repr=False)
    tag: str = "str"


@frozen
class Walk:
    """A text and what a walk over it finds: its secrets, and the spans of all scalars, between which comments stand.

    Offsets count from behind a byte order mark.
    """

    text: str = field(repr=False)
    kind: FileKind
    secrets: tuple[Secret, ...]
    scalars: tuple[tuple[int, int], ...]
    shape: tuple[object, ...] = field(repr=False)
    """Every event with its value, but for secrets: equal for two texts that differ in secrets and comments only."""


def walk(text: str, kind: FileKind) -> Walk:
    """Find the secrets in the text of a file; raises `SecretError` where it cannot be read to its end.

    A host list has none.
    """
    if kind.is_csv:
        return Walk(text, kind, (), (), (text,))
    body = text.removeprefix(MARK)
    walker = _Walker(body, kind)
    try:
        for event in yaml.parse(body, Loader=_Loader):
            walker.take(event)
    except yaml.YAMLError:
        raise SecretError(
            "is not readable as YAML, so its secrets cannot be found", hint="run: paictl config validate"
        ) from None
    return Walk(text, kind, tuple(walker.secrets), tuple(walker.scalars), tuple(walker.shape))


@dataclass(slots=True)
class _Frame:
    """An open collection: its path, what the schemas say about it, and whether all in it is secret."""

    path: Path
    schemas: tuple[Schema, ...]
    secret: bool
    mapping: bool
    merges: bool = False
    """Whether it stands under ``<<``, so that its content belongs one level up."""
    key: str | None = None
    index: int = 0


class _Walker:
    """One pass over the events of a text."""

    def __init__(self, text: str, kind: FileKind) -> None:
        self.text = text
        name = SCHEMA_NAMES.get(kind)
        self.root: Schema = load_schema(name) if name else {}
        self.stack: list[_Frame] = []
        self.anchors: dict[str, bool | None] = {}
        self.secrets: list[Secret] = []
        self.scalars: list[tuple[int, int]] = []
        self.shape: list[object] = []

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        if isinstance(event, yaml.ScalarEvent):
            self.scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self.alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.shape.append("end")
            self.stack.pop()
            self.passed("?")
        elif isinstance(event, yaml.DocumentStartEvent):
            self.shape.append("document")

    def scalar(self, event: yaml.ScalarEvent) -> None:
        start, end = offsets(event)
        if event.anchor is not None or event.tag is not None:
            start = after_properties(self.text, start, end)
        end = start + len(self.text[start:end].rstrip())
        self.scalars.append((start, end))
        frame = self.stack[-1] if self.stack else None
        if frame is not None and frame.mapping and frame.key is None:
            frame.key = event.value
            self.shape.append(event.value)
            return
        path, _, secret = self.here()
        tag = resolve(event.value)[0] if event.style in (None, "") and event.tag is None else "str"
        holds = bool(event.value.strip()) and tag != "null"
        secret = holds and (secret or _is_secret_anywhere(event.value))
        if event.anchor is not None:
            self.anchors[event.anchor] = secret
        if secret:
            self.secrets.append(Secret(path, start, end, event.value, tag))
        self.shape.append(None if secret else (tag, event.value))
        self.passed(event.value)

    def alias(self, event: yaml.AliasEvent) -> None:
        known = self.anchors.get(event.anchor or "")
        if self.stack and self.stack[-1].mapping and self.stack[-1].key is None:
            self.stack[-1].key = "?"
            return
        secret = self.here()[2]
        # Of a collection, the keys tell in both places; of a scalar only where it stands.
        if known is not None and known is not secret:
            line = self.text.count("\n", 0, offsets(event)[0]) + 1
            raise SecretError(
                i18n.text(
                    "line {line}: *{anchor} makes one value both a secret and not a secret",
                    line=line,
                    anchor=event.anchor,
                ),
                hint="write the value out in both places",
            )
        self.shape.append(("alias", event.anchor))
        self.passed("?")

    def open(self, event: yaml.CollectionStartEvent) -> None:
        if len(self.stack) >= _MAX_DEPTH:
            raise SecretError(
                i18n.text("is nested deeper than {most} levels, so its secrets cannot be found", most=_MAX_DEPTH)
            )
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        mapping = isinstance(event, yaml.MappingStartEvent)
        self.shape.append("mapping" if mapping else "list")
        parent = self.stack[-1] if self.stack else None
        if parent is not None and parent.mapping and parent.key is None:  # a collection as a key
            self.stack.append(_Frame((*parent.path, "?"), (), parent.secret, mapping))
            return
        path, schemas, secret = self.here()
        merges = parent is not None and (parent.key == "<<" or (parent.merges and not parent.mapping))
        self.stack.append(_Frame(path, schemas, secret, mapping, merges))

    def passed(self, key: str) -> None:
        """Note that a node is complete: a key (`key` stands for one that is no scalar), a value or an item."""
        if not self.stack:
            return
        frame = self.stack[-1]
        if not frame.mapping:
            frame.index += 1
        elif frame.key is None:
            frame.key = key
        else:
            frame.key = None

    def here(self) -> tuple[Path, tuple[Schema, ...], bool]:
        """Path, schemas and secrecy of the node that comes next as a value."""
        if not self.stack:
            return (), tuple(self.expanded(self.root)), False
        frame = self.stack[-1]
        if frame.key == "<<" or (frame.merges and not frame.mapping):
            return frame.path, frame.schemas, frame.secret
        step: str | int = (frame.key or "") if frame.mapping else frame.index
        declared, others = self.below(frame.schemas, step)
        schemas = (*declared, *others)
        secret = frame.secret or any(schema.get("x-secret") is True for schema in schemas)
        if isinstance(step, str) and not declared:
            secret = secret or sounds_secret(step)
        return (*frame.path, step), schemas, secret

    def below(self, schemas: tuple[Schema, ...], step: str | int) -> tuple[list[Schema], list[Schema]]:
        """The subschemas of a child: those that name it (for an item all), and those for any other key."""
        named: list[Any] = []
        others: list[Any] = []
        for schema in schemas:
            if isinstance(step, int):
                items = schema.get("items", {})
                named += items if isinstance(items, list) else [items]
                continue
            specific = [schema["properties"][step]] if step in schema.get("properties", {}) else []
            named += specific
            others += [] if specific else [schema.get("additionalProperties")]
        return self.all_of(named), self.all_of(others)

    def all_of(self, schemas: list[Any]) -> list[Schema]:
        return [subschema for schema in schemas if isinstance(schema, dict) for subschema in self.expanded(schema)]

    def expanded(self, schema: Schema) -> Iterator[Schema]:
        """A schema with those that it refers to and those that it combines."""
        waiting = [schema]
        while waiting:
            part = waiting.pop()
            yield part
            if "$ref" in part:
                waiting.append(self.referred(part["$ref"]))
            for combiner in _COMBINERS:
                waiting += [subschema for subschema in part.get(combiner, ()) if isinstance(subschema, dict)]
            waiting += [part[word] for word in ("then", "else") if isinstance(part.get(word), dict)]

    def referred(self, reference: str) -> Schema:
        target: Any = self.root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        schema: Schema = target
        return schema


def _is_secret_anywhere(value: str) -> bool:
    if value.startswith((SHOWN, SEAL_PREFIX)):
        return True
    return "\n" not in value and ADDRESS_WITH_PASSWORD.search(value) is not None
