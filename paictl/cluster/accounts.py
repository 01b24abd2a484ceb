"""Accounts of those who use a cluster over HTTP, and their tokens, as the cluster stores them; no rule about them.

Neither a password nor a token is in here, only what tells whether one that is shown is right. Instants are those of
the wall clock and not of the cluster's own: nobody's session ends because a class advances an imagined cluster a day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from datetime import datetime
from typing import Any

from paictl.cluster.values import ClusterError
from paictl.frozen import frozen
from paictl.i18n import text


class LastAdministratorError(ClusterError):
    """A change would leave a cluster without an administrator; nothing has changed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            text("{name} is the only administrator", name=name),
            hint="make another user an administrator first: paictl user grant NAME --admin",
        )


@frozen
class Account:
    """A user: `vcs` are the virtual clusters that were granted, `password` a slow hash with its parameters.

    `stamp` is a random word that changes with the password; a token of another stamp is not valid any more.
    """

    name: str
    admin: bool = False
    vcs: tuple[str, ...] = ()
    email: str = ""
    password: str = field(default="", repr=False)
    stamp: str = field(default="", repr=False)
    created: datetime | None = None
    subject: str = ""
    """Who it is at an OpenID provider (issuer and subject); empty for a user with a password of its own."""
    ssh_keys: tuple[str, ...] = ()
    """Public keys, each as a line of `authorized_keys`."""
    version: str = ""
    """What the store calls this state of the account; empty for one that is to be made."""


@frozen
class Token:
    """A token by its SHA-256; `kind` says what it was made for, and without `expires` it is valid until revoked."""

    digest: str = field(repr=False)
    user: str
    stamp: str = field(repr=False)
    kind: str
    created: datetime
    expires: datetime | None = None


def account_data(account: Account) -> dict[str, Any]:
    """An account as JSON values, without its version, which is the store's."""
    data = asdict(account)
    del data["version"]
    return {**data, "vcs": list(account.vcs), "ssh_keys": list(account.ssh_keys), "created": _written(account.created)}


def account_from(data: Mapping[str, Any], version: str) -> Account:
    """The inverse of `account_data`; raises `KeyError`, `TypeError` or `ValueError` for what is none."""
    created = None if data["created"] is None else datetime.fromisoformat(data["created"])
    keys = tuple(map(str, data.get("ssh_keys", ())))  # accounts of earlier versions have none
    return Account(**{**data, "vcs": tuple(data["vcs"]), "ssh_keys": keys, "created": created, "version": version})


def token_data(token: Token) -> dict[str, Any]:
    """A token as JSON values."""
    return {**asdict(token), "created": _written(token.created), "expires": _written(token.expires)}


def token_from(data: Mapping[str, Any]) -> Token:
    """The inverse of `token_data`; raises `KeyError`, `TypeError` or `ValueError` for what is none."""
    expires = None if data["expires"] is None else datetime.fromisoformat(data["expires"])
    return Token(**{**data, "created": datetime.fromisoformat(data["created"]), "expires": expires})


def _written(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
