"""A nested key is written in part, and the rest of its defaults is lost.

Why: except for `cluster` and `alert-manager`, OpenPAI merges only the first level: a `group-manager` with nothing but a
`grouplist` has no administrators' group any more.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    authentication:
      OIDC: false
      group-manager:
        group-data-source: basic
        admin-group: {groupname: admins, extension: {acls: {admin: true}}}
        default-group: {groupname: everybody, extension: {acls: {admin: false}}}

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    authentication:
      group-manager:
        grouplist:
        - groupname: vision
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode

_NESTED = {
    ("authentication", "group-manager"): ("group-data-source", "admin-group", "default-group"),
    ("prometheus-pushgateway", "metrics-cleaner"): ("job-time-to-live", "clean-interval"),
}
"""Nested defaults that services read without asking whether they are there."""


@rule("SVC713", "dropped-defaults", ERROR)
def check(document: Document) -> Findings:
    """Every nested mapping that lacks keys which its default has."""
    for (section, key), needed in _NESTED.items():
        nested = document.top.mapping(section).get(key)
        if not isinstance(nested, MappingNode):
            continue
        missing = [name for name in needed if name not in nested]
        if missing:
            at = document.top.mapping(section).key(key) or nested
            message = f"{section}.{key} replaces its default as a whole and lacks {', '.join(missing)}"
            yield Finding(at, message, "write these keys too")
