"""A value is still the placeholder of a template.

Why: OpenPAI takes it as it stands: an administrator called `your_default_pai_admin_username`, mail to example.com.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: your_default_pai_admin_username
      default-pai-admin-password: not-a-default-1
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted, shown
from paictl.config.models.placeholders import is_placeholder
from paictl.config.models.services import described_keys
from paictl.config.reading.nodes import ScalarNode, SequenceNode

_OF_SERVICES = re.compile(
    r"\byour[-_ ]|\$\{[^}]*\}|\{tenantID\}|^([xy])\1{3,}$|@example\.(com|org)$|^ip-address$", re.IGNORECASE
)
_TEXTS = (("prometheus", "customized-alerts"), ("hivedscheduler", "config"))


@rule("SVC706", "placeholder", WARNING)
def check(document: Document) -> Findings:
    """Every string that looks like one to be filled in; texts of other languages are left alone."""
    for path, entry, schema in described_keys(document):
        values = entry.value.scalars() if isinstance(entry.value, SequenceNode) else [entry.value]
        for value in values:
            if path in _TEXTS or not isinstance(value, ScalarNode) or not isinstance(value.value, str):
                continue
            if is_placeholder(value.value) or _OF_SERVICES.search(value.value):
                what = "a placeholder" if schema.get("x-secret") else f"the placeholder {shown(value)}"
                yield Finding(value, f"{dotted(path)} is still {what}", "fill in your own value")
