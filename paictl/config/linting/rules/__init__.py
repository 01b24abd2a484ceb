"""The table of rules; families are imported when a file of their kind turns up."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sized
from functools import cache
from importlib import import_module
from typing import Any

from paictl.config.linting.rule import Bundle, Document, Rule
from paictl.config.linting.suppressions import words_for
from paictl.config.reading.kinds import FileKind
from paictl.errors import PaictlError

TABLE: dict[str, str] = {
    "text": """
        syntax tab encoding byte_order_mark duplicate_key odd_key unknown_tag alias_cycle alias_bomb unknown_alias
        too_deep more_documents empty surprising_number
    """,
    "file": """
        unknown_kind unknown_ignore typographic_quotes
    """,
    "shape": """
        wrong_type not_a_string missing_key unknown_key not_allowed_value out_of_range bad_form not_unique other_shape
    """,
    "hosts": """
        field_count header_line blank_line comment_line spaces_around_field quoted_field swapped_fields bad_host_name
        bad_address unusable_address ipv6_address duplicate_host duplicate_address even_masters single_master no_host
    """,
    "settings": """
        placeholder weak_password no_credential unsafe_password bad_image_tag relative_key_path key_file_missing
        both_credentials legacy_setting setting_without_effect port_range bad_registry bad_network overlapping_networks
        extra_var_boolean kubelet_flags_replaced docker_cache_account setting_in_comment
    """,
    "layout": """
        legacy_form legacy_field unfilled_machine unknown_sku unused_sku bad_sku_name bad_memory decimal_memory
        bad_machine_name bad_machine_address unusable_machine_address duplicate_machine_name duplicate_machine_address
        no_role one_master no_worker master_is_worker
    """,
    "hived": """
        misspelt_child_type cell_type_circle no_node_level two_node_levels unknown_cell_type dot_in_cell_type
        unused_cell_type node_without_address bad_node_name repeated_node address_above_node repeated_cell_address
        bad_device_index repeated_device_index children_count other_cell_type repeated_pinned_id unknown_pinned_id
        unclaimed_pinned_cell pinned_cell_claimed_twice pinned_inside_pinned misplaced_pinned_cells unknown_chain
        wrong_cell_path quota_exceeds_cluster quota_not_backed sku_memory unknown_sku device_without_sku no_skus vc_name
        vc_without_cells zero_cells unused_chain small_largest_pod renamed_key repeated_promise no_default_vc
        sku_without_gpu huge_node
    """,
    "job": """
        unknown_prerequisite unknown_deployment unknown_deployment_role duplicate_prerequisite duplicate_deployment
        unresolved_template role_name colliding_roles gang_retries unreachable_completion resource_amount crit_priority
        sku_and_pin mixed_affinity_group unknown_scheduled_role ignored_sku_number clear_password blank_command
        shared_memory port_label prerequisite_form role_outside_gang opportunistic_pin unused_prerequisite
        unknown_plugin_role misplaced_wish misspelt_extra too_many_tasks large_commands without_effect
    """,
    "services": """
        empty_section port_collision schedule_ports certificate_file default_secret placeholder incomplete_mail
        missing_token legacy_service_setting no_hived_config duplicate_group incomplete_login dropped_defaults
        alert_rules incomplete_storage unknown_receiver other_file_name service_gone unknown_image
    """,
    "service": """
        no_refresh_script self_prerequisite template_suffix path_outside contradictory_rules not_for_kubernetes
        same_script misspelt_label
    """,
    "lab": """
        unknown_lab_id repeated_lab_id hollow_check
    """,
    "across": """
        master_in_worker_list address_in_both_lists host_not_in_layout machine_not_in_lists address_differs role_differs
        unknown_node worker_without_cell device_count_differs resources_over_machine hived_switched_off mixed_devices
        port_in_host_range host_in_cluster_network setting_differs service_set_twice
        job_vc job_sku job_pin job_pod_size job_gang_size job_no_gpu group_vc
        service_prerequisite service_cycle service_file
    """,
}
"""Every rule: family (a folder) → modules, by id. Families run in this order; the last one takes bundles."""

KINDS: dict[str, tuple[FileKind, ...]] = {
    "text": tuple(FileKind),
    "file": tuple(FileKind),
    "shape": (
        FileKind.CONFIG,
        FileKind.LAYOUT,
        FileKind.SERVICES,
        FileKind.HIVED,
        FileKind.JOB,
        FileKind.SERVICE,
        FileKind.LAB,
    ),
    "hosts": (FileKind.MASTER_CSV, FileKind.WORKER_CSV),
    "settings": (FileKind.CONFIG,),
    "layout": (FileKind.LAYOUT,),
    "hived": (FileKind.HIVED,),
    "job": (FileKind.JOB,),
    "services": (FileKind.SERVICES,),
    "service": (FileKind.SERVICE,),
    "lab": (FileKind.LAB,),
}
"""The kinds of files that a family looks at; the family `across` takes files that belong together."""

OF_UNREADABLE = ("text", "file")
"""The families for files that could not be read to their end."""

FOUND_IN: dict[str, Callable[[Document], Sized]] = {
    "text": lambda document: document.issues,
    "shape": lambda document: document.violations,
}
"""Where a family finds all that it has to say of a document: where that is empty, its rules are not even loaded."""

ALONE = frozenset({FileKind.JOB, FileKind.LAB})
"""Kinds of files that say nothing of each other: jobs are compared with a cluster's files only."""


