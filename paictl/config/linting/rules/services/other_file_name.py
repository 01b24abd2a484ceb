"""A file of service settings has a name that only resembles the one that is read.

Why: textbooks write service-configuration.yaml; OpenPAI reads services-configuration.yaml. Under the other name the
file stands beside the real one, and nobody can tell which of the two is in force.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1

Fails::

    # service-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
"""

from __future__ import annotations

from pathlib import PurePath

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.services import NEAR_NAMES, STANDARD_NAME


@rule("SVC717", "other-file-name", WARNING)
def check(document: Document) -> Findings:
    """The file, by its name."""
    name = PurePath(document.path).name
    if name in NEAR_NAMES:
        yield Finding(document.beginning, f"OpenPAI does not read {name}", f"rename it to {STANDARD_NAME}")
