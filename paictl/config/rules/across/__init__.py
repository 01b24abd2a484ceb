"""Rules about files that belong together: those of one folder, or given together."""

from types import ModuleType

from paictl.config.rules.across import (
    address_differs,
    address_in_both_lists,
    device_count_differs,
    hived_switched_off,
    host_in_cluster_network,
    host_not_in_layout,
    machine_not_in_lists,
    master_in_worker_list,
    mixed_devices,
    port_in_host_range,
    resources_over_machine,
    role_differs,
    setting_differs,
    unknown_node,
    worker_without_cell,
)

MODULES: tuple[ModuleType, ...] = (
    master_in_worker_list,
    address_in_both_lists,
    host_not_in_layout,
    machine_not_in_lists,
    address_differs,
    role_differs,
    unknown_node,
    worker_without_cell,
    device_count_differs,
    resources_over_machine,
    hived_switched_off,
    mixed_devices,
    port_in_host_range,
    host_in_cluster_network,
    setting_differs,
)
"""The rules of this package, by id."""
