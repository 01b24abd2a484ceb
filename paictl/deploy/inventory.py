"""The machines of a deployment: master.csv and worker.csv with what config.yaml says, and how they are reached."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any

from paictl.config.making.generate import GenerateInputs, inventory_of
from paictl.config.reading.kinds import FileKind
from paictl.deploy.downloads import hidden, secrets_of
from paictl.deploy.settings import API_PORT, DeploySettings, LoginSettings, settings_of
from paictl.deploy.settings import LoginSettings as Written
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.remote.inventory import Host, Inventory, Login


class Role(StrEnum):
    """What a machine is for."""

    MASTER = "master"
    WORKER = "worker"


@frozen
class Machine:
    """One machine: the name of its node, and the address that it is reached at and has in the cluster.

    `place` is file:line:column of its row, for messages only.
    """

    name: str
    address: str
    role: Role
    place: str = field(default="", compare=False)


@frozen
class Deployment:
    """What is to be deployed; masters first, in the order of their list, the first of them begins the cluster."""

    machines: tuple[Machine, ...]
    settings: DeploySettings
    exposed: str = field(default="", compare=False)
    """The path of config.yaml if it contains the password and other users of this machine can read it."""

    @property
    def login(self) -> LoginSettings:
        """How to get into the machines."""
        return self.settings.login

    @property
    def masters(self) -> tuple[Machine, ...]:
        """The machines of master.csv."""
        return tuple(machine for machine in self.machines if machine.role is Role.MASTER)

    @property
    def workers(self) -> tuple[Machine, ...]:
        """The machines of worker.csv."""
        return tuple(machine for machine in self.machines if machine.role is Role.WORKER)

    @property
    def first(self) -> Machine:
        """The master that begins the cluster."""
        return self.machines[0]

    @property
    def endpoint(self) -> str:
        """host:port of the cluster's API, for machines and people."""
        address = self.settings.api_address or self.first.address
        host = f"[{address}]" if ":" in address else address
        return self.settings.endpoint or f"{host}:{API_PORT}"

    @property
    def secrets(self) -> frozenset[str]:
        """What must not be seen anywhere."""
        settings = self.settings
        return frozenset({self.login.password, *secrets_of(settings.accounts, settings.proxies)} - {""})

    @property
    def hidden(self) -> dict[str, str]:
        """Passwords in files of the hosts, by the variable of Ansible that stands for each there."""
        return hidden(self.settings.accounts, self.settings.proxies)


def deployment_of(inputs: GenerateInputs) -> Deployment:
    """The machines of the three files; raises `PaictlError` for what cannot become a cluster."""
    named = inventory_of(inputs)
    document = inputs.of(FileKind.CONFIG)
    settings = settings_of(document)
    machines = (
        *(Machine(master.name, master.address, Role.MASTER, master.place) for master in named.masters),
        *(Machine(worker.name, worker.address, Role.WORKER, worker.place) for worker in named.workers),
    )
    masters = [master.name for master in named.masters]
    _refuse_masters_at_work(masters, [worker.name for worker in named.workers])
    if len(masters) > 1 and not (settings.api_address or settings.endpoint):
        hint = text(
            "set deploy: {{api_address: ADDRESS}} to a free address in the masters' network; it moves between them"
        )
        message = text("{count} masters need one address for all", count=len(masters))
        raise PaictlError(message, where=document.path, hint=hint)
    _check_networks(machines, settings, document.path)
    _check_own_access(machines, settings, document.path)
    return Deployment(machines, settings, document.path if settings.login.password and _is_open(document.path) else "")


def _is_open(path: str) -> bool:
    try:
        return bool(Path(path).stat().st_mode & 0o077)
    except OSError:  # it came from elsewhere
        return False


def _refuse_masters_at_work(masters: Iterable[str], workers: Iterable[str]) -> None:
    both = sorted(set(masters) & set(workers))
    if both:
        hint = text("remove it from worker.csv; to let masters run jobs: deploy: {{jobs_on_masters: true}}")
        raise PaictlError(text("{names} appears in both lists", names=", ".join(both)), hint=hint)


