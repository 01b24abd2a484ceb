"""An alert is routed to a receiver that is not defined, or a receiver is defined twice.

Why: the alert manager refuses its configuration as a whole and does not start.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    alert-manager:
      customized-routes:
        routes:
        - receiver: tell-admin
          match: {alertname: NodeGone}
      customized-receivers:
      - name: tell-admin
        actions: {cordon-nodes: }

Fails with::

    # services-configuration.yaml
    -    - receiver: tell-admin
    +    - receiver: tell-admni
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import place_of

_BUILT_IN = "pai-"
"""Receivers that OpenPAI's own template defines begin so; which there are depends on the release."""


@rule("SVC716", "unknown-receiver", ERROR)
def check(document: Document) -> Findings:
    """Every route to nowhere and every receiver after the first of its name."""
    alerts = document.top.mapping("alert-manager")
    known: dict[str, ScalarNode] = {}
    for receiver in alerts.sequence("customized-receivers").mappings():
        name = receiver.text("name")
        if name is not None and known.setdefault(name.text, name) is not name:
            line = place_of(known[name.text]).line
            yield Finding(name, f"receiver {name.text!r} stands twice, first in line {line}", "rename one of the two")
    for route in alerts.mapping("customized-routes").sequence("routes").mappings():
        wanted = route.text("receiver")
        if wanted is None or wanted.text in known or wanted.text.startswith(_BUILT_IN):
            continue
        hint = suggested(wanted, known, "define it under customized-receivers")
        yield Finding(wanted, f"there is no receiver {wanted.text!r}", *hint)
