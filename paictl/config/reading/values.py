"""Plain scalars → values under YAML 1.1, as OpenPAI's Python tools and HiveD read them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

MAX_NUMBER = 128
"""Longest text that is read as a number; arithmetic on longer ones costs seconds and means nothing."""

_resolver: Any = Resolver()  # untyped in its stubs
_constructor = SafeConstructor()
_constructors: dict[str, Callable[[yaml.ScalarNode], bool | int | float]] = {
    "int": _constructor.construct_yaml_int,
    "float": _constructor.construct_yaml_float,
    "bool": _constructor.construct_yaml_bool,
}
Value: TypeAlias = "bool | int | float | str | None"
_known: dict[str, tuple[str, Value, bool]] = {}


def resolve(text: str) -> tuple[str, Value, bool]:
    """(tag, value, surprising) of a plain scalar under YAML 1.1; dates stay text.

    A number is surprising where it is read as another one than the digits say: 012, 12:30, 1_000, 0x1F.
    """
    known = _known.get(text)
    if known is None:
        known = _resolve(text)
        if len(_known) < 100_000:
            _known[text] = known
    return known


def _resolve(text: str) -> tuple[str, Value, bool]:
    if "\n" in text:  # PyYAML's patterns end in `$`, which matches before a line end too
        return "str", text, False
    tag = str(_resolver.resolve(yaml.ScalarNode, text, (True, False))).rpartition(":")[2]
    if tag == "null":
        return "null", None, False
    if len(text) > MAX_NUMBER:
        return "str", text, False
    construct = _constructors.get(tag)
    if construct is None:
        return ("timestamp" if tag == "timestamp" else "str"), text, False
    try:
        value = construct(yaml.ScalarNode(f"tag:yaml.org,2002:{tag}", text))
    except (ValueError, OverflowError):
        return "str", text, False
    return tag, value, tag != "bool" and not _ORDINARY_NUMBER.match(text)


_ORDINARY_NUMBER = re.compile(
    r"[-+]?(0|[1-9][0-9]*)\Z|[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?\Z|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z"
)


_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./-]*")


def scalar(text: str) -> str:
    """A string as YAML: in quotes where it would be read as anything else."""
    return text if _PLAIN.fullmatch(text) and resolve(text)[0] == "str" else json.dumps(text)
