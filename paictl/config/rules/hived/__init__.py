"""Rules about hived."""

from types import ModuleType

MODULES: tuple[ModuleType, ...] = ()
"""The rules of this package, by id."""