def _check_networks(machines: Iterable[Machine], settings: DeploySettings, path: str) -> None:
    pods, services = ipaddress.ip_network(settings.pods), ipaddress.ip_network(settings.services)
    if pods.overlaps(services):
        message = text("the networks of pods ({pods}) and services ({services}) overlap", pods=pods, services=services)
        raise PaictlError(message, where=path)
    used = [(machine.name, machine.address) for machine in machines]
    used += [("api_address", settings.api_address)] if settings.api_address else []
    for name, address in used:
        for kind, network in (("pods", pods), ("services", services)):
            if ipaddress.ip_address(address) in network:
                hint = text("set other networks in openpai_kubespray_extra_var")
                message = text(
                    "{name} ({address}) is in the network of {what} ({network})",
                    name=name,
                    address=address,
                    what=kind,
                    network=network,
                )
                raise PaictlError(message, where=path, hint=hint)
    if settings.api_address in [machine.address for machine in machines]:
        hint = text("use an address that no machine has")
        raise PaictlError(text("deploy.api_address is a machine's address"), where=path, hint=hint)
    if pods.version == 4 and 2 ** (24 - pods.prefixlen) < len(list(machines)):
        raise PaictlError(text("the network of pods ({pods}) has no /24 for each machine", pods=pods), where=path)


def _check_own_access(machines: Iterable[Machine], settings: DeploySettings, path: str) -> None:
    names = [machine.name for machine in machines]
    for name in settings.login.own:
        if name not in names:
            hint = did_you_mean(name, names) or text("name machines of master.csv and worker.csv")
            raise PaictlError(text("deploy.ssh_hosts: no machine {name}", name=name), where=path, hint=hint)


def named(deployment: Deployment, names: Iterable[str]) -> Iterator[Machine]:
    """The machines of some names in their order; raises `PaictlError` for a name that none has."""
    selected = set(names)
    unknown = sorted(selected - {machine.name for machine in deployment.machines})
    if unknown:
        listing = ", ".join(machine.name for machine in deployment.machines[:8])
        message = text("no machine {names}", names=", ".join(unknown))
        raise PaictlError(message, hint=text("known machines: {names}", names=listing))
    return (machine for machine in deployment.machines if machine.name in selected)


def sign_in(login: Written) -> Login:
    """How to sign in: the key or the agent's where there is one, else the password, which sudo is told in any case."""
    key = Path(login.key_file) if login.key_file else None
    password = None if key or login.agent else login.password or None
    return Login(password, key, login.password or None, login.bastion)


def groups_of(deployment: Deployment, machine: Machine) -> tuple[str, ...]:
    """What playbooks call a machine: `workers`, or `masters` and `first` or `others`."""
    if machine.role is Role.WORKER:
        return ("workers",)
    return ("masters", "first" if machine is deployment.first else "others")


def host_of(deployment: Deployment, machine: Machine, variables: Mapping[str, Any] | None = None) -> Host:
    """How a machine is reached, in its groups; `variables` are for playbooks."""
    access = deployment.login.access(machine.name)
    groups = groups_of(deployment, machine)
    return Host(machine.name, machine.address, access.user, access.port, groups, variables or {})


def hosts_of(deployment: Deployment) -> Inventory:
    """All machines in the order of the lists, in their groups."""
    hosts = tuple(host_of(deployment, machine) for machine in deployment.machines)
    return Inventory(hosts, sign_in(deployment.login))


def route_api(deployment: Deployment) -> None:
    """Let this process reach the cluster's API through the bastion, if there is one; connected to when it is needed."""
    if deployment.login.bastion is None:
        return
    try:
        from paictl.remote.kube.client import route
        from paictl.remote.ssh.connection import forward_by_bastion
    except ModuleNotFoundError:
        return  # without the extra k8s nothing asks the API: commands for hosts alone do without

    host, _, port = deployment.endpoint.rpartition(":")
    opened: list[str] = []

    def opener() -> str:
        if not opened:
            local = forward_by_bastion(sign_in(deployment.login), host.strip("[]"), int(port))
            opened.append(f"127.0.0.1:{local}")
        return opened[0]

    route(f"https://{deployment.endpoint}", opener)
