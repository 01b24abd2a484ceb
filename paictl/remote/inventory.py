"""Hosts that can be reached by SSH, and with which credentials: what `ssh` and `ansible` are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from paictl.frozen import frozen


@frozen
class Host:
    """One host; `variables` and `groups` are for playbooks, and hold no secrets."""

    name: str
    address: str
    user: str = "root"
    port: int = 22
    groups: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The name of the host in a file of known hosts."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


@frozen
class Login:
    """How to sign in to hosts, and how to become root there; nothing of it is shown by `repr`.

    Without password and key file, the user's agent and usual key files are tried. `sudo_password` is the password where
    it is not said otherwise; a user who is root already needs none.
    """

    password: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    sudo_password: str | None = field(default=None, repr=False)

    @property
    def for_sudo(self) -> str | None:
        """The password that sudo is told if it asks."""
        return self.sudo_password if self.sudo_password is not None else self.password

    @property
    def secrets(self) -> frozenset[str]:
        """Values that must not appear anywhere."""
        return frozenset(one for one in (self.password, self.sudo_password) if one)


@frozen
class Inventory:
    """Hosts in the order of their lists, and the one way to sign in to them; `variables` hold for all hosts."""

    hosts: tuple[Host, ...]
    login: Login = field(default_factory=Login)
    variables: Mapping[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    def __len__(self) -> int:
        return len(self.hosts)

    def only(self, names: Sequence[str]) -> Inventory:
        """The same with those hosts only; raises `KeyError` with the first name that none has."""
        by_name = {host.name: host for host in self.hosts}
        return replace(self, hosts=tuple(by_name[name] for name in names))

    def group(self, name: str) -> tuple[Host, ...]:
        """The hosts of a group."""
        return tuple(host for host in self.hosts if name in host.groups)
