"""The phases that ask the API: labels of nodes, and that all are Ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from paictl.deploy.facts import HostFacts
from paictl.deploy.inspection import Connect
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.joining import api
from paictl.deploy.phase import RIGHT, DeployPhase
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.kube.client import MERGE, KubeClient, KubeError, NoAnswerError
from paictl.remote.kube.objects import FORBIDDEN, NOT_FOUND

READY_SECONDS: Final = 180.0
NO_NETWORK: Final = "no pod network is installed: install your own, then apply again (docs/deployment.md)"
PATIENCE: Final = 60.0
"""Seconds that the API may be silent: etcd chooses a leader anew, or the address moves to another master."""
Answer = TypeVar("Answer")
_POLL: Final = 0.3


class Labels(DeployPhase):
    """What services and people tell machines apart by."""

    name, says = "labels", "label the nodes"

    def changes(self, facts: HostFacts) -> list[str]:
        """Labels that a node that is to join gets; those of nodes are asked of the API when its turn comes."""
        joined = facts.joined(self.site.cluster)
        return [] if joined else [f"{name}={value}" for name, value in labels_of(facts.machine).items()]

    def should_run(self) -> str:
        """Skipped where all nodes have their labels."""
        client = api(self.site)
        self._nodes = patiently(lambda: nodes_of(client))
        return "" if self._missing() else RIGHT

    def _missing(self) -> dict[str, dict[str, str]]:
        missing = {}
        for machine in self.site.machines:
            present = self._nodes.get(machine.name, {}).get("metadata", {}).get("labels", {})
            labels = {name: value for name, value in labels_of(machine).items() if present.get(name) != value}
            if labels:
                missing[machine.name] = labels
        return missing

    def run(self, tell: Tell) -> None:
        """Label; raises `DeployError` for a machine that has joined and does not become a node."""
        client, missing = api(self.site), self._missing()
        end = time.monotonic() + self.site.timeout
        for name, labels in missing.items():
            while not patiently(
                partial(_label, client, name, labels)
            ):  # kubeadm is done when a kubelet has its certificate
                if time.monotonic() > end:
                    hint = text("check `journalctl -u kubelet` on the host, then apply again")
                    message = text("{name} has joined but is not a node yet", name=name)
                    raise DeployError(message, exit_code=ExitCode.PARTIAL, hint=hint)
                time.sleep(_POLL)
        tell(f"{len(missing)}/{len(missing)}", "hosts")


def labels_of(machine: Machine) -> dict[str, str]:
    """The labels of a node: OpenPAI's, by which its services find their machines, and Kubernetes' for its role."""
    if machine.role is Role.MASTER:
        return {"pai-master": "true"}
    return {"pai-worker": "true", "node-role.kubernetes.io/worker": ""}


def _label(client: KubeClient, name: str, labels: dict[str, str]) -> bool:
    """Set labels of a node; False if its kubelet has not registered it yet."""
    try:
        client.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}}, kind=MERGE)
    except KubeError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


def nodes_of(client: KubeClient) -> dict[str, Any]:
    """All nodes by name."""
    return {item["metadata"]["name"]: item for _, page in client.list("/api/v1/nodes") for item in page}


def patiently(ask: Callable[[], Answer]) -> Answer:
    """Ask a young API until it answers; raises `NoAnswerError` if it does not for a minute.

    It refuses everybody until it has read the roles, the administrator as well: that counts as no answer, too. Only for
    what may be asked twice: who has had no answer does not know whether it was heard.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except (NoAnswerError, KubeError) as error:
            young = isinstance(error, NoAnswerError) or error.status == FORBIDDEN
            if not young or time.monotonic() > end:
                raise
            time.sleep(_POLL)


def lacks_network(reason: str) -> bool:
    """Whether a node is not Ready because no network for pods has been set up."""
    return "NetworkPluginNotReady" in reason


class AllReady(Connect):
    """All nodes are Ready, or it is said why not."""

    name, says = "verify", "wait until all nodes are Ready"

    def run(self, tell: Tell) -> None:
        """Wait; raises `DeployError` with what the API says of the nodes that are not.

        Do not wait for nodes that lack only the user's own network: that is set up through the API.
        """
        client, end = api(self.site), time.monotonic() + self.site.timeout
        names = {machine.name for machine in self.site.machines}
        reported: Collection[str] = ()
        while True:
            waiting = not_ready(client, names)
            if not waiting:
                break
            if self._waits_for_network(waiting):
                self.site.lacks_network = True
                tell(text(NO_NETWORK), "pods")
                return
            if time.monotonic() > end:
                reasons = "; ".join(f"{name}: {why}" for name, why in sorted(waiting.items())[:4])
                code = ExitCode.PARTIAL if len(waiting) < len(names) else ExitCode.NEGATIVE
                hint = text("for details: paictl deploy verify; to wait longer: paictl deploy apply --timeout SECONDS")
                raise DeployError(text("not Ready: {said}", said=reasons), exit_code=code, hint=hint)
            if waiting.keys() != reported:
                reported = waiting.keys()
                tell(text("waiting for {names}", names=", ".join(sorted(waiting)[:4])), "")
            time.sleep(_POLL)
        tell(f"{len(names)}/{len(names)}", "hosts")

    def _waits_for_network(self, waiting: Mapping[str, str]) -> bool:
        """Whether no node has a network of pods yet that the user brings; where one has it, it comes to the others."""
        own = self.site.desired.deployment.settings.network == "none"
        return own and len(waiting) == len(self.site.machines) and all(map(lacks_network, waiting.values()))


def not_ready(client: KubeClient, names: set[str]) -> dict[str, str]:
    """By name, the nodes that are not Ready, with the reason; including nodes in `names` that do not exist."""
    try:
        nodes = nodes_of(client)
    except (NoAnswerError, KubeError) as error:
        if isinstance(error, KubeError) and error.status != FORBIDDEN:
            raise
        return dict.fromkeys(names, str(error))
    reasons: dict[str, str] = {}
    for name in names:
        conditions = nodes.get(name, {}).get("status", {}).get("conditions", [])
        ready = next((condition for condition in conditions if condition["type"] == "Ready"), None)
        if ready is None:
            reasons[name] = text("is not a node yet") if name not in nodes else text("has not reported anything yet")
        elif ready["status"] != "True":
            reasons[name] = str(ready.get("message", "is not Ready"))
    return reasons
