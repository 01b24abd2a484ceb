"""Rules about cluster settings: config.yaml."""

from types import ModuleType

from paictl.config.linting.rules.settings import (
    bad_image_tag,
    bad_network,
    bad_registry,
    both_credentials,
    docker_cache_account,
    extra_var_boolean,
    key_file_missing,
    kubelet_flags_replaced,
    legacy_setting,
    no_credential,
    overlapping_networks,
    placeholder,
    port_range,
    relative_key_path,
    setting_in_comment,
    setting_without_effect,
    unsafe_password,
    weak_password,
)

MODULES: tuple[ModuleType, ...] = (
    placeholder,
    weak_password,
    no_credential,
    unsafe_password,
    bad_image_tag,
    relative_key_path,
    key_file_missing,
    both_credentials,
    legacy_setting,
    setting_without_effect,
    port_range,
    bad_registry,
    bad_network,
    overlapping_networks,
    extra_var_boolean,
    kubelet_flags_replaced,
    docker_cache_account,
    setting_in_comment,
)
"""The rules of this package, by id."""
