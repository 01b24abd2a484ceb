"""`paictl node run`, `copy` and `ssh`: the machines behind the nodes, many at once over SSH."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.console import Output
from paictl.cli.node.files import AcceptNew
from paictl.cli.options import OutputOption

RUN_EPILOG = """
    paictl node run -m master.csv -w worker.csv -c config.yaml uptime
    paictl node run --sudo -n 'gpu-*' 'systemctl restart kubelet'

Exit code 1: the command failed on a host; 3: a host did not answer; 4: no host answered.
"""
COPY_EPILOG = """
    paictl node copy --sudo chrony.conf /etc/chrony/chrony.conf
    paictl node copy --from-nodes /var/log/syslog logs/
"""

Only = Annotated[
    list[str] | None,
    typer.Option("--node", "-n", metavar="NAME", help="Names or patterns such as 'gpu-*' (default: all)."),
]
Masters = Annotated[str | None, typer.Option("--masters", "-m", metavar="FILE", help="List of masters.")]
Workers = Annotated[str | None, typer.Option("--workers", "-w", metavar="FILE", help="List of workers.")]
Config = Annotated[str | None, typer.Option("--config", "-c", metavar="FILE", help="Cluster settings: how to sign in.")]
User = Annotated[str | None, typer.Option("--user", "-u", help="Sign in as (default: config.yaml's, else yours).")]
Key = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="Private key (default: config.yaml's, else the SSH agent).")
]
AskPassword = Annotated[bool, typer.Option("--ask-password", help="Ask for the password of the user.")]
AskSudo = Annotated[bool, typer.Option("--ask-sudo-password", help="Ask for the sudo password.")]
Sudo = Annotated[bool, typer.Option("--sudo", help="As root.")]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Stop after this time.")]


def run(
    command: Annotated[str, typer.Argument(help="Shell command to run on each host.")],
    node: Only = None,
    masters: Masters = None,
    workers: Workers = None,
    config: Config = None,
    user: User = None,
    key: Key = None,
    ask_password: AskPassword = False,
    ask_sudo_password: AskSudo = False,
    sudo: Sudo = False,
    timeout: Timeout = None,
    accept_new: AcceptNew = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a command on many hosts at once; output appears as it is written."""
    from paictl.cli.node.fleet import (  # late: needs the extras k8s and deploy
        CommandOptions,
        end,
        fleet_of,
        inventory_of,
    )

    inventory = inventory_of((masters, workers, config), (user, key, ask_password, ask_sudo_password), node or [])
    with fleet_of(inventory, accept_new, output) as fleet:
        results = fleet.run(command, manner=CommandOptions(sudo, timeout))
    end(results, output)


def copy(
    source: Annotated[str, typer.Argument(help="Local file; with --from-nodes, the file on the hosts.")],
    target: Annotated[str, typer.Argument(help="File or folder on the hosts; with --from-nodes, the local folder.")],
    node: Only = None,
    masters: Masters = None,
    workers: Workers = None,
    config: Config = None,
    user: User = None,
    key: Key = None,
    ask_password: AskPassword = False,
    ask_sudo_password: AskSudo = False,
    sudo: Sudo = False,
    from_nodes: Annotated[bool, typer.Option("--from-nodes", help="Fetch it, as TARGET/HOST/NAME.")] = False,
    timeout: Timeout = None,
    accept_new: AcceptNew = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Copy a file to many hosts (or from them), verified and renamed into place."""
    from paictl.cli.node.fleet import (  # late: needs the extras k8s and deploy
        CommandOptions,
        end,
        fleet_of,
        inventory_of,
    )

    inventory = inventory_of((masters, workers, config), (user, key, ask_password, ask_sudo_password), node or [])
    manner = CommandOptions(sudo, timeout)
    with fleet_of(inventory, accept_new, output) as fleet:
        if from_nodes:
            results = fleet.download(source, Path(target), manner=manner)
        else:
            results = fleet.upload(Path(source), target, manner=manner)
    if output is Output.TABLE:
        for result in results.values():
            if result.ok:
                console.outcome(f"{result.host}: {result.stdout or 'copied'}", name=result.host)
    end(results, output)


def ssh(
    name: Annotated[str, typer.Argument(help="Name of the host.")],
    masters: Masters = None,
    workers: Workers = None,
    config: Config = None,
    user: User = None,
    key: Key = None,
    accept_new: AcceptNew = False,
) -> None:
    """Open a shell on a host; its host key is verified as always."""
    from paictl.cli.node.fleet import inventory_of, shell_command  # late: needs the extras k8s and deploy

    inventory = inventory_of((masters, workers, config), (user, key, False, False), [name])
    command = shell_command(inventory.hosts[0], inventory.login, accept_new=accept_new)
    os.execvp(command[0], command)  # noqa: S606 - the terminal is ssh's from now on
