"""The twelve phases of a deployment, each a playbook or a question to the API, skipped where the hosts need nothing."""

from __future__ import annotations

import base64
import hashlib
import time
from abc import abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from paictl.deploy.artifacts import verify
from paictl.deploy.facts import HostFacts, obstacles
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.kubeadm import discovery, init_configuration, join_configuration
from paictl.deploy.kubeconfig import access_to, default_kubeconfig, read_kubeconfig
from paictl.deploy.site import DeployError, Site, pack
from paictl.errors import ExitCode, PaictlError
from paictl.places import cache_folder
from paictl.plan.phase import Phase, Tell
from paictl.remote.kube.client import MERGE, KubeClient, UnreachableError, connect
from paictl.remote.private import write_private
from paictl.resources import resource_folder

READY_SECONDS: Final = 180.0
_POLL: Final = 0.3
_RIGHT: Final = "everything is as it shall be"


class DeployPhase(Phase):
    """A phase of ours: it knows the site, and which hosts have something to do in it."""

    name: str
    says: str

    def __init__(self, site: Site) -> None:
        self.site = site

    @property
    def id(self) -> str:
        """The name that the plan and the run folder know it by."""
        return self.name

    @property
    def title(self) -> str:
        """What it does."""
        return self.says

    @property
    def needs(self) -> frozenset[str]:
        """All before it: a host that failed is not gone on with."""
        names = [one.name for one in PHASES]
        return frozenset(names[: names.index(self.name)])

    @abstractmethod
    def changes(self, facts: HostFacts) -> list[str]:
        """What it would change on a host, one line each; empty if nothing."""

    def due(self) -> list[Machine]:
        """The machines that it has to do something on."""
        return [one for one in self.site.machines if self.changes(self.site.facts[one.name])]

    def should_run(self) -> str:
        """Skipped where the hosts, as they were found, need nothing."""
        return "" if self.due() else _RIGHT


class Connect(DeployPhase):
    """Log in everywhere, before anything else is tried."""

    name, says = "connect", "log in on all machines"

    def changes(self, facts: HostFacts) -> list[str]:  # noqa: ARG002 - it changes nothing
        """Nothing."""
        return []

    def should_run(self) -> str:
        """Always."""
        return ""

    def run(self, tell: Tell) -> None:
        """Log in, become root, find Python."""
        self.site.play("connect", tell, self.site.machines)


class Facts(Connect):
    """Look at all machines: what they are, and what they lack."""

    name, says = "facts", "look at all machines"

    def run(self, tell: Tell) -> None:
        """Look, and keep what was found."""
        result = self.site.play("facts", tell, self.site.machines)
        for machine in self.site.machines:
            found: Any = result.hosts[machine.name].facts["paictl_facts"]
            self.site.facts[machine.name] = HostFacts(machine, found)


class Preflight(Connect):
    """Refuse what cannot work while nothing has been changed."""

    name, says = "preflight", "check what was found"

    def run(self, tell: Tell) -> None:
        """Judge; raises `DeployError` naming every host that must not be touched."""
        found = [one for facts in self.site.facts.values() for one in obstacles(facts, self.site.cluster)]
        for one in found:
            tell(one.message + (f" ({one.hint})" if one.hint else ""), one.host)
        if found:
            more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
            raise DeployError(f"{found[0]}{more}", exit_code=ExitCode.NEGATIVE, hint=found[0].hint or None)


class Push(DeployPhase):
    """Verify the artifacts, push what hosts lack, put programs in their places."""

    name, says = "artifacts", "push programs and images"

    def changes(self, facts: HostFacts) -> list[str]:
        """Programs and images that the host lacks."""
        return facts.lacks("programs", "images")

    def run(self, tell: Tell) -> None:
        """Verify first: no host is touched with a wrong file."""
        site, due = self.site, self.due()
        verify(site.desired.artifacts)
        made = {one.name: pack(site.desired, one, site.facts[one.name], cache_folder() / "packs") for one in due}
        packs = {name: str(path) for name, path in made.items() if path is not None}
        site.play("artifacts", tell, due, {"paictl_packs": packs})
        for path in set(packs.values()):
            Path(path).unlink(missing_ok=True)


class Runtime(DeployPhase):
    """Kernel, containerd, kubelet's unit, images."""

    name, says = "runtime", "configure kernel, containerd and kubelet, import images"

    def changes(self, facts: HostFacts) -> list[str]:
        """Files, kernel settings, images and units that are not as they shall be."""
        found = facts.lacks("files", "modules", "sysctls", "swap", "images")
        wanted = ["containerd", *self.site.desired.units(facts.machine)]
        idle = [name for name in wanted if not facts.runs(name)]
        return found + ([f"start: {', '.join(idle)}"] if idle else [])

    def run(self, tell: Tell) -> None:
        """Make it so."""
        self.site.play("runtime", tell, self.due())


