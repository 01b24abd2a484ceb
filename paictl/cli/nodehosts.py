"""`paictl node run`, `copy` and `ssh`: the machines behind the nodes, by SSH, many at once."""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.clusters import plain
from paictl.cli.console import Output, said, spoken
from paictl.cli.deploy.files import read_deployment
from paictl.cli.options import OutputOption
from paictl.cli.settings import settings
from paictl.cluster.targets import ClusterKind, chosen_name, find_target, open_target
from paictl.config.reading.kinds import FileKind
from paictl.errors import PaictlError
from paictl.remote.extra import require_deploy

if TYPE_CHECKING:
    from paictl.remote.inventory import Inventory, Login
    from paictl.remote.ssh.fleet import CommandOptions, Fleet, Listener
    from paictl.remote.ssh.results import HostResult

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
Key = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Private key (default: config.yaml's, agent).")]
AskPassword = Annotated[bool, typer.Option("--ask-password", help="Ask for the password of the user.")]
AskSudo = Annotated[bool, typer.Option("--ask-sudo-password", help="Ask for the sudo password.")]
Sudo = Annotated[bool, typer.Option("--sudo", help="As root.")]
Timeout = Annotated[float | None, typer.Option("--timeout", metavar="SECONDS", help="Stop after this time.")]
AcceptNew = Annotated[
    bool, typer.Option("--accept-new-host-keys", help="Trust and show the keys of hosts without a known key.")
]
StateOption = Annotated[Path | None, typer.Option("--state", metavar="DIR", help="Folder of the embedded cluster.")]


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
    inventory = _inventory((masters, workers, config), (user, key, ask_password, ask_sudo_password), node or [])
    with _fleet(inventory, accept_new, output) as fleet:
        results = fleet.run(command, manner=_manner(sudo, timeout))
    _end(results, output)


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
    inventory = _inventory((masters, workers, config), (user, key, ask_password, ask_sudo_password), node or [])
    manner = _manner(sudo, timeout)
    with _fleet(inventory, accept_new, output) as fleet:
        if from_nodes:
            results = fleet.download(source, Path(target), manner=manner)
        else:
            results = fleet.upload(Path(source), target, manner=manner)
    if output is Output.TABLE:
        for one in results.values():
            if one.ok:
                console.outcome(f"{one.host}: {one.stdout or 'copied'}", name=one.host)
    _end(results, output)


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
    from paictl.remote.ssh.link import shell_command

    inventory = _inventory((masters, workers, config), (user, key, False, False), [name])
    command = shell_command(inventory.hosts[0], inventory.login, accept_new=accept_new)
    os.execvp(command[0], command)  # noqa: S606 - the terminal is ssh's from now on


def _inventory(
    files: tuple[str | None, str | None, str | None], login: tuple[str | None, Path | None, bool, bool], only: list[str]
) -> Inventory:
    """The hosts that are meant: of the files where they are given, else of the cluster."""

    from paictl.operate.membership import chosen

    require_deploy()
    user, key, ask, ask_sudo = login
    masters, workers, config = files
    if masters and workers and config:
        found = _of_files(masters, workers, config)
    elif masters or workers:
        raise PaictlError(
            "a host list needs the other two files as well", hint="-m master.csv -w worker.csv -c config.yaml"
        )
    else:
        found = _of_cluster(config)
    if user:
        found = replace(found, hosts=tuple(replace(host, user=user) for host in found.hosts))
    return chosen(replace(found, login=_login(found.login, key, ask, ask_sudo)), only)


def _of_files(masters: str, workers: str, config: str) -> Inventory:
    from paictl.deploy.inventory import hosts_of

    return hosts_of(read_deployment(masters, workers, config))


def _of_cluster(config: str | None) -> Inventory:
    from paictl.config.reading.load import load_file
    from paictl.deploy.inventory import sign_in
    from paictl.deploy.settings import settings_of
    from paictl.operate.membership import hosts_of_cluster
    from paictl.remote.inventory import Login

    name = chosen_name(settings.cluster, state_given=settings.state_given)
    if find_target(name).kind is ClusterKind.EMBEDDED:
        hint = "name the hosts: -m master.csv -w worker.csv -c config.yaml; or a real cluster: --cluster NAME"
        raise PaictlError("nodes of the local cluster are simulated, not machines", hint=hint)
    if config is None:
        return hosts_of_cluster(open_target(name), Login(), getpass.getuser())
    written = settings_of(load_file(config, FileKind.CONFIG)[0]).login
    found = hosts_of_cluster(open_target(name), sign_in(written), written.user, written.port)
    access = {host.name: written.access(host.name) for host in found}
    hosts = (replace(host, user=access[host.name].user, port=access[host.name].port) for host in found)
    return replace(found, hosts=tuple(hosts))


def _login(known: Login, key: Path | None, ask: bool, ask_sudo: bool) -> Login:

    if key is not None:
        known = replace(known, key_file=key, password=None)
    if ask:
        known = replace(known, password=_asked(spoken("password")), key_file=None)
    return replace(known, sudo_password=_asked(spoken("password for sudo"))) if ask_sudo else known


def _asked(what: str) -> str:
    if not settings.may_ask:
        raise PaictlError("cannot ask for a password: no terminal", hint="write it into config.yaml")
    return str(typer.prompt(what, hide_input=True, err=True))


def _fleet(inventory: Inventory, accept_new: bool, output: Output) -> Fleet:
    from paictl.remote.ssh.fleet import Fleet
    from paictl.remote.ssh.link import SshOptions

    return Fleet(inventory, SshOptions(accept_new=accept_new), _listener(inventory, output))


def _listener(inventory: Inventory, output: Output) -> Listener:
    from paictl.remote.ssh.fleet import Listener

    if output is not Output.TABLE:
        return Listener()
    width = max(len(host.name) for host in inventory)

    def heard(host: str, stream: str, line: str) -> None:
        (console.write if stream == "stdout" else console.info)(f"{host:<{width}} | {line}")

    def ended(result: HostResult) -> None:
        if result.new_key:
            console.info(spoken("{host}: new host key trusted: {key}", host=result.host, key=result.new_key))

    return Listener(heard, ended)


def _manner(sudo: bool, timeout: float | None) -> CommandOptions:
    from paictl.remote.ssh.fleet import CommandOptions

    return CommandOptions(sudo, timeout)


def _end(results: dict[str, HostResult], output: Output) -> None:
    """Say what went wrong where, and end with the exit code of all of them."""
    from paictl.remote.ssh.results import CommandStatus, exit_code

    if output is not Output.TABLE:
        console.write_data([_data(one) for one in results.values()], output)
    for one in results.values():
        if one.reach is not CommandStatus.DONE:
            console.error(PaictlError(said(one.message), where=one.host, hint=said(one.hint) or None))
        elif one.code:
            console.info(spoken("{host}: exit code {code}", host=one.host, code=one.code))
    raise typer.Exit(exit_code(results))


def _data(result: HostResult) -> dict[str, Any]:
    return {**plain(result), "seconds": result.seconds}
