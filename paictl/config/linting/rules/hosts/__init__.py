"""Rules about host lists: master.csv and worker.csv, one line `hostname,address` a machine."""

from types import ModuleType

from paictl.config.linting.rules.hosts import (
    bad_address,
    bad_host_name,
    blank_line,
    comment_line,
    duplicate_address,
    duplicate_host,
    even_masters,
    field_count,
    header_line,
    ipv6_address,
    no_host,
    quoted_field,
    single_master,
    spaces_around_field,
    swapped_fields,
    unusable_address,
)

MODULES: tuple[ModuleType, ...] = (
    field_count,
    header_line,
    blank_line,
    comment_line,
    spaces_around_field,
    quoted_field,
    swapped_fields,
    bad_host_name,
    bad_address,
    unusable_address,
    ipv6_address,
    duplicate_host,
    duplicate_address,
    even_masters,
    single_master,
    no_host,
)
"""The rules of this package, by id."""
