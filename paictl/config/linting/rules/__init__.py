"""The table of rules, by the kind of file they look at; packages are imported when a file of their kind turns up."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module

from paictl.config.linting.registry import Rule, rule_of
from paictl.config.linting.silence import matches
from paictl.config.reading.kinds import Kind
from paictl.errors import PaictlError

PACKAGES: dict[str, tuple[Kind, ...]] = {
    "text": tuple(Kind),
    "shape": (Kind.CONFIG, Kind.LAYOUT, Kind.SERVICES, Kind.HIVED, Kind.JOB, Kind.SERVICE, Kind.LAB),
    "hosts": (Kind.MASTER_CSV, Kind.WORKER_CSV),
    "settings": (Kind.CONFIG,),
    "layout": (Kind.LAYOUT,),
    "hived": (Kind.HIVED,),
    "job": (Kind.JOB,),
    "services": (Kind.SERVICES,),
    "service": (Kind.SERVICE,),
    "lab": (Kind.LAB,),
}
"""Packages of rules about one file, in the order in which they run."""

ACROSS = "across"
"""The package of rules about files that belong together."""


@cache
def _package(name: str) -> tuple[Rule, ...]:
    modules = import_module(f"paictl.config.linting.rules.{name}").MODULES
    return tuple(rule_of(module, across_files=name == ACROSS) for module in modules)


@cache
def rules_for(kind: Kind, *, readable: bool = True) -> tuple[Rule, ...]:
    """The rules for a file of some kind; for one that could not be read only those about text."""
    names = [name for name, kinds in PACKAGES.items() if kind in kinds and (readable or name == "text")]
    return tuple(rule for name in names for rule in _package(name))


def rules_across() -> tuple[Rule, ...]:
    """The rules about files that belong together."""
    return _package(ACROSS)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    names = [*PACKAGES, ACROSS]
    return tuple(sorted((rule for name in names for rule in _package(name)), key=lambda rule: rule.id))


_FAMILY = 3
"""Letters of the prefix that rules about one subject share: TXT, HVD."""


def is_known(word: str) -> bool:
    """Whether a word of ``--select`` or of an ignore comment means any rule."""
    return any(matches(word, rule.id, rule.name) for rule in all_rules())


def find_rule(word: str) -> Rule:
    """The rule with an id or name; raises `PaictlError` with the nearest ones otherwise."""
    for rule in all_rules():
        if word.upper() == rule.id or word.lower() == rule.name:
            return rule
    raise PaictlError(f"there is no rule {word!r}", hint=nearest(word))


def nearest(word: str) -> str:
    """The hint for a word that means no rule: the nearest ids and names (the families for a short word)."""
    rules = all_rules()
    known = [rule.id for rule in rules] + [rule.name for rule in rules]
    if len(word) <= _FAMILY:
        known = sorted({rule.id[:_FAMILY] for rule in rules})
    near = difflib.get_close_matches(word, known, 3) or difflib.get_close_matches(word.upper(), known, 3)
    return f"did you mean {' or '.join(near)}?" if near else "list them with: paictl config rules"
