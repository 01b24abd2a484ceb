"""Taking machines out of their cluster, or the whole cluster down: what is lost first, then the machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from paictl.deploy.inventory import Deployment, Machine, hosts_of
from paictl.deploy.locking import locked
from paictl.deploy.site import telling
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.ansible.collecting import PlaybookResult
from paictl.remote.ansible.run import AnsibleSession, PlaybookOptions
from paictl.remote.kube.client import KubeClient
from paictl.resources import resource_folder

_OF_EVERY_CLUSTER = frozenset({"kube-system", "kube-public", "kube-node-lease"})


@frozen
class ResetLoss:
    """What a reset destroys, according to the API; `asked` says whether it answered."""

    machines: tuple[str, ...]
    whole: bool
    asked: bool
    pods: int = 0
    namespaces: tuple[str, ...] = ()
    volumes: int = 0

    @property
    def lines(self) -> tuple[str, ...]:
        """The loss for people, a line each."""
        count, names = len(self.machines), ", ".join(self.machines[:8])
        lines = [text("{count} machines will be returned to their original state: {names}", count=count, names=names)]
        if self.whole:
            lines.append(text("the cluster itself: etcd with all configuration, users, tokens and the history of jobs"))
        if not self.asked:
            lines.append(text("the API does not answer: it is unknown what is running there"))
        if self.pods:
            spaces = ", ".join(self.namespaces[:6])
            lines.append(text("{count} pods running on them, in {spaces}", count=self.pods, spaces=spaces))
        if self.volumes:
            volumes = self.volumes
            lines.append(
                text(
                    "{count} persistent volumes will be lost with the cluster, and the data of local ones",
                    count=volumes,
                )
            )
        lines.append(text("images and container data below /var/lib/containerd and /var/lib/kubelet"))
        return tuple(lines)


def loss_of(deployment: Deployment, chosen: Sequence[Machine], client: KubeClient | None) -> ResetLoss:
    """Ask what would be lost."""
    names = tuple(machine.name for machine in chosen)
    whole = len(chosen) == len(deployment.machines)
    if client is None:
        return ResetLoss(names, whole, asked=False)
    try:
        pods = [item for _, page in client.list("/api/v1/pods") for item in page]
        volumes = [item for _, page in client.list("/api/v1/persistentvolumes") for item in page] if whole else []
    except PaictlError:
        return ResetLoss(names, whole, asked=False)
    lost = [pod for pod in pods if _lost(pod, names)]
    spaces = tuple(sorted({str(pod["metadata"]["namespace"]) for pod in lost}))
    return ResetLoss(names, whole, True, len(lost), spaces, len(volumes))


def _lost(pod: dict[str, Any], names: Sequence[str]) -> bool:
    running = pod["status"].get("phase") in ("Running", "Pending")
    return running and pod["spec"].get("nodeName") in names and pod["metadata"]["namespace"] not in _OF_EVERY_CLUSTER


def reset(
    deployment: Deployment, chosen: Sequence[Machine], folder: Path, tell: Tell, *, break_lock: bool = False
) -> PlaybookResult:
    """`clean` machines while other deployments are kept out by the masters that answer."""
    with locked(deployment, "deploy reset", folder, break_lock=break_lock, lenient=True):
        return clean(deployment, chosen, folder, tell)


def clean(deployment: Deployment, chosen: Sequence[Machine], folder: Path, tell: Tell) -> PlaybookResult:
    """Bring machines back to what they were, as far as each was brought; what did not work is in the result.

    Workers go before masters, and masters one after the other, the first of the list last.
    """
    names = tuple(machine.name for machine in chosen)
    inventory = replace(hosts_of(deployment), variables={"paictl_cluster": deployment.settings.cluster})
    playbook = resource_folder("playbooks") / "reset.yml"
    with AnsibleSession(inventory, folder) as session:
        return session.run(playbook, {}, telling(tell), PlaybookOptions(limit=names))


def forget_nodes(client: KubeClient, chosen: Sequence[Machine]) -> list[str]:
    """Delete the nodes of machines that are gone from the cluster; names of those that could not be."""
    remaining = []
    for machine in chosen:
        try:
            client.request("DELETE", f"/api/v1/nodes/{machine.name}")
        except PaictlError as error:
            if getattr(error, "status", 0) != 404:
                remaining.append(machine.name)
    return remaining
