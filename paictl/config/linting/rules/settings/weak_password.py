"""A password is a well-known one, or the same as the user name.

Why: the account has sudo on every machine, and these passwords are the first that anybody tries.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    password: admin-password
    docker_image_tag: v1.8.1
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.settings import filled

_PAIRS = (("user", "password"), ("docker_registry_username", "docker_registry_password"))
_KNOWN = frozenset(
    (
        *("password", "passw0rd", "p@ssw0rd", "p@ssword", "password1", "password123", "passwd", "pass", "rootpass"),
        *("admin", "admin123", "adminpassword", "administrator", "root", "toor", "ubuntu", "user", "guest", "test"),
        *("openpai", "pai", "paiadmin", "secret", "letmein", "welcome", "welcome1", "default", "qwerty", "qwerty123"),
        *("1234", "12345", "123456", "1234567", "12345678", "123456789", "1234567890", "111111", "000000", "abc123"),
    )
)


@rule("CFG302", "weak-password", WARNING)
def check(document: Document) -> Findings:
    """Each password that is easily guessed; the message never shows it."""
    for user_key, key in _PAIRS:
        password, user = filled(document, key), document.top.scalar(user_key)
        if password is None:
            continue
        hint = "choose another one, on the machines too"
        if user is not None and password.text.lower() == user.text.lower():
            yield Finding(password, f"{key} is the same as {user_key}", hint)
        elif re.sub(r"[ _.-]", "", password.text.lower()) in _KNOWN:
            yield Finding(password, f"{key} is one of the passwords that are tried first", hint)
