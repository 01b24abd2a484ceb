"""Rules about service settings: sections that OpenPAI merges over its defaults without looking at them."""

from types import ModuleType

from paictl.config.linting.rules.services import (
    alert_rules,
    certificate_file,
    default_secret,
    dropped_defaults,
    duplicate_group,
    empty_section,
    incomplete_login,
    incomplete_mail,
    incomplete_storage,
    legacy_service_setting,
    missing_token,
    no_hived_config,
    placeholder,
    port_collision,
    schedule_ports,
    unknown_receiver,
)

MODULES: tuple[ModuleType, ...] = (
    empty_section,
    port_collision,
    schedule_ports,
    certificate_file,
    default_secret,
    placeholder,
    incomplete_mail,
    missing_token,
    legacy_service_setting,
    no_hived_config,
    duplicate_group,
    incomplete_login,
    dropped_defaults,
    alert_rules,
    incomplete_storage,
    unknown_receiver,
)
"""The rules of this package, by id."""