class ControlPlane(DeployPhase):
    """kubeadm on the first master; the administrator's kubeconfig comes back."""

    name, says = "control-plane", "begin the cluster on the first master"

    def changes(self, facts: HostFacts) -> list[str]:
        """The beginning of the cluster, on the first master."""
        first = facts.machine is self.site.desired.deployment.first
        return ["kubeadm init"] if first and not facts.joined(self.site.cluster) else []

    def should_run(self) -> str:
        """Skipped where the cluster is there and the user's kubeconfig has a way in; else one is fetched by it."""
        return "" if self.due() or not _known_access(self.site) else _RIGHT

    def run(self, tell: Tell) -> None:
        """Begin, or find it begun; fetch the kubeconfig into a folder that nobody else can read."""
        site = self.site
        desired = site.desired
        text = init_configuration(desired.deployment, desired.version, desired.images)
        variables = {"paictl_configuration": text, "paictl_kubeconfig": str(site.kubeconfig)}
        site.play("control_plane", tell, [desired.deployment.first], variables)


class _Join(DeployPhase):
    """What joining has in common for masters and workers."""

    role: Role

    def changes(self, facts: HostFacts) -> list[str]:
        """The join of a machine of the role that is not in the cluster."""
        first = facts.machine is self.site.desired.deployment.first
        mine = facts.machine.role is self.role and not first
        return ["kubeadm join"] if mine and not facts.joined(self.site.cluster) else []

    def run(self, tell: Tell) -> None:
        """Invite, join, take the invitation back."""
        site, due = self.site, self.due()
        deployment = site.desired.deployment
        master = self.role is Role.MASTER
        variables = {
            "paictl_configurations": {one.name: join_configuration(deployment, one, master=master) for one in due},
            "paictl_discovery": discovery(deployment, authority(site)),
        }
        site.play(f"join_{self.role}s", tell, [deployment.first, *due], variables)


class JoinMasters(_Join):
    """Further masters, one at a time."""

    name, says, role = "join-masters", "let further masters join", Role.MASTER


class JoinWorkers(_Join):
    """All workers at once."""

    name, says, role = "join-workers", "let workers join", Role.WORKER


class PodNetwork(DeployPhase):
    """flannel or Calico from the artifacts; with bridge, the right of each machine to follow the nodes by itself."""

    name, says = "network", "set up the network of the pods"

    def changes(self, facts: HostFacts) -> list[str]:
        """A manifest that the first master has not applied yet."""
        first = facts.machine is self.site.desired.deployment.first
        text = self._manifest() if first else ""
        known = facts.values.get("network")
        return [f"apply {self._network}"] if text and known != manifest_mark(text) else []

    @property
    def _network(self) -> str:
        return self.site.desired.deployment.settings.network

    def _manifest(self) -> str:
        """The manifest with the network of the pods in it; empty where the network takes none."""
        if self._network == "none":
            return ""
        if self._network == "bridge":
            return (resource_folder("playbooks") / "files" / "bridge.yaml").read_text(encoding="utf-8")
        artifacts = self.site.desired.artifacts
        return manifest_for(artifacts.file(artifacts.need(self._network)), self.site.desired.deployment.settings.pods)

    def should_run(self) -> str:
        """Skipped where something else does it."""
        return "you bring your own" if self._network == "none" else super().should_run()

    def run(self, tell: Tell) -> None:
        """Apply the manifest."""
        text = self._manifest()
        variables = {"paictl_manifest": text, "paictl_mark": manifest_mark(text)}
        self.site.play("network", tell, [self.site.desired.deployment.first], variables)


def manifest_mark(text: str) -> str:
    """By which a host knows the manifest that it has applied."""
    return hashlib.sha256(text.encode()).hexdigest()


def manifest_for(path: Path, pods: str) -> str:
    """flannel's or Calico's manifest with another network of pods; both name theirs in one place."""
    text = path.read_text(encoding="utf-8")
    text = text.replace('"Network": "10.244.0.0/16"', f'"Network": "{pods}"')  # flannel's net-conf.json
    calico = '            # - name: CALICO_IPV4POOL_CIDR\n            #   value: "192.168.0.0/16"'
    return text.replace(calico, f'            - name: CALICO_IPV4POOL_CIDR\n              value: "{pods}"')


class Devices(DeployPhase):
    """NVIDIA's container toolkit and the devices' description for containers (CDI), on hosts that have GPUs."""

    name, says = "devices", "let containers have the GPUs"

    def changes(self, facts: HostFacts) -> list[str]:
        """Toolkit and CDI, where there are GPUs."""
        if not facts.gpus:
            return []
        found = [] if facts.values.get("toolkit") else ["nvidia-container-toolkit"]
        return found + ([] if facts.values.get("devices") else ["/etc/cdi/nvidia.yaml"])

    def should_run(self) -> str:
        """Hosts without GPUs are not asked."""
        if not any(facts.gpus for facts in self.site.facts.values()):
            return "no machine has GPUs of NVIDIA"
        return super().should_run()

    def run(self, tell: Tell) -> None:
        """Install and describe."""
        found = self.site.desired.artifacts.find("nvidia-container-toolkit")
        archive = str(self.site.desired.artifacts.file(found)) if found else ""
        self.site.play("devices", tell, self.due(), {"paictl_toolkit": archive})


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
        self._nodes = {item["metadata"]["name"]: item for _, page in client.list("/api/v1/nodes") for item in page}
        return "" if self._missing() else _RIGHT

    def _missing(self) -> dict[str, dict[str, str]]:
        found = {}
        for machine in self.site.machines:
            have = self._nodes.get(machine.name, {}).get("metadata", {}).get("labels", {})
            wanted = {name: value for name, value in labels_of(machine).items() if have.get(name) != value}
            if wanted:
                found[machine.name] = wanted
        return found

    def run(self, tell: Tell) -> None:
        """Label."""
        client, missing = api(self.site), self._missing()
        for name, labels in missing.items():
            client.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}}, kind=MERGE)
        tell(f"{len(missing)}/{len(missing)}", "hosts")


