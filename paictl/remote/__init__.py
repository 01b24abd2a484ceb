"""The outside world: the only code that talks to Kubernetes, SSH and Ansible.

A folder for each of them, which others import by its own name, so that a command pays only for what it uses. It
must never decide anything and hold no state of a cluster beyond what the protocol needs. `Pipes` are the streams of a
remote program; `require_deploy` names the extra that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text


def require_deploy() -> None:
    """Raise `PaictlError` in one line if the extra `deploy` is not installed."""
    for module in ("fabric", "ansible_runner"):
        if find_spec(module) is None:
            raise PaictlError(
                text("commands for hosts need the package {name}", name=module.replace("_", "-")),
                hint="install it: pip install 'paictl[deploy]'",
            )


@frozen
class Pipes:
    """Where the output of a command goes, and its input comes from.

    `read` gives what it is to be sent, None while there is nothing, ``b""`` at the end; without it there is no input.
    With a `terminal` it believes that it talks to a person, and all its output goes to `out`.
    """

    out: Callable[[bytes], object]
    err: Callable[[bytes], object]
    read: Callable[[], bytes | None] | None = None
    terminal: bool = False
