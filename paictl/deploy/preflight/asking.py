"""What a machine is asked: by a program that is sent to it, or with the look that `apply` takes at it anyway."""

from __future__ import annotations

from typing import Any

from paictl.deploy.inventory import Deployment, Machine, Role
from paictl.deploy.preflight import host_checks
from paictl.resources import resource_folder


def program() -> bytes:
    """The program that tells what a host is."""
    return (resource_folder("playbooks") / "module_utils" / "paictl_gather.py").read_bytes()


def asked(deployment: Deployment, machine: Machine, *, quick: bool = False) -> dict[str, Any]:
    """What paictl_gather on a machine is told; nothing secret. `quick` leaves out what the slow checks need."""
    master = machine.role is Role.MASTER
    others = [] if quick else [[master.address, 6443] for master in deployment.masters if master is not machine]
    return {
        "address": machine.address,
        "folders": list(host_checks.FOLDERS),
        "fsync": host_checks.ETCD if master and not quick else None,
        "names": not quick,
        "ports": list(host_checks.MASTER_PORTS if master else host_checks.WORKER_PORTS),
        "modules": list(host_checks.MODULES),
        "sysctls": list(host_checks.SYSCTLS),
        "reach": others,
    }
