"""What `paictl scheduler` reads: a HiveD configuration, operations, a dump; errors name the place in the file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import Node

from paictl.cells.spec import ClusterSpec, SpecError
from paictl.errors import PaictlError

LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
STDIN = "standard input"


def load_spec(path: Path) -> ClusterSpec:
    """Read a configuration; raises `PaictlError` with file, line and column if it is unusable."""
    text = read_text(path)
    try:
        data = yaml.load(text, LOADER)  # noqa: S506 (a safe loader)
    except RecursionError:
        raise PaictlError("is nested too deeply", where=str(path)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise PaictlError(f"not YAML: {error.problem or error.context}", where=where) from None
    except (yaml.YAMLError, ValueError) as error:
        raise PaictlError(f"not YAML: {' '.join(str(error).split())}", where=str(path)) from None
    if data is None:
        raise PaictlError("is empty", where=str(path), hint="it needs physicalCluster and virtualClusters")
    try:
        return ClusterSpec.from_mapping(data)
    except SpecError as error:
        raise located(error, path) from None


def located(error: SpecError, path: Path) -> PaictlError:
    """The error of a specification with the place of its field in the file, or of the nearest field above it."""
    root = yaml.compose(read_text(path), LOADER)
    mark = _find(root, error.path).start_mark if root is not None else None
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    return PaictlError(f"{error.path}: {error.message}", where=where, hint=error.hint)


def _find(node: Node, path: str) -> Node:
    """The node at a path like ``a.b[1].c``, or the last one on the way that is there."""
    while path:
        if isinstance(node, yaml.MappingNode):
            steps = [(str(key.value), key, value) for key, value in node.value]
            fits = [step for step in steps if path == step[0] or path.startswith((f"{step[0]}.", f"{step[0]}["))]
            if not fits:
                return node
            name, key, node = max(fits, key=lambda step: len(step[0]))  # names may hold dots
            path = path[len(name) :]
            if not path:  # a collection is best found by its name
                return node if isinstance(node, yaml.ScalarNode) else key
        elif isinstance(node, yaml.SequenceNode) and path.startswith("["):
            number, _, path = path[1:].partition("]")
            if not number.isdecimal() or int(number) >= len(node.value):
                return node
            node = node.value[int(number)]
        else:
            return node
        path = path.removeprefix(".")
    return node


def parse_yaml(text: str) -> object:
    """The value of a YAML text; raises `ValueError` in one line."""
    try:
        return yaml.load(text, LOADER)  # noqa: S506 (a safe loader)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


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
            raise PaictlError(
                f"not JSON: {error.msg}", where=f"{name}:{number}:{error.colno}", hint=_ONE_A_LINE
            ) from None
        except (ValueError, RecursionError) as error:  # a number without end, brackets without end
            raise PaictlError(f"not JSON: {error}", where=f"{name}:{number}", hint=_ONE_A_LINE) from None
        if not isinstance(operation, dict):
            message = f"expected an object, found a {type(operation).__name__}"
            raise PaictlError(message, where=f"{name}:{number}", hint=_ONE_A_LINE)
        yield number, operation


_ONE_A_LINE = 'write one operation a line, such as {"op": "node", "name": "n0", "healthy": true}'


def _standard_input() -> Iterable[str]:
    if sys.stdin is None:  # closed by whoever started us
        raise PaictlError("standard input is closed", hint="name a file with operations, or pipe them in")
    try:
        yield from sys.stdin
    except UnicodeDecodeError as error:
        raise PaictlError(f"is not UTF-8: {error.reason}", where=STDIN) from None


def load_dump(path: Path) -> Any:
    """The content of a dump; raises `PaictlError` if it is no JSON."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise PaictlError(f"not JSON: {error}", where=str(path), hint="name a dump of scheduler replay") from None


def read_text(path: Path) -> str:
    """A file's text; raises `PaictlError` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PaictlError(f"cannot read: {error.strerror}", where=str(path), hint="check the path") from None
    except UnicodeDecodeError as error:
        raise PaictlError(f"is not UTF-8: {error.reason}", where=str(path), hint="save it as UTF-8") from None
