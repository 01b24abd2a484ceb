"""What a rule is: the names that a module of `rules` needs, and nothing else.

A rule is one decorated function. Its docstring *is* its manual (`manual` reads it)::

    @rule("HVD513", "bad-device-index", ERROR)
    def bad_device_index(document: Document) -> Findings:
        \"\"\"The address of a device is not its index in the node. …\"\"\"

A rule that takes a `Bundle` looks at files that belong together, one that takes a `Document` at one. `rules.TABLE`
lists the modules.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Generic, TypeVar

from paictl.config.linting.manual import Manual, parse_manual
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.problem import Edit, Finding, Severity
from paictl.config.reading.source import Located, Span
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
            raise PaictlError("the documentation of the rules is not there", hint="run Python without -OO")
        module = self.check.__module__
        return parse_manual(
            text, *(inspect.getdoc(sys.modules[name]) or "" for name in (module, module.rpartition(".")[0]))
        )


def rule(
    rule_id: str, name: str, severity: Severity
) -> Callable[[Callable[[Subject], Iterable[Finding]]], Rule[Subject]]:
    """Make a rule of the function below: it yields findings, to which the rule lends id, name and severity."""
    return lambda check: Rule(rule_id, name, severity, check)
