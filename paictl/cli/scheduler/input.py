"""What `paictl scheduler` reads: a HiveD configuration, operations, a dump; errors name the place in the file."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from paictl import i18n
from paictl.cells.spec import ClusterSpec, SpecError
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_data
from paictl.config.reading.source import MAX_BYTES, Source
from paictl.config.reading.yamltree import IssueKind
from paictl.config.reading.yamltree import parse_yaml as read_yaml
from paictl.errors import PaictlError

STDIN = "standard input"


def load_spec(path: Path) -> ClusterSpec:
    """Read a configuration; raises `PaictlError` with file, line and column if it is unusable.

    It is read as `config validate` reads it: neither depth nor aliases nor size can hurt.
    """
    root = _root(str(path), read_text(path, MAX_BYTES))
    if root is None:
        raise PaictlError("is empty", where=str(path), hint="it needs physicalCluster and virtualClusters")
    try:
        return ClusterSpec.from_mapping(to_data(root))  # type: ignore[arg-type]  # whatever it is: it says so
    except SpecError as error:
        raise _placed(error, path, root) from None


def located(error: SpecError, path: Path) -> PaictlError:
    """The error of a specification with the place of its field in the file, or of the nearest field above it."""
    return _placed(error, path, _root(str(path), read_text(path)))


def _root(name: str, text: str) -> Node | None:
    """The root of a YAML text, None if it is empty; raises `PaictlError` with line and column if it is not readable."""
    tree = read_yaml(Source(name, text))
    if tree.fatal:
        issue = tree.issues[-1]
        line, column = issue.at.source.position(issue.at.start)
        raise PaictlError(
            i18n.text("not YAML: {reason}", reason=_READ[issue.kind].format(issue.detail)),
            where=f"{name}:{line}:{column}",
        )
    return None if isinstance(tree.root, ScalarNode) and tree.root.value is None else tree.root


_READ: Final = defaultdict(
    lambda: "{}",
    {
        IssueKind.TAB: "a tab where spaces are expected",
        IssueKind.ALIAS_BOMB: "its aliases (the last is {}) expand to too much",
        IssueKind.ALIAS_CYCLE: "the alias {} is inside the value that it refers to",
        IssueKind.UNKNOWN_ALIAS: "no anchor {} is defined",
        IssueKind.TOO_DEEP: "nested deeper than {} levels",
    },
)
"""What broke off the reading, where the detail alone does not say it."""


def _placed(error: SpecError, path: Path, root: Node | None) -> PaictlError:
    node = None if root is None else _find(root, error.path)
    where = str(path)
    if node is not None:
        line, column = node.source.position(node.start)
        where = f"{path}:{line}:{column}"
    return PaictlError(f"{error.path}: {error.message}", where=where, hint=error.hint)


def _find(node: Node, path: str) -> Node:
    """The node at a path like ``a.b[1].c``, or the last one on the way that is there."""
    while path:
        if isinstance(node, MappingNode):
            fits = [entry for entry in node if _starts(path, entry.name)]
            if not fits:
                return node
            entry = max(fits, key=lambda fit: len(fit.name))  # names may hold dots
            path, node = path[len(entry.name) :], entry.value
            if not path:  # a collection is best found by its name
                return node if isinstance(node, ScalarNode) else entry.key
        elif isinstance(node, SequenceNode) and path.startswith("["):
            number, _, path = path[1:].partition("]")
            if not number.isdecimal() or int(number) >= len(node.items):
                return node
            node = node.items[int(number)]
        else:
            return node
        path = path.removeprefix(".")
    return node


def _starts(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def parse_yaml(text: str) -> object:
    """The value of a YAML text; raises `ValueError` in one line."""
    try:
        root = _root("", text)
    except PaictlError as error:
        raise ValueError(error.message.removeprefix("not YAML: ")) from None
    return None if root is None else to_data(root)


def operations(path: Path | None) -> Iterator[tuple[int, dict[str, object]]]:
    """The operations of a file, or of standard input, with their line numbers; a wrong line is a `PaictlError`."""
    lines = _standard_input() if path is None else read_text(path).split("\n")  # JSON may hold other line ends
    name = str(path or STDIN)
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            operation = json.loads(line)
        except json.JSONDecodeError as error:
            reason = i18n.text("not JSON: {error}", error=error.msg)
            raise PaictlError(reason, where=f"{name}:{number}:{error.colno}", hint=_ONE_A_LINE) from None
        except (ValueError, RecursionError) as error:  # a number without end, brackets without end
            raise PaictlError(
                i18n.text("not JSON: {error}", error=error), where=f"{name}:{number}", hint=_ONE_A_LINE
            ) from None
        if not isinstance(operation, dict):
            message = i18n.text("expected an object, found a {kind}", kind=type(operation).__name__)
            raise PaictlError(message, where=f"{name}:{number}", hint=_ONE_A_LINE)
        yield number, operation


_ONE_A_LINE = 'write one operation per line, such as {"op": "node", "name": "n0", "healthy": true}'


def _standard_input() -> Iterable[str]:
    if sys.stdin is None:  # closed by the parent process
        raise PaictlError("standard input is closed", hint="name a file with operations, or pipe them in")
    try:
        yield from sys.stdin
    except UnicodeDecodeError as error:
        raise PaictlError(i18n.text("is not UTF-8: {reason}", reason=error.reason), where=STDIN) from None


def load_dump(path: Path) -> Any:
    """The content of a dump; raises `PaictlError` if it is no JSON."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise PaictlError(
            i18n.text("not JSON: {error}", error=error), where=str(path), hint="name a dump of scheduler replay"
        ) from None


def read_text(path: Path, limit: int | None = None) -> str:
    """A file's text; raises `PaictlError` if it cannot be read, or has more than `limit` bytes."""
    try:
        with path.open("rb") as stream:
            data = stream.read(-1 if limit is None else limit + 1)
        if limit is not None and len(data) > limit:
            raise PaictlError(
                i18n.text("is larger than {size} MiB, too large for a configuration", size=limit >> 20), where=str(path)
            )
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise PaictlError(
            i18n.text("cannot read: {reason}", reason=error.strerror), where=str(path), hint="check the path"
        ) from None
    except UnicodeDecodeError as error:
        raise PaictlError(
            i18n.text("is not UTF-8: {reason}", reason=error.reason), where=str(path), hint="save it as UTF-8"
        ) from None
