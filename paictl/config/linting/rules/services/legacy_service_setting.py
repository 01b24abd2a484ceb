"""A section or key belongs to an old release of OpenPAI.

Why: releases since v1.0 ignore it without a word, or keep it for one more release only.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    grafana: {port: 3000}

Fails with::

    # services-configuration.yaml
    -grafana: {port: 3000}
    +grafana: {grafana-port: 3000}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted
from paictl.config.models.services import described_keys


@rule("SVC709", "legacy-service-setting", WARNING)
def check(document: Document) -> Findings:
    """Every key that the schema marks as deprecated, with what to do instead."""
    for path, entry, schema in described_keys(document):
        advice = schema.get("deprecationMessage")
        if advice:
            what = "section" if len(path) == 1 else "key"
            yield Finding(entry.key, f"{what} {dotted(path)} is legacy", advice)
