"""The phases of kubeadm: the first master begins the cluster, the others join; and the way in to its API."""

from __future__ import annotations

import base64

import yaml

from paictl.deploy.cluster_settings import notes_of
from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Role
from paictl.deploy.kubeadm import discovery, init_configuration, join_configuration
from paictl.deploy.kubeconfig import access_to, default_kubeconfig, read_kubeconfig
from paictl.deploy.phase import RIGHT, DeployPhase
from paictl.deploy.site import Site
from paictl.errors import PaictlError
from paictl.plan.run import Tell
from paictl.remote.kube.client import KubeClient, connect
from paictl.remote.private import write_private


class ControlPlane(DeployPhase):
    """kubeadm on the first master; the administrator's kubeconfig comes back."""

    name, says = "control-plane", "create the cluster on the first master"

    def changes(self, facts: HostFacts) -> list[str]:
        """The beginning of the cluster, on the first master."""
        first = facts.machine is self.site.desired.deployment.first
        return ["kubeadm init"] if first and not facts.joined(self.site.cluster) else []

    def should_run(self) -> str:
        """Skipped where the cluster is there and the user's kubeconfig has a way in; else one is fetched by it."""
        return "" if self.due() or not known_access(self.site) else RIGHT

    def run(self, tell: Tell) -> None:
        """Initialize the control plane unless it exists; fetch the kubeconfig into a folder only its owner can read."""
        site = self.site
        desired = site.desired
        configuration = init_configuration(desired.deployment, desired.version, desired.images, site.timeout)
        variables = {
            "paictl_configuration": configuration,
            "paictl_notes": notes_of(desired.deployment),
            "paictl_kubeconfig": str(site.kubeconfig),
            "paictl_seconds": int(site.timeout),
        }
        site.play("control_plane", tell, [desired.deployment.first], variables)


class _Join(DeployPhase):
    """What joining has in common for masters and workers."""

    role: Role

    def changes(self, facts: HostFacts) -> list[str]:
        """The join of a machine of the role that is not in the cluster."""
        first = facts.machine is self.site.desired.deployment.first
        is_own_role = facts.machine.role is self.role and not first
        return ["kubeadm join"] if is_own_role and not facts.joined(self.site.cluster) else []

    def run(self, tell: Tell) -> None:
        """Invite, join, take the invitation back."""
        site, due = self.site, self.due()
        deployment = site.desired.deployment
        master = self.role is Role.MASTER
        variables = {
            "paictl_configurations": {
                machine.name: join_configuration(deployment, machine, site.timeout, master=master) for machine in due
            },
            "paictl_notes": notes_of(deployment),
            "paictl_discovery": discovery(deployment, authority(site)),
            "paictl_seconds": int(site.timeout),
        }
        site.play(f"join_{self.role}s", tell, [deployment.first, *due], variables)


class JoinMasters(_Join):
    """Further masters, one at a time."""

    name, says, role = "join-masters", "join the other masters", Role.MASTER


class JoinWorkers(_Join):
    """All workers at once."""

    name, says, role = "join-workers", "let workers join", Role.WORKER


def authority(site: Site) -> str:
    """The certificate of the cluster's authority, base64, from the fetched kubeconfig."""
    config = read_kubeconfig(site.kubeconfig)
    try:
        text = str(config["clusters"][0]["cluster"]["certificate-authority-data"])
        base64.b64decode(text, validate=True)
    except (KeyError, IndexError, ValueError):
        raise PaictlError(
            "the first master's kubeconfig has no certificate authority", where=str(site.kubeconfig)
        ) from None
    return text


def known_access(site: Site) -> bool:
    """Whether the user's kubeconfig has this cluster and its API answers; if so, the deployment uses it."""
    access = access_to(default_kubeconfig(), site.cluster)
    if access is None:
        return False
    write_private(site.kubeconfig, yaml.safe_dump(access))
    try:
        node = api(site).get(f"/api/v1/nodes/{site.desired.deployment.first.name}", timeout=5.0)
        if any(entry.get("address") == site.desired.deployment.first.address for entry in node["status"]["addresses"]):
            return True
    except (PaictlError, KeyError):
        pass  # another cluster of this name, or one that does not answer: the first master has the right one
    site.kubeconfig.unlink()
    return False


def api(site: Site) -> KubeClient:
    """The API of the new cluster, as administrator."""
    return connect(site.kubeconfig)
