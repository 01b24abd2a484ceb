"""The machines of a deployment as hosts that can be reached, without what they shall be like."""

from __future__ import annotations

from pathlib import Path

from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.settings import LoginSettings as Written
from paictl.remote.inventory import Host, Inventory, Login


def sign_in(login: Written) -> Login:
    """How to sign in: the key where there is one, else the password, which sudo is told in any case."""
    key = Path(login.key_file) if login.key_file else None
    return Login(None if key else login.password or None, key, login.password or None)


def groups_of(deployment: Deployment, machine: Machine) -> tuple[str, ...]:
    """What playbooks call a machine: `workers`, or `masters` and `first` or `others`."""
    if machine.role is Role.WORKER:
        return ("workers",)
    return ("masters", "first" if machine is deployment.first else "others")


def hosts_of(deployment: Deployment) -> Inventory:
    """All machines in the order of the lists, in their groups."""
    login = deployment.login
    hosts = (
        Host(one.name, one.address, login.user, login.port, groups_of(deployment, one)) for one in deployment.machines
    )
    return Inventory(tuple(hosts), sign_in(login))