def labels_of(machine: Machine) -> dict[str, str]:
    """The labels of a node: OpenPAI's, by which its services find their machines, and Kubernetes' for its role."""
    if machine.role is Role.MASTER:
        return {"pai-master": "true"}
    return {"pai-worker": "true", "node-role.kubernetes.io/worker": ""}


class AllReady(Connect):
    """All nodes are Ready, or it is said why not."""

    name, says = "verify", "wait until all nodes are Ready"

    def run(self, tell: Tell) -> None:
        """Wait; raises `DeployError` with what the API says of the nodes that are not."""
        client, end = api(self.site), time.monotonic() + READY_SECONDS
        wanted = {one.name for one in self.site.machines}
        said_of: Collection[str] = ()
        while True:
            waiting = not_ready(client, wanted)
            if not waiting:
                break
            if time.monotonic() > end:
                said = "; ".join(f"{name}: {why}" for name, why in sorted(waiting.items())[:4])
                code = ExitCode.PARTIAL if len(waiting) < len(wanted) else ExitCode.NEGATIVE
                raise DeployError(f"not Ready: {said}", exit_code=code, hint="paictl deploy verify says more")
            if waiting.keys() != said_of:
                said_of = waiting.keys()
                tell(f"waiting for {', '.join(sorted(waiting)[:4])}", "")
            time.sleep(_POLL)
        tell(f"{len(wanted)}/{len(wanted)}", "hosts")


def not_ready(client: KubeClient, wanted: set[str]) -> dict[str, str]:
    """The nodes that are not Ready, each with the reason; `wanted` that are not there at all, too."""
    try:
        nodes = {item["metadata"]["name"]: item for _, page in client.list("/api/v1/nodes") for item in page}
    except UnreachableError as error:
        return dict.fromkeys(wanted, str(error))
    found = {}
    for name in wanted:
        conditions = nodes.get(name, {}).get("status", {}).get("conditions", [])
        ready = next((one for one in conditions if one["type"] == "Ready"), None)
        if ready is None:
            found[name] = "is not a node yet" if name not in nodes else "has not said anything yet"
        elif ready["status"] != "True":
            found[name] = str(ready.get("message", "is not Ready"))
    return found


PHASES: Final[tuple[type[DeployPhase], ...]] = (
    Connect, Facts, Preflight, Push, Runtime, ControlPlane, JoinMasters, PodNetwork, JoinWorkers, Devices, Labels,
    AllReady,
)  # fmt: skip
"""In their order."""
LOOKING: Final = ("connect", "facts")
"""The phases of `plan`: they change nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a phase would change on a host."""

    phase: str
    host: str
    what: tuple[str, ...]


def planned(site: Site) -> tuple[Change, ...]:
    """What all phases would change, from the facts."""
    return tuple(
        Change(kind.name, machine.name, tuple(found))
        for kind in PHASES
        for machine in site.machines
        if (found := kind(site).changes(site.facts[machine.name]))
    )


def phases(site: Site, names: Sequence[str] = ()) -> list[Phase]:
    """All phases, or some by their names."""
    return [kind(site) for kind in PHASES if not names or kind.name in names]


def authority(site: Site) -> str:
    """The certificate of the cluster's authority, base64, from the fetched kubeconfig."""
    found = read_kubeconfig(site.kubeconfig)
    try:
        text = str(found["clusters"][0]["cluster"]["certificate-authority-data"])
        base64.b64decode(text, validate=True)
    except (KeyError, IndexError, ValueError):
        raise PaictlError("the first master's kubeconfig names no authority", where=str(site.kubeconfig)) from None
    return text


def _known_access(site: Site) -> bool:
    """Whether the user's kubeconfig has this cluster and its API answers; then all goes on with that."""
    found = access_to(default_kubeconfig(), site.cluster)
    if found is None:
        return False
    write_private(site.kubeconfig, yaml.safe_dump(found))
    try:
        node = api(site).get(f"/api/v1/nodes/{site.desired.deployment.first.name}", timeout=5.0)
        if any(one.get("address") == site.desired.deployment.first.address for one in node["status"]["addresses"]):
            return True
    except (PaictlError, KeyError):
        pass  # another cluster of this name, or one that does not answer: the first master has the right one
    site.kubeconfig.unlink()
    return False


def api(site: Site) -> KubeClient:
    """The API of the new cluster, as administrator."""
    return connect(site.kubeconfig)
