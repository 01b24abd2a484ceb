"""What a rule is, and the repairs it may offer: the names that a module of `rules` needs, and nothing else.

A rule is one decorated function. Its docstring *is* its manual (`manual` reads it)::

    @rule("HVD513", "bad-device-index", ERROR)
    def bad_device_index(document: Document) -> Findings:
        \"\"\"The address of a device is not its index in the node. …\"\"\"

A rule that takes a `Bundle` looks at files that belong together, one that takes a `Document` at one. `rules.TABLE`
lists the modules.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Generic, TypeVar

from paictl.config.linting.manual import Manual, parse_manual
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.problem import Edit, Finding, Severity
from paictl.config.reading.source import Located, Span
from paictl.config.reading.values import resolve
from paictl.errors import PaictlError
from paictl.frozen import frozen_caching

__all__ = [
    "ERROR",
    "INFO",
    "WARNING",
    "Bundle",
    "Document",
    "Edit",
    "Finding",
    "Findings",
    "Located",
    "Rule",
    "Severity",
    "Span",
    "rule",
]

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

Findings = Iterator[Finding]

Subject = TypeVar("Subject", Document, Bundle)
"""What a rule looks at: a file, or the files of one cluster."""


@frozen_caching
class Rule(Generic[Subject]):
    """A rule: calling `check` gives its findings, the documentation is parsed when somebody asks for it."""

    id: str
    name: str
    severity: Severity
    check: Callable[[Subject], Iterable[Finding]]

    @cached_property
    def manual(self) -> Manual:
        """The documentation of the rule."""
        text = inspect.getdoc(self.check)
        if text is None:  # python -OO
            raise PaictlError("the documentation of the rules is missing", hint="run Python without -OO")
        module = self.check.__module__
        return parse_manual(
            text, *(inspect.getdoc(sys.modules[name]) or "" for name in (module, module.rpartition(".")[0]))
        )


def rule(
    rule_id: str, name: str, severity: Severity
) -> Callable[[Callable[[Subject], Iterable[Finding]]], Rule[Subject]]:
    """Make a rule of the function below: it yields findings, to which the rule lends id, name and severity."""
    return lambda check: Rule(rule_id, name, severity, check)


_BARE = re.compile(r"[A-Za-z_][\w./-]*")
_NUMBERED = re.compile(r"([a-z]*)([0-9]+)")
_MODEL = 3
"""Letters before a number that belong to a model (V100, T4, RTX3090) and not to a word that may be mistyped."""


def written(value: object) -> str:
    """How a value is written in a file: quoted where it would be read as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    bare = resolve(value)[0] == "str" and _BARE.fullmatch(value)
    return value if bare else json.dumps(value, ensure_ascii=False)


def renamed(at: ScalarNode, name: str) -> tuple[Edit, ...]:
    """The repair that writes a name in the place of a mistyped one; none where that would be a guess."""
    return (Edit(at, written(name)),) if at.plain and same_numbers(at.text, name) else ()


def renamed_part(at: Located, word: str, name: str) -> tuple[Edit, ...]:
    """The same for a component of a cell path; one that only lacks those above it is no guess."""
    completed = name.rpartition(".")[2] == word
    return (Edit(at, name),) if completed or same_numbers(word, name) else ()


def same_numbers(name: str, other: str) -> bool:
    """Whether two names differ in letters alone: `worker-1` is no typo of `worker-2`, nor `P100` of `V100`."""
    return _numbers(name) == _numbers(other)


def _numbers(name: str) -> list[str]:
    parts = _NUMBERED.findall(name.lower())
    return [(letters if len(letters) <= _MODEL else "") + (digits.lstrip("0") or "0") for letters, digits in parts]
