"""The SSH keys of accounts: tasks of the user's jobs with the plugin `ssh` let in who holds one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from paictl.cluster.accounts import Account
from paictl.cluster.interface import ConflictError, Users
from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.operate.users.accounts import change, find
from paictl.workload.ssh import PublicKey, public_key

MOST_KEYS: Final = 20
"""Keys of an account."""


def keys_of(users: Users, name: str) -> tuple[PublicKey, ...]:
    """The keys of an account; raises `ClusterError` if there is none of that name."""
    return tuple(map(public_key, find(users, name).ssh_keys))


def add_key(users: Users, name: str, line: str, title: str = "") -> PublicKey:
    """Add a key; `title` instead of the one in the line. Raises `PaictlError` for what is not a public key."""
    key = public_key(line)
    key = replace(key, title=public_key(f"{key.kind} {key.data} {title}").title) if title else key

    def added(account: Account) -> Account:
        known = tuple(map(public_key, account.ssh_keys))
        if any((other.kind, other.data) == (key.kind, key.data) for other in known):
            raise ConflictError(text("user {name} has this key already", name=name))
        if key.title and any(other.title == key.title for other in known):
            raise ConflictError(
                text("user {name} has another key called {title!r}", name=name, title=key.title),
                hint=text("give another title: --title TITLE"),
            )
        if len(known) >= MOST_KEYS:
            raise PaictlError(text("user {name} has {count} keys, which is the limit", name=name, count=len(known)))
        return replace(account, ssh_keys=(*account.ssh_keys, key.line))

    change(users, name, added)
    return key


def remove_key(users: Users, name: str, word: str) -> PublicKey:
    """Remove a key by its title or fingerprint; raises `PaictlError` if none or several are meant."""
    keys = keys_of(users, name)
    meant = [key for key in keys if word in (key.title, key.fingerprint, key.fingerprint.removeprefix("SHA256:"))]
    if len(meant) != 1:
        there = listed([key.title or key.fingerprint for key in keys]) or text("none")
        raise PaictlError(
            text("user {name} has no key {word!r}", name=name, word=word), hint=text("keys: {keys}", keys=there)
        )
    (gone,) = meant
    change(users, name, lambda account: replace(
        account, ssh_keys=tuple(key for key in account.ssh_keys if public_key(key).data != gone.data)
    ))  # fmt: skip
    return gone
