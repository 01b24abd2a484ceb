"""Two files set the same service.

Why: only one of the two counts, and which one nobody can see: OpenPAI reads services-configuration.yaml, and changes in
the other file never arrive; or they do, and those in the first are lost.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    webportal: {server-port: 9286}

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    webportal: {server-port: 9286}

    # services-configuration-new.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    webportal: {server-port: 9386}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.services import STANDARD_NAME
from paictl.config.reading.kinds import Kind
from paictl.config.reading.nodes import Scalar
from paictl.config.reading.source import place_of


@rule("XRF916", "service-set-twice", ERROR)
def check(bundle: Bundle) -> Findings:
    """Every section of service settings that an earlier file has, the file with the right name coming first."""
    documents = sorted(bundle.of(Kind.SERVICES), key=lambda document: not document.path.endswith(STANDARD_NAME))
    first: dict[str, Scalar] = {}
    for document in documents:
        for entry in document.top:
            other = first.setdefault(entry.name, entry.key)
            if other is not entry.key:
                place = place_of(other)
                message = f"{entry.name} is set in {place.path} too, line {place.line}"
                yield Finding(entry.key, message, f"keep one of the two, in {STANDARD_NAME}")
