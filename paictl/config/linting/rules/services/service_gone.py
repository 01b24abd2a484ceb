"""A section of a service of OpenPAI that paictl does not have.

Why: what it did is done by others now, so that its settings have no effect. They are kept and do no harm; the services
that took its place are named.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    webportal: {server-port: 9286}

Fails with::

    # services-configuration.yaml
    -webportal: {server-port: 9286}
    +pylon: {port: 80}
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.services import GONE


@rule("SVC718", "service-gone", INFO)
def check(document: Document) -> Findings:
    """Every section of a service that was given up, with what took its place."""
    for entry in document.top:
        instead = GONE.get(entry.key.text)
        if instead:
            yield Finding(entry.key, f"section {entry.key.text} has no effect: paictl has no such service", instead)
