"""Alert rules and who is told."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import suggested
from paictl.config.reading.nested import embedded_source
from paictl.config.reading.nodes import MappingNode, ScalarNode, SequenceNode
from paictl.config.reading.source import place_of
from paictl.config.reading.yamltree import IssueKind, parse_yaml
from paictl.i18n import sayable, text


@rule("SVC714", "alert-rules", ERROR)
def alert_rules(document: Document) -> Findings:
    """Prometheus cannot read its alert rules.

    Why: `customized-alerts` is a text that nothing checks before Prometheus reads it, and then Prometheus does not
    start.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
        prometheus:
          customized-alerts: |
            groups:
            - name: mine
              rules:
              - alert: NodeGone
                expr: up == 0

    Fails with::

        # services-configuration.yaml
        -        expr: up == 0
        +        exp: up == 0
    """
    # What is wrong in the text, at its own lines.
    alerts = document.top.mapping("prometheus").text("customized-alerts")
    if alerts is None or not alerts.text.strip():
        return
    tree = parse_yaml(embedded_source(alerts))
    if tree.fatal:
        for issue in tree.issues:
            if issue.kind in (IssueKind.SYNTAX, IssueKind.TAB):
                reason = sayable(issue.detail or "a tab in the indentation")
                yield Finding(
                    issue.at, text("the alert rules are not YAML: {reason}", reason=reason), "correct the text"
                )
        return
    groups = tree.root.get("groups") if isinstance(tree.root, MappingNode) else None
    if not isinstance(groups, SequenceNode):
        yield Finding(alerts, "the alert rules do not begin with a list of groups", "begin with groups:")
        return
    for group in groups.mappings():
        yield from _lacking(group, "a group of alert rules lacks the key {key!r}", ("name", "rules"))
        for item in group.sequence("rules").mappings():
            keys = ("expr",) if "record" in item else ("alert", "expr")
            yield from _lacking(item, "an alert rule lacks the key {key!r}", keys)


def _lacking(node: MappingNode, message: str, keys: tuple[str, ...]) -> Findings:
    first = next(iter(node), None)
    for key in keys:
        if key not in node:
            yield Finding(
                first.key if first else node,
                text(message, key=key),
                text("add {key}", key=key),
            )


_BUILT_IN = "pai-"
"""Receivers that OpenPAI's own template defines begin so; which there are depends on the release."""


@rule("SVC716", "unknown-receiver", ERROR)
def unknown_receiver(document: Document) -> Findings:
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
    # Every route to nowhere and every receiver after the first of its name.
    alerts = document.top.mapping("alert-manager")
    known: dict[str, ScalarNode] = {}
    for receiver in alerts.sequence("customized-receivers").mappings():
        name = receiver.text("name")
        if name is not None and known.setdefault(name.text, name) is not name:
            line = place_of(known[name.text]).line
            yield Finding(
                name,
                text("receiver {name!r} appears twice, first in line {line}", name=name.text, line=line),
                "rename one of the two",
            )
    for route in alerts.mapping("customized-routes").sequence("routes").mappings():
        wanted = route.text("receiver")
        if wanted is None or wanted.text in known or wanted.text.startswith(_BUILT_IN):
            continue
        hint = suggested(wanted, known, "define it under customized-receivers")
        yield Finding(wanted, text("no receiver {wanted!r}", wanted=wanted.text), *hint)
