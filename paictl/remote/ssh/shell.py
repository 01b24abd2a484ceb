"""A shell on one host by the `ssh` of this machine, with our host keys."""

from __future__ import annotations

import shutil
from pathlib import Path

from paictl.errors import PaictlError
from paictl.remote.hostkeys import known_hosts_file
from paictl.remote.inventory import Host, Login


def shell_command(host: Host, login: Login, *, accept_new: bool = False, known_hosts: Path | None = None) -> list[str]:
    """The words of the command; a password is asked by `ssh` itself, and never given to it.

    Raises `PaictlError` if there is no `ssh` here.
    """
    program = shutil.which("ssh")
    if program is None:
        raise PaictlError("ssh is not installed here", hint="on Debian and Ubuntu: apt install openssh-client")
    path = str(known_hosts or known_hosts_file()).replace("%", "%%")
    checking = "accept-new" if accept_new else "yes"
    options = [
        f'UserKnownHostsFile="{path}"', "GlobalKnownHostsFile=/dev/null", f"StrictHostKeyChecking={checking}",
        "HashKnownHosts=no", "ServerAliveInterval=5", "ServerAliveCountMax=3", "ConnectTimeout=10",
    ]  # fmt: skip
    words = [program, *(word for one in options for word in ("-o", one)), "-p", str(host.port)]
    if login.key_file is not None:
        words += ["-i", str(login.key_file), "-o", "IdentitiesOnly=yes"]
    return [*words, f"{host.user}@{host.address}"]
