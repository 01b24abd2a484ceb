"""The machines behind `paictl node run`, `copy` and `ssh`: which ones, how to sign in, and the results."""

from __future__ import annotations

import getpass
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from paictl.cli import console
from paictl.cli.clusters import plain
from paictl.cli.console import Output, localized
from paictl.cli.deploy.files import read_deployment
from paictl.cli.settings import settings
from paictl.cluster.targets import ClusterKind, chosen_name, find_target, open_target
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_file
from paictl.deploy.inventory import hosts_of, sign_in
from paictl.deploy.settings import settings_of
from paictl.errors import PaictlError
from paictl.operate.membership import chosen, hosts_of_cluster
from paictl.remote import require_deploy
from paictl.remote.inventory import Inventory, Login
from paictl.remote.ssh.fleet import CommandOptions as CommandOptions
from paictl.remote.ssh.fleet import Fleet, Listener
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.link import shell_command as shell_command
from paictl.remote.ssh.results import CommandStatus, HostResult, exit_code


def inventory_of(
    files: tuple[str | None, str | None, str | None], login: tuple[str | None, Path | None, bool, bool], only: list[str]
) -> Inventory:
    """The target hosts: those in the files if given, else those of the cluster."""
    require_deploy()
    user, key, ask, ask_sudo = login
    masters, workers, config = files
    if masters and workers and config:
        inventory = _of_files(masters, workers, config)
    elif masters or workers:
        raise PaictlError(
            "a host list needs the other two files as well", hint="-m master.csv -w worker.csv -c config.yaml"
        )
    else:
        inventory = _of_cluster(config)
    if user:
        inventory = replace(inventory, hosts=tuple(replace(host, user=user) for host in inventory.hosts))
    return chosen(replace(inventory, login=_login(inventory.login, key, ask, ask_sudo)), only)


def _of_files(masters: str, workers: str, config: str) -> Inventory:
    return hosts_of(read_deployment(masters, workers, config))


def _of_cluster(config: str | None) -> Inventory:
    name = chosen_name(settings.cluster, state_given=settings.state_given)
    if find_target(name).kind is ClusterKind.EMBEDDED:
        hint = "name the hosts: -m master.csv -w worker.csv -c config.yaml; or a real cluster: --cluster NAME"
        raise PaictlError("nodes of the local cluster are simulated, not machines", hint=hint)
    if config is None:
        return hosts_of_cluster(open_target(name), Login(), getpass.getuser())
    written = settings_of(load_file(config, FileKind.CONFIG)[0]).login
    inventory = hosts_of_cluster(open_target(name), sign_in(written), written.user, written.port)
    access = {host.name: written.access(host.name) for host in inventory}
    hosts = (replace(host, user=access[host.name].user, port=access[host.name].port) for host in inventory)
    return replace(inventory, hosts=tuple(hosts))


def _login(known: Login, key: Path | None, ask: bool, ask_sudo: bool) -> Login:
    if key is not None:
        known = replace(known, key_file=key, password=None)
    if ask:
        known = replace(known, password=_asked(localized("password")), key_file=None)
    return replace(known, sudo_password=_asked(localized("password for sudo"))) if ask_sudo else known


def _asked(what: str) -> str:
    if not settings.may_ask:
        raise PaictlError("cannot ask for a password: no terminal", hint="write it into config.yaml")
    return str(typer.prompt(what, hide_input=True, err=True))


def fleet_of(inventory: Inventory, accept_new: bool, output: Output) -> Fleet:
    """Connections to the hosts; with table output, what they write is shown immediately."""
    return Fleet(inventory, SshOptions(accept_new=accept_new), _listener(inventory, output))


def _listener(inventory: Inventory, output: Output) -> Listener:
    if output is not Output.TABLE:
        return Listener()
    width = max(len(host.name) for host in inventory)

    def heard(host: str, stream: str, line: str) -> None:
        (console.write if stream == "stdout" else console.info)(f"{host:<{width}} | {line}")

    def ended(result: HostResult) -> None:
        if result.new_key:
            console.info(localized("{host}: new host key trusted: {key}", host=result.host, key=result.new_key))

    return Listener(heard, ended)


def end(results: dict[str, HostResult], output: Output) -> None:
    """Report failures by host, and end with the exit code for all of them."""
    if output is not Output.TABLE:
        console.write_data([_data(result) for result in results.values()], output)
    for result in results.values():
        if result.reach is not CommandStatus.DONE:
            console.error(
                PaictlError(localized(result.message), where=result.host, hint=localized(result.hint) or None)
            )
        elif result.code:
            console.info(localized("{host}: exit code {code}", host=result.host, code=result.code))
    raise typer.Exit(exit_code(results))


def _data(result: HostResult) -> dict[str, Any]:
    return {**plain(result), "seconds": result.seconds}
