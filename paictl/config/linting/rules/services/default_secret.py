"""A password or key is blank, a well-known default, or the same as its user.

Why: everybody knows the defaults of OpenPAI. Who knows `jwt-secret` can sign a token that makes him administrator.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
      jwt-secret: 5f0c27-own

Fails with::

    # services-configuration.yaml
    -  jwt-secret: 5f0c27-own
    +  jwt-secret: pai-secret
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules.shape.words import dotted
from paictl.config.models.services import described_keys
from paictl.config.reading.nodes import ScalarNode

_OF_OPENPAI = frozenset({"pai-secret", "hellopai", "hello", "rootpass", "smbpwd", "passwd", "admin-password"})
_OF_EVERYBODY = frozenset(
    {"password", "pass", "admin", "root", "test", "123456", "12345678", "changeme", "change-me", "secret", "openpai"}
)
_USERS = {
    "default-pai-admin-password": "default-pai-admin-username",
    "password": "username",
    "passwd": "user",
    "smbpwd": "smbuser",
    "domainpwd": "domainuser",
    "admin_password": "admin_name",
    "smtp-auth-password": "smtp-auth-username",
}


@rule("SVC705", "default-secret", WARNING)
def check(document: Document) -> Findings:
    """Every secret that anybody would try first; messages never show it."""
    for path, entry, schema in described_keys(document):
        secret = entry.value
        if not schema.get("x-secret") or not isinstance(secret, ScalarNode) or not isinstance(secret.value, str):
            continue
        reason = _weakness(secret.value, _user(document, path))
        if reason:
            yield Finding(secret, f"{dotted(path)} is {reason}", "choose one that nobody else has")


def _weakness(secret: str, user: str) -> str | None:
    if secret and not secret.strip():
        return "blank"
    if secret.lower() in _OF_OPENPAI | _OF_EVERYBODY:
        return "a default that everybody knows"
    return "the same as the user" if user and secret == user else None


def _user(document: Document, path: tuple[str | int, ...]) -> str:
    """The user beside a password; empty where there is none."""
    holder = document.top.at(*(str(step) for step in path[:-1]))
    user = holder.text(_USERS.get(str(path[-1]), ""))
    return user.text if user else ""
