"""A section is there but has nothing in it.

Why: OpenPAI lays the section over the service's defaults; with nothing there it stops with a TypeError that names no
file. A section that is left out is fine.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1

Fails with::

    # services-configuration.yaml
       default-pai-admin-password: not-a-default-1
    +grafana:
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.services import described_keys
from paictl.config.reading.nodes import ScalarNode


@rule("SVC701", "empty-section", ERROR)
def check(document: Document) -> Findings:
    """Every section without a value; legacy ones have a rule of their own."""
    for path, entry, schema in described_keys(document):
        if len(path) > 1:
            continue
        empty = isinstance(entry.value, ScalarNode) and entry.value.tag == "null"
        if empty and "deprecationMessage" not in schema:
            message = f"section {entry.name!r} is empty, on which OpenPAI stops with a TypeError"
            yield Finding(entry.key, message, "remove the line, or write settings below it")
