"""Rules about the machine layout: layout.yaml, in its newest and its legacy form."""

from types import ModuleType

from paictl.config.linting.rules.layout import (
    bad_machine_address,
    bad_machine_name,
    bad_memory,
    bad_sku_name,
    decimal_memory,
    duplicate_machine_address,
    duplicate_machine_name,
    legacy_field,
    legacy_form,
    master_is_worker,
    no_role,
    no_worker,
    one_master,
    unfilled_machine,
    unknown_sku,
    unusable_machine_address,
    unused_sku,
)

MODULES: tuple[ModuleType, ...] = (
    legacy_form,
    legacy_field,
    unfilled_machine,
    unknown_sku,
    unused_sku,
    bad_sku_name,
    bad_memory,
    decimal_memory,
    bad_machine_name,
    bad_machine_address,
    unusable_machine_address,
    duplicate_machine_name,
    duplicate_machine_address,
    no_role,
    one_master,
    no_worker,
    master_is_worker,
)
"""The rules of this package, by id."""
