"""The mail settings of the alert manager are incomplete.

Why: with one of the six keys missing OpenPAI sends no mail at all, without a word.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    alert-manager:
      alert-handler:
        email-configs:
          admin-receiver: ops@mail.internal
          smtp-host: smtp.mail.internal
          smtp-port: 587
          smtp-from: pai@mail.internal
          smtp-auth-username: pai
          smtp-auth-password: kept-elsewhere

Fails with::

    # services-configuration.yaml
    -      smtp-port: 587
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode, ScalarNode, SequenceNode

_KEYS = ("admin-receiver", "smtp-host", "smtp-port", "smtp-from", "smtp-auth-username", "smtp-auth-password")


@rule("SVC707", "incomplete-mail", ERROR)
def check(document: Document) -> Findings:
    """The keys that alert-handler.email-configs lacks, in one finding."""
    handler = document.top.at("alert-manager", "alert-handler")
    mail = handler.mapping("email-configs")
    missing = [key for key in _KEYS if not _is_set(mail, key)]
    at = handler.key("email-configs")
    if missing and at is not None and not isinstance(handler.get("email-configs"), SequenceNode):
        yield Finding(at, f"mail stays off, because email-configs lacks {', '.join(missing)}", "fill in all six keys")


def _is_set(mail: MappingNode, key: str) -> bool:
    value = mail.get(key)
    return value is not None and not (isinstance(value, ScalarNode) and value.tag == "null")
