"""Rules about the text itself: encoding, YAML syntax, keys written twice, values read as something else."""

from types import ModuleType

from paictl.config.rules.text import duplicate_key

MODULES: tuple[ModuleType, ...] = (duplicate_key,)
"""The rules of this package, by id."""
