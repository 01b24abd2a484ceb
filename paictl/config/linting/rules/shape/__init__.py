"""Rules about shape: what the JSON Schema of a file's kind does not allow."""

from types import ModuleType

from paictl.config.linting.rules.shape import (
    bad_form,
    missing_key,
    not_a_string,
    not_allowed_value,
    not_unique,
    other_shape,
    out_of_range,
    unknown_key,
    wrong_type,
)

MODULES: tuple[ModuleType, ...] = (
    wrong_type,
    not_a_string,
    missing_key,
    unknown_key,
    not_allowed_value,
    out_of_range,
    bad_form,
    not_unique,
    other_shape,
)
"""The rules of this package, by id."""