@cache
def _family(name: str) -> tuple[Rule[Any], ...]:
    folder = f"paictl.config.linting.rules.{name}"
    return tuple(import_module(f"{folder}.{module}").check for module in TABLE[name].split())


def rules_for(kind: FileKind) -> tuple[Rule[Document], ...]:
    """The rules for files of some kind."""
    return tuple(rule for name, kinds in KINDS.items() if kind in kinds for rule in _family(name))


def rules_on(document: Document) -> tuple[Rule[Document], ...]:
    """Those of them that can find anything in a document."""
    names = [name for name, kinds in KINDS.items() if document.kind in kinds]
    if document.fatal:
        names = [name for name in names if name in OF_UNREADABLE]
    speaking = [name for name in names if name not in FOUND_IN or FOUND_IN[name](document)]
    return tuple(rule for name in speaking for rule in _family(name))


def rules_across(kinds: Collection[FileKind]) -> tuple[Rule[Bundle], ...]:
    """The rules about files of some kinds that belong together."""
    return () if ALONE.issuperset(kinds) else _family("across")


@cache
def all_rules() -> tuple[Rule[Any], ...]:
    """Every rule, by id."""
    return tuple(sorted((rule for name in TABLE for rule in _family(name)), key=lambda rule: rule.id))


_FAMILY = 3
"""Letters of the prefix that rules about one subject share: TXT, HVD."""


@cache
def _words() -> frozenset[str]:
    return frozenset(word for rule in all_rules() for word in words_for(rule.id, rule.name))


def is_known(word: str) -> bool:
    """Whether a word of ``--select`` or of an ignore comment means any rule."""
    return word.lower() in _words()


def find_rule(word: str) -> Rule[Any]:
    """The rule with an id or name; raises `PaictlError` with the nearest ones otherwise."""
    for rule in all_rules():
        if word.upper() == rule.id or word.lower() == rule.name:
            return rule
    raise PaictlError(f"there is no rule {word!r}", hint=nearest(word))


def nearest(word: str) -> str:
    """The hint for a word that means no rule: the nearest ids and names (the families for a short word)."""
    rules = all_rules()
    known = [rule.id for rule in rules] + [rule.name for rule in rules]
    if len(word) <= _FAMILY:
        known = sorted({rule.id[:_FAMILY] for rule in rules})
    near = difflib.get_close_matches(word, known, 3) or difflib.get_close_matches(word.upper(), known, 3)
    return f"did you mean {' or '.join(near)}?" if near else "list them with: paictl config rules"
