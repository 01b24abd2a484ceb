"""Interactive sessions and notebooks: a job of one task that runs for as long as it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.frozen import frozen

ROLE: Final = "session"
"""The task role of a session."""
_SHELLS: Final = "/tmp/.pai-shells"  # noqa: S108 - of the container
"""A file for each shell, named by its process."""
_TURN: Final = 5
"""Seconds between two looks at them."""
_HOLD: Final = f"""\
mkdir -p {_SHELLS} && chmod 1777 {_SHELLS}
pai_quiet=0
while [ "$pai_quiet" -lt IDLE ]; do
  sleep {_TURN}
  pai_quiet=$((pai_quiet + {_TURN}))
  for pai_shell in {_SHELLS}/*; do
    if [ -d "/proc/${{pai_shell##*/}}" ]; then pai_quiet=0; else rm -f "$pai_shell"; fi
  done
done
echo "paictl: no shell for IDLE s: the session ends\""""
NOTEBOOK: Final = "notebook"
"""The task role of a notebook."""
NOTEBOOK_PORT: Final = "http"
"""The label of its port."""
_JUPYTER: Final = (
    'jupyter lab --allow-root --no-browser --ip 127.0.0.1 --port "$PAI_PORT_LIST_notebook_0_http" '
    "--ServerApp.port_retries=0 --IdentityProvider.token= --ServerApp.allow_remote_access=True "
    "--ServerApp.shutdown_no_activity_timeout=IDLE --MappingKernelManager.cull_idle_timeout=IDLE "
    "--MappingKernelManager.cull_interval=60 --MappingKernelManager.cull_connected=True "
    "--TerminalManager.cull_inactive_timeout=IDLE --TerminalManager.cull_interval=60"
)
"""It listens on localhost and asks for no password: only the API server reaches it, which asks who it is.

What leads to it has to ask, too: the portal by a ticket, `paictl job open` by the secret in the printed address.
"""
_SHELL: Final = f"""\
mkdir -p {_SHELLS}
: >"{_SHELLS}/$$"
TMOUT=IDLE
export TMOUT"""


@frozen
class SessionSpec:
    """What a session asks for; `idle` is in seconds, `memory` in MiB."""

    image: str
    gpu: int
    cpu: int
    memory: int
    idle: int
    sku: str | None = None


def session_data(name: str, spec: SessionSpec, *, notebook: bool = False) -> dict[str, Any]:
    """The job of a session, or of JupyterLab, protocol v2."""
    role, command = (NOTEBOOK, _JUPYTER) if notebook else (ROLE, _HOLD)
    resources = {"gpu": spec.gpu, "cpu": spec.cpu, "memoryMB": spec.memory}
    wishes: Mapping[str, Any] = {"taskRoles": {role: {"skuType": spec.sku}}} if spec.sku else {}
    return {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"name": "image", "type": "dockerimage", "uri": spec.image}],
        "taskRoles": {
            role: {
                "instances": 1,
                "dockerImage": "image",
                "resourcePerInstance": {**resources, **({"ports": {NOTEBOOK_PORT: 1}} if notebook else {})},
                "commands": [command.replace("IDLE", str(spec.idle))],
            },
        },
        "extras": {"submitFrom": "paictl job run", **({"hivedScheduler": wishes} if wishes else {})},
    }


def shell_command(command: tuple[str, ...], idle: int) -> tuple[str, ...]:
    """A shell of the session, or a command, that keeps it from ending; bash ends after `idle` idle seconds."""
    begin = _SHELL.replace("IDLE", str(idle))
    if command:
        return ("/bin/sh", "-c", f'{begin}\nexec "$@"', "sh", *command)
    return ("/bin/sh", "-c", f"{begin}\ncommand -v bash >/dev/null 2>&1 && exec bash -l || exec sh -l")
