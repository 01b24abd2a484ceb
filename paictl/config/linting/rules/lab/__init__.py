"""Rules about guided labs: what would make a lab unusable, or a check hollow."""

from types import ModuleType

from paictl.config.linting.rules.lab import hollow_check, repeated_lab_id, unknown_lab_id

MODULES: tuple[ModuleType, ...] = (unknown_lab_id, repeated_lab_id, hollow_check)
"""The rules of this package, by id."""
