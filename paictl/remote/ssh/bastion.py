"""How this machine's `ssh` goes through a bastion, and what is said of one that is not reached."""

from __future__ import annotations

import shlex
from pathlib import Path

from paictl.errors import ExitCode, PaictlError
from paictl.remote.inventory import Login


class BastionError(PaictlError):
    """The machine in the middle cannot be reached, or does not let us in."""

    exit_code = ExitCode.UNREACHABLE


def jump_options(
    login: Login, known_hosts: Path, *, connect: int = 10, checking: str = "yes", control: Path | None = None
) -> list[str]:
    """Options and destination with which this machine's `ssh` signs in to the bastion; empty where there is none.

    It never asks for a password. `control` is the socket of a connection that is shared, if there is one.
    """
    bastion = login.bastion
    if bastion is None:
        return []
    escaped = str(known_hosts).replace("%", "%%")
    settings = [
        f'UserKnownHostsFile="{escaped}"',
        "GlobalKnownHostsFile=/dev/null",
        f"StrictHostKeyChecking={checking}",
        "UpdateHostKeys=no",
        "BatchMode=yes",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
        f"ConnectTimeout={connect}",
        "ForwardAgent=no",
    ]
    if login.key_file is not None:
        settings += ["IdentitiesOnly=yes"]
    if control is not None:
        settings += [f"ControlPath={str(control).replace('%', '%%')}"]
    words = ["-F", "/dev/null", *(word for setting in settings for word in ("-o", setting)), "-p", str(bastion.port)]
    key = ["-i", str(login.key_file)] if login.key_file is not None else []
    return [*words, *key, f"{bastion.user}@{bastion.address}"]


def jump_setting(options: list[str]) -> list[str]:
    """The setting of `ssh` by which it reaches a host through the bastion that `jump_options` names; none without."""
    if not options:
        return []
    words = shlex.join(["ssh", *options[:-1]]).replace("%", "%%")
    return [f"ProxyCommand={words} -W [%h]:%p {shlex.quote(options[-1]).replace('%', '%%')}"]
