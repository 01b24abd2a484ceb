"""How hosts are connected to, and what is said of one that is not reached; and a shell there by this machine's `ssh`.

Help loads this module, so it needs no library for SSH; `connection` does.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.inventory import Host, Login, known_hosts_file
from paictl.remote.ssh.bastion import jump_options, jump_setting
from paictl.remote.ssh.results import CommandStatus


@frozen
class SshOptions:
    """How to connect. Times are in seconds: `connect` for each step of connecting, `silence` without any answer of a
    host after which it counts as lost. `accept_new` trusts keys of hosts that have none yet, and only those.
    """

    known_hosts: Path = field(default_factory=known_hosts_file)
    accept_new: bool = False
    connect: float = 10.0
    silence: float = 20.0
    parallel: int = 64


class NotReachedError(Exception):
    """Why a host could not be reached, or was lost; `fleet` makes a `HostResult` of it."""

    def __init__(self, reach: CommandStatus, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.reach, self.message, self.hint = reach, message, hint


@contextmanager
def local_file() -> Iterator[None]:
    """Raise `NotReachedError` for a failure of a file on this machine: the link is not at fault."""
    try:
        yield
    except OSError as error:
        message = text("a file here: {reason}", reason=error.strerror or str(error))
        raise NotReachedError(CommandStatus.FAILED, message) from None


def shell_command(host: Host, login: Login, *, accept_new: bool = False, known_hosts: Path | None = None) -> list[str]:
    """The words of the command; a password is asked by `ssh` itself, and never given to it.

    Raises `PaictlError` if there is no `ssh` here.
    """
    program = shutil.which("ssh")
    if program is None:
        raise PaictlError("ssh is not installed here", hint="on Debian and Ubuntu: apt install openssh-client")
    file = known_hosts or known_hosts_file()
    path = str(file).replace("%", "%%")
    checking = "accept-new" if accept_new else "yes"
    options = [
        f'UserKnownHostsFile="{path}"',
        "GlobalKnownHostsFile=/dev/null",
        f"StrictHostKeyChecking={checking}",
        "HashKnownHosts=no",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        "ConnectTimeout=10",
        *jump_setting(jump_options(login, file, checking=checking)),
    ]
    words = [program, *(word for option in options for word in ("-o", option)), "-p", str(host.port)]
    if login.key_file is not None:
        words += ["-i", str(login.key_file), "-o", "IdentitiesOnly=yes"]
    return [*words, f"{host.user}@{host.address}"]
