"""What an upgrade does, from the versions that are there: pure, so that every case can be tried without a machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paictl.deploy.inventory import Role
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text

_FORM: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)([-+].*)?")
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version of Kubernetes; what a maker has added to the number does not count."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}"


def version_of(written: str) -> Version:
    """Read `v1.37.1`, `1.37.1` or `v1.37.1+maker`; raises `PaictlError` for anything else."""
    match = _FORM.fullmatch(written)
    if match is None:
        hint = text("give the full version, for example {example}", example="v1.37.1")
        raise PaictlError(text("{said!r} is not a Kubernetes version", said=written), hint=hint)
    major, minor, patch = (int(part) for part in match.groups()[:3])
    return Version(major, minor, patch)


class Kubeadm(StrEnum):
    """What kubeadm does on a machine: `apply` is for the whole cluster, on one master; `node` for a machine."""

    NONE = ""
    APPLY = "apply"
    NODE = "node"


@frozen
class MachineVersions:
    """A machine as it is now.

    `programs` are the versions of the control plane's programs on a master; `lacks` says that files or programs are not
    those of the new artifacts, `held` that paictl has cordoned the node and not yet released it.
    """

    host: str
    role: Role
    kubelet: Version
    programs: tuple[Version, ...] = ()
    lacks: bool = False
    held: bool = False


@frozen
class ClusterVersions:
    """All machines in their order, masters first; the version that kubeadm noted last, and kube-proxy's if it runs."""

    machines: tuple[MachineVersions, ...]
    configured: Version
    proxy: Version | None = None


@frozen
class UpgradeStep:
    """What is done on a machine: kubeadm first, then the node is drained for kubelet; `what` says it for people."""

    host: str
    kubeadm: Kubeadm
    kubelet: bool
    what: tuple[str, ...]


@frozen
class UpgradePlan:
    """Masters one after the other, then workers in batches."""

    masters: tuple[UpgradeStep, ...]
    batches: tuple[tuple[UpgradeStep, ...], ...]

    @property
    def steps(self) -> tuple[UpgradeStep, ...]:
        """All steps in their order."""
        return self.masters + tuple(step for batch in self.batches for step in batch)


class UpgradeRefusedError(PaictlError):
    """This cluster cannot be upgraded to that version; nothing was changed."""

    exit_code = ExitCode.NEGATIVE


def plan_upgrade(target: Version, cluster: ClusterVersions, batch: int) -> UpgradePlan:
    """The steps that are left; raises `UpgradeRefusedError` for downgrades and skipped minor versions."""
    refuse_downgrade(target, cluster)
    refuse_skipped(target, cluster)
    masters = [machine for machine in cluster.machines if machine.role is Role.MASTER]
    workers = [machine for machine in cluster.machines if machine.role is Role.WORKER]
    applies = _needs_apply(target, cluster, masters)
    steps = [_master(target, master, apply=applies and master is masters[0], cluster=cluster) for master in masters]
    worker_steps = [step for worker in workers if (step := _worker(target, worker)).what]
    batches = tuple(tuple(worker_steps[at : at + batch]) for at in range(0, len(worker_steps), batch))
    return UpgradePlan(tuple(step for step in steps if step.what), batches)


def refuse_downgrade(target: Version, cluster: ClusterVersions) -> None:
    """Raise `UpgradeRefusedError` where something is newer than the target."""
    newer = [machine.host for machine in cluster.machines if max((machine.kubelet, *machine.programs)) > target]
    if newer or cluster.configured > target:
        newest = max(cluster.configured, *(max((machine.kubelet, *machine.programs)) for machine in cluster.machines))
        where = ", ".join(newer[:_SHOWN])
        message = text("{newest} is newer than {target}: Kubernetes cannot go back", newest=newest, target=target)
        raise UpgradeRefusedError(message, where=where or None, hint=text("nothing was changed"))


def refuse_skipped(target: Version, cluster: ClusterVersions) -> None:
    """Raise `UpgradeRefusedError` where something would skip a minor version."""
    oldest = min(cluster.configured, *(min((machine.kubelet, *machine.programs)) for machine in cluster.machines))
    if (oldest.major, oldest.minor + 1) >= (target.major, target.minor):
        return
    hosts = [
        machine.host for machine in cluster.machines if min((machine.kubelet, *machine.programs)).minor == oldest.minor
    ]
    between = f"v{oldest.major}.{oldest.minor + 1}.x"
    message = text("from {oldest} to {target} skips {between}", oldest=oldest, target=target, between=between)
    hint = text("minor versions cannot be skipped: upgrade to {between} first; nothing was changed", between=between)
    raise UpgradeRefusedError(message, where=", ".join(hosts[:_SHOWN]) or None, hint=hint)


def _needs_apply(target: Version, cluster: ClusterVersions, masters: Sequence[MachineVersions]) -> bool:
    """Whether the step for the whole cluster is to be done (again).

    kubeadm notes the version once the first control plane runs with it, and takes kube-proxy along with the last one.
    """
    if cluster.configured != target or _old(target, masters[0]):
        return True
    rest = any(_old(target, versions) for versions in masters[1:])
    return not rest and cluster.proxy not in (None, target)


def _old(target: Version, machine: MachineVersions) -> bool:
    return any(program != target for program in machine.programs)


def _master(target: Version, machine: MachineVersions, *, apply: bool, cluster: ClusterVersions) -> UpgradeStep:
    kubeadm = Kubeadm.APPLY if apply else Kubeadm.NODE if _old(target, machine) else Kubeadm.NONE
    before = min((*machine.programs, cluster.configured))
    changes = [f"control plane {before} -> {target}"] if kubeadm else []
    return _step(target, machine, kubeadm, changes)


def _worker(target: Version, machine: MachineVersions) -> UpgradeStep:
    return _step(target, machine, Kubeadm.NODE if machine.kubelet != target else Kubeadm.NONE, [])


def _step(target: Version, machine: MachineVersions, kubeadm: Kubeadm, changes: list[str]) -> UpgradeStep:
    kubelet = machine.kubelet != target or machine.lacks
    if machine.kubelet != target:
        changes = [*changes, f"kubelet {machine.kubelet} -> {target}"]
    elif machine.lacks:
        changes = [*changes, "programs and files"]
    if machine.held and not kubelet:
        changes = [*changes, "uncordon"]
    return UpgradeStep(machine.host, kubeadm, kubelet, tuple(changes))
