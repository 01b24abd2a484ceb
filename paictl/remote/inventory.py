"""Hosts that can be reached by SSH: their credentials, and the host keys that paictl trusts.

A key gets into it by `--accept-new-host-keys` (trust on first use, shown with its fingerprint), by `ssh-keyscan`, or by
hand; it leaves it by `ssh-keygen -R`. A key that is there and not the one that the host shows is never replaced by us.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from paictl.errors import PaictlError
from paictl.files import locked
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.places import config_folder


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
    it is not said otherwise; a user who is root already needs none. With a `bastion` all hosts are reached through it,
    by the key or the agent's keys.
    """

    password: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    sudo_password: str | None = field(default=None, repr=False)
    bastion: Host | None = None

    @property
    def for_sudo(self) -> str | None:
        """The password for sudo, should it ask."""
        return self.sudo_password if self.sudo_password is not None else self.password

    @property
    def secrets(self) -> frozenset[str]:
        """Values that must not appear anywhere."""
        return frozenset(password for password in (self.password, self.sudo_password) if password)


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


FILE: Final = "known_hosts"


@frozen
class HostKey:
    """A public host key; `kind` as in a file of known hosts (``ssh-ed25519``), `blob` as it goes over the wire."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint as `ssh` prints it: ``SHA256:`` and 43 characters."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    def line(self, place: str) -> str:
        """The line of a file of known hosts."""
        return f"{place} {self.kind} {base64.b64encode(self.blob).decode()}"


def known_hosts_file() -> Path:
    """paictl's own file of known hosts: what the user's `ssh` trusts is another matter."""
    return config_folder() / FILE


def remember(path: Path, place: str, key: HostKey) -> None:
    """Add a key to a file of known hosts, unless it holds it; raises `PaictlError` if that cannot be written."""
    line = key.line(place)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path.with_name(f".{path.name}.lock")):
            before = path.read_text(encoding="utf-8") if path.is_file() else ""
            if line in before.splitlines():
                return
            end = "" if not before or before.endswith("\n") else "\n"
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{end}{line}\n")
            path.chmod(0o600)
    except OSError as error:
        raise PaictlError(text("cannot be written: {strerror}", strerror=error.strerror), where=str(path)) from None


def command_to_forget(place: str, path: Path) -> str:
    """The command that takes a host's key out of the file."""
    return f"ssh-keygen -R '{place}' -f {path}"
