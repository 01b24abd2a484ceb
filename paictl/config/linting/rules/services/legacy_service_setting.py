"""A section or key belongs to an old release of OpenPAI.

Why: releases since v1.0 ignore it without a word, or keep it for one more release only.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    grafana: {port: 3000}

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    grafana: {grafana-port: 3000}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rules.shape.words import dotted
from paictl.config.models.services import described_keys
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "SVC709"
NAME = "legacy-service-setting"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """Every key that the schema marks as deprecated, with what to do instead."""
    for path, entry, schema in described_keys(document):
        advice = schema.get("deprecationMessage")
        if advice:
            what = "section" if len(path) == 1 else "key"
            yield Finding(entry.key, f"{what} {dotted(path)} is legacy", advice)
