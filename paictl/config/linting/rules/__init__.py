"""The table of rules; families are imported when a file of their kind turns up."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sized
from functools import cache
from importlib import import_module
from typing import Any

from paictl import i18n
from paictl.config.linting.rule import Bundle, Document, Rule
from paictl.config.linting.suppressions import words_for
from paictl.config.reading.kinds import FileKind
from paictl.errors import PaictlError

TABLE: dict[str, tuple[str, ...]] = {
    "text": ("text.characters", "text.structure"),
    "file": ("file",),
    "shape": ("shape.types", "shape.keys"),
    "hosts": ("hosts.lines", "hosts.machines"),
    "settings": ("settings.login", "settings.network", "settings.values"),
    "layout": ("layout.skus", "layout.machines"),
    "hived": (
        "hived.cell_types",
        "hived.nodes",
        "hived.children",
        "hived.pinned",
        "hived.quotas",
        "hived.virtual_clusters",
        "hived.skus",
        "hived.mig",
    ),
    "job": ("job.prerequisites", "job.commands", "job.roles", "job.scheduling", "job.extras"),
    "services": (
        "services.credentials",
        "services.ports",
        "services.sections",
        "services.alerts",
        "services.sharing",
        "services.departments",
        "services.drivers",
    ),
    "service": ("service",),
    "lab": ("lab",),
    "across": (
        "across.hosts",
        "across.nodes",
        "across.settings",
        "across.jobs",
        "across.job_sizes",
        "across.services",
        "across.sharing",
        "across.mig",
    ),
}
"""Family of rules → the modules that hold them. Families run in this order; the last one takes bundles."""

KINDS: dict[str, tuple[FileKind, ...]] = {
    "text": tuple(FileKind),
    "file": tuple(FileKind),
    "shape": (
        FileKind.CONFIG,
        FileKind.LAYOUT,
        FileKind.SERVICES,
        FileKind.HIVED,
        FileKind.JOB,
        FileKind.SERVICE,
        FileKind.LAB,
    ),
    "hosts": (FileKind.MASTER_CSV, FileKind.WORKER_CSV),
    "settings": (FileKind.CONFIG,),
    "layout": (FileKind.LAYOUT,),
    "hived": (FileKind.HIVED,),
    "job": (FileKind.JOB,),
    "services": (FileKind.SERVICES,),
    "service": (FileKind.SERVICE,),
    "lab": (FileKind.LAB,),
}
"""The kinds of files that a family looks at; the family `across` takes files that belong together."""

OF_UNREADABLE = ("text", "file")
"""The families for files that could not be read to their end."""

FOUND_IN: dict[str, Callable[[Document], Sized]] = {
    "text": lambda document: document.issues,
    "shape": lambda document: document.violations,
}
"""Where a family finds all that it has to say of a document: where that is empty, its rules are not even loaded."""

ALONE = frozenset({FileKind.JOB, FileKind.LAB})
"""Kinds of files that say nothing of each other: jobs are compared with a cluster's files only."""


@cache
def _family(name: str) -> tuple[Rule[Any], ...]:
    """The rules of a family by id."""
    modules = [import_module(f"paictl.config.linting.rules.{module}") for module in TABLE[name]]
    rules = (value for module in modules for value in vars(module).values() if isinstance(value, Rule))
    return tuple(sorted(rules, key=lambda rule: rule.id))


def rules_for(kind: FileKind) -> tuple[Rule[Document], ...]:
    """The rules for files of some kind."""
    return tuple(rule for name, kinds in KINDS.items() if kind in kinds for rule in _family(name))


def rules_on(document: Document) -> tuple[Rule[Document], ...]:
    """Those of them that can find anything in a document."""
    names = [name for name, kinds in KINDS.items() if document.kind in kinds]
    if document.fatal:
        names = [name for name in names if name in OF_UNREADABLE]
    speaking = [name for name in names if name not in FOUND_IN or FOUND_IN[name](document)]
    return tuple(rule for name in speaking for rule in _family(name))


def rules_across(kinds: Collection[FileKind]) -> tuple[Rule[Bundle], ...]:
    """The rules about files of some kinds that belong together."""
    return () if ALONE.issuperset(kinds) else _family("across")


@cache
def all_rules() -> tuple[Rule[Any], ...]:
    """Every rule, by id."""
    return tuple(sorted((rule for name in TABLE for rule in _family(name)), key=lambda rule: rule.id))


_FAMILY = 3
"""Letters of the prefix that rules about one subject share: TXT, HVD."""


@cache
def _words() -> frozenset[str]:
    return frozenset(word for rule in all_rules() for word in words_for(rule.id, rule.name))


def is_known(word: str) -> bool:
    """Whether a word of ``--select`` or of an ignore comment means any rule."""
    return word.lower() in _words()


def find_rule(word: str) -> Rule[Any]:
    """The rule with an id or name; raises `PaictlError` with the nearest ones otherwise."""
    for rule in all_rules():
        if word.upper() == rule.id or word.lower() == rule.name:
            return rule
    raise PaictlError(i18n.text("no rule {word!r}", word=word), hint=nearest(word))


def nearest(word: str) -> str:
    """The hint for a word that means no rule: the nearest ids and names (the families for a short word)."""
    rules = all_rules()
    known = [rule.id for rule in rules] + [rule.name for rule in rules]
    if len(word) <= _FAMILY:
        known = sorted({rule.id[:_FAMILY] for rule in rules})
    near = difflib.get_close_matches(word, known, 3) or difflib.get_close_matches(word.upper(), known, 3)
    return i18n.text("did you mean {near}?", near=" or ".join(near)) if near else "list them with: paictl config rules"
