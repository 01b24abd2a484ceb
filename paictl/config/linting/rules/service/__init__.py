"""Rules about service descriptions: what the deployment would stumble over."""

from types import ModuleType

from paictl.config.linting.rules.service import (
    contradictory_rules,
    misspelt_label,
    no_refresh_script,
    not_for_kubernetes,
    path_outside,
    same_script,
    self_prerequisite,
    template_suffix,
)

MODULES: tuple[ModuleType, ...] = (
    no_refresh_script,
    self_prerequisite,
    template_suffix,
    path_outside,
    contradictory_rules,
    not_for_kubernetes,
    same_script,
    misspelt_label,
)
"""The rules of this package, by id."""
