"""Rules about the text itself: encoding, YAML syntax, keys written twice, values read as something else."""

from types import ModuleType

from paictl.config.linting.rules.text import (
    alias_bomb,
    alias_cycle,
    byte_order_mark,
    duplicate_key,
    empty,
    encoding,
    more_documents,
    odd_key,
    surprising_number,
    syntax,
    tab,
    too_deep,
    unknown_alias,
    unknown_ignore,
    unknown_kind,
    unknown_tag,
)

MODULES: tuple[ModuleType, ...] = (
    syntax,
    tab,
    encoding,
    byte_order_mark,
    duplicate_key,
    odd_key,
    unknown_tag,
    alias_cycle,
    alias_bomb,
    unknown_alias,
    too_deep,
    more_documents,
    empty,
    surprising_number,
    unknown_kind,
    unknown_ignore,
)
"""The rules of this package, by id."""
