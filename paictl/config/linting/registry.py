"""What a rule is, and how its documentation is read.

A rule is a module with `ID`, `NAME`, `SEVERITY` and `check`. Its docstring *is* its manual: a sentence that says what
is wrong, then why it matters, then examples under `Passes` and `Fails`, which `paictl config explain` shows and the
tests run::

    \"\"\"A cell type needs itself as a child.

    Why: HiveD follows childCellType without end and runs out of memory.

    Passes::

        # hivedscheduler.yaml
        physicalCluster: …

    Fails::

        # hivedscheduler.yaml
        physicalCluster: …
    \"\"\"

An example starts with a comment that names its file (a second such comment starts a second file), because the kind of
a file is told by name and content. ``# name.yaml (escaped)`` says that the text holds Python escapes (``\\t``,
``\\xff``) for bytes that a docstring cannot hold.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import cast

from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.problem import Finding, Severity
from paictl.errors import PaictlError

Check = Callable[[Document], Iterable[Finding]]
BundleCheck = Callable[[Bundle], Iterable[Finding]]


@dataclass(frozen=True)
class Rule:
    """A rule of the table: `check` is bound, the documentation is parsed when somebody asks for it."""

    id: str
    name: str
    severity: Severity
    module: ModuleType
    across_files: bool = False

    @property
    def check(self) -> Check:
        """Findings in one document (rules with `across_files` take a bundle: `check_bundle`)."""
        return cast(Check, self.module.check)

    @property
    def check_bundle(self) -> BundleCheck:
        """Findings in the files of one cluster configuration."""
        return cast(BundleCheck, self.module.check)

    @cached_property
    def manual(self) -> Manual:
        """The documentation of the rule."""
        text = inspect.getdoc(self.module)
        if text is None:  # python -OO
            raise PaictlError("the documentation of the rules is not there", hint="run Python without -OO")
        return parse_manual(text)


@dataclass(frozen=True, slots=True)
class Manual:
    """`summary` is one sentence, `why` the paragraph after it; examples map file names to texts."""

    summary: str
    why: str
    passes: dict[str, bytes]
    fails: dict[str, bytes]


def rule_of(module: ModuleType, *, across_files: bool = False) -> Rule:
    """The rule that a module defines."""
    return Rule(module.ID, module.NAME, module.SEVERITY, module, across_files)


_BLOCK = re.compile(r"^(Passes|Fails)::\n", re.MULTILINE)
_FILE = re.compile(r"^# ([\w.-]+\.(?:ya?ml|csv))( \(escaped\))?$", re.MULTILINE)


def parse_manual(doc: str) -> Manual:
    """Split a rule's docstring into summary, reason and examples."""
    parts = _BLOCK.split(doc)
    summary, _, why = parts[0].strip().partition("\n\n")
    blocks = dict(zip(parts[1::2], parts[2::2], strict=True))
    return Manual(
        " ".join(summary.split()),
        _reason(why),
        _example(blocks.get("Passes", "")),
        _example(blocks.get("Fails", "")),
    )


def _reason(why: str) -> str:
    """The paragraph behind `Why:` as one line; it may start with the name of a key, which stays as it is."""
    text = " ".join(why.split()).removeprefix("Why: ")
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+,?(?: |$)", text) else text


def _example(block: str) -> dict[str, bytes]:
    """File name → content of the files in an example block; the naming comment stays the first line of plain YAML."""
    text = textwrap.dedent(block).strip("\n")
    marks = list(_FILE.finditer(text))
    files: dict[str, bytes] = {}
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        name, escaped = mark.groups()
        start = mark.end() + 1 if escaped or name.endswith(".csv") else mark.start()
        body = text[start : following.start() if following else len(text)].rstrip("\n") + "\n"
        data = body.encode()
        files[name] = data.decode("unicode_escape").encode("latin-1") if escaped else data
    return files
