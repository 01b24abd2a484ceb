"""The phases of an upgrade: look and plan, push, masters one by one, workers in batches."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import yaml

from paictl.deploy.artifacts import verify
from paictl.deploy.draining import UPGRADE, CordonedNodes, is_held
from paictl.deploy.inspection import Connect, Facts, Preflight
from paictl.deploy.inventory import Machine, Role
from paictl.deploy.joining import ControlPlane, api, known_access
from paictl.deploy.locking import Lock
from paictl.deploy.node_dns import outdated_image, set_image
from paictl.deploy.nodes import READY_SECONDS, nodes_of, not_ready, patiently
from paictl.deploy.phase import OrderedPhase
from paictl.deploy.pushing import push
from paictl.deploy.site import DeployError, Site, pack, pack_folder
from paictl.deploy.versions import (
    ClusterVersions,
    Kubeadm,
    MachineVersions,
    UpgradePlan,
    UpgradeRefusedError,
    UpgradeStep,
    Version,
    plan_upgrade,
    version_of,
)
from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError, NoAnswerError

_SYSTEM: Final = "/api/v1/namespaces/kube-system"
_PROXY: Final = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_POLL: Final = 0.3
_ORDER: Final = ("connect", "facts", "preflight", "lock", "versions", "artifacts", "control-plane", "workers", "images")


@frozen
class UpgradeOptions:
    """What the administrator asked for: `batch` workers at a time, `seconds` for a node to get empty.

    `ready` is how many seconds it may take to be Ready afterwards; `break_lock` replaces the lock of another machine.
    """

    target: Version
    batch: int = 1
    seconds: float = 300.0
    break_lock: bool = False
    ready: float = READY_SECONDS


@dataclass(slots=True)
class UpgradeWork:
    """What the phases of one upgrade share; the plan is there once the versions were looked at."""

    site: Site
    options: UpgradeOptions
    plan: UpgradePlan = field(default_factory=lambda: UpgradePlan((), ()))
    _holding: CordonedNodes | None = None

    @property
    def holding(self) -> CordonedNodes:
        """The nodes that are held; needs the way in that `Versions` has found."""
        if self._holding is None:
            self._holding = CordonedNodes(api(self.site), self.options.seconds, UPGRADE)
        return self._holding

    @property
    def client(self) -> KubeClient:
        """The API of the cluster."""
        return self.holding.client

    def release(self) -> None:
        """Give back all nodes that are still held."""
        if self._holding is not None:
            self._holding.release_all()

    def machine(self, host: str) -> Machine:
        """The machine of a name."""
        return next(machine for machine in self.site.machines if machine.name == host)


class UpgradePhase(OrderedPhase):
    """A phase of an upgrade."""

    order = _ORDER

    def __init__(self, work: UpgradeWork) -> None:
        self.work = work


class Versions(UpgradePhase):
    """Ask every machine for its version, and plan; nothing is changed."""

    name, says = "versions", "find out which version each machine has"

    def run(self, tell: Tell) -> None:
        """Plan, or refuse with the reason."""
        work, site = self.work, self.work.site
        outside = [machine.name for machine in site.machines if not site.facts[machine.name].joined(site.cluster)]
        if outside:
            message = text("not in the cluster: {hosts}", hosts=", ".join(outside[:4]))
            raise UpgradeRefusedError(message, hint=text("paictl deploy apply adds them, with the old artifacts"))
        if not known_access(site):
            ControlPlane(site).run(tell)  # the cluster is there: this only fetches the way in
        lacking = {machine.name for machine in site.machines if site.facts[machine.name].lacks("programs", "files")}
        cluster = cluster_of(patiently(partial(look, work.client)), site.machines, lacking)
        work.holding.adopt(machine.host for machine in cluster.machines if machine.held)  # by a run that was killed
        work.plan = plan_upgrade(work.options.target, cluster, work.options.batch)
        for step in work.plan.steps:
            tell(f"{step.host}: {', '.join(step.what)}", "")

    def clean_up(self) -> None:
        """Give back what is still held, also after a failure or an interruption: this phase cleans up last."""
        self.work.release()


@frozen
class UpgradeFacts:
    """What the API said: nodes by name, pods of the control plane, kubeadm's notes, kube-proxy's template."""

    nodes: Mapping[str, Json]
    pods: Sequence[Json]
    notes: Json
    proxy: Json | None


def look(client: KubeClient) -> UpgradeFacts:
    """Ask the API for everything that shows versions."""
    query = {"labelSelector": "tier=control-plane"}
    pods = [pod for _, page in client.list(f"{_SYSTEM}/pods", query) for pod in page]
    try:
        proxy: Json | None = client.get(_PROXY)
    except KubeError as error:
        if error.status != 404:
            raise
        proxy = None  # a network without kube-proxy
    return UpgradeFacts(nodes_of(client), pods, noted(client), proxy)


def noted(client: KubeClient) -> Json:
    """kubeadm's ClusterConfiguration as the cluster keeps it."""
    config: Json = yaml.safe_load(client.get(f"{_SYSTEM}/configmaps/kubeadm-config")["data"]["ClusterConfiguration"])
    return config


def cluster_of(facts: UpgradeFacts, machines: Iterable[Machine], lacking: Iterable[str] = ()) -> ClusterVersions:
    """The versions of a cluster, from what its API said; raises `UpgradeRefusedError` for a machine that is no node."""
    lacks = set(lacking)
    programs: dict[str, list[Version]] = {}
    for pod in facts.pods:
        if pod["metadata"].get("labels", {}).get("component") in _PROGRAMS:
            programs.setdefault(pod["spec"].get("nodeName", ""), []).append(_tag(pod["spec"]))
    versions = []
    for machine in machines:
        node = facts.nodes.get(machine.name)
        if node is None:
            raise UpgradeRefusedError(
                text("is not a node of the cluster"), where=machine.name, hint="paictl deploy apply"
            )
        kubelet = version_of(node["status"]["nodeInfo"]["kubeletVersion"])
        own = tuple(programs.get(machine.name, ()))
        if machine.role is Role.MASTER and not own:
            hint = text("fix it first; on the host, see: {command}", command="crictl ps -a")
            raise UpgradeRefusedError(text("does not run a control plane"), where=machine.name, hint=hint)
        versions.append(
            MachineVersions(machine.name, machine.role, kubelet, own, machine.name in lacks, is_held(node, UPGRADE))
        )
    proxy = _tag(facts.proxy["spec"]["template"]["spec"]) if facts.proxy else None
    return ClusterVersions(tuple(versions), version_of(facts.notes["kubernetesVersion"]), proxy)


def _tag(spec: Json) -> Version:
    image = str(spec["containers"][0]["image"]).partition("@")[0]
    return version_of(image.rpartition(":")[2])


class UpgradeArtifacts(UpgradePhase):
    """Bring programs and images to all machines, while they still do their work."""

    name, says = "artifacts", "push programs and images of the new version"

    def _due(self) -> list[Machine]:
        site = self.work.site
        return [machine for machine in site.machines if site.facts[machine.name].lacks("programs", "images")]

    def should_run(self) -> str:
        """Skipped where all is there."""
        return "" if self._due() else text("all machines have them")

    def run(self, tell: Tell) -> None:
        """Verify first: no host is touched with a wrong file."""
        site, due = self.work.site, self._due()
        verify(site.desired.artifacts)
        upgraded = [step.host for step in self.work.plan.steps if step.kubelet or step.kubeadm]
        with pack_folder() as folder:
            archives = {machine.name: pack(site.desired, machine, site.facts[machine.name], folder) for machine in due}
            packs = {name: str(path) for name, path in archives.items() if path is not None}
            push(site, "upgrade_push", tell, due, packs, {"paictl_upgraded": upgraded})


class _Machines(UpgradePhase):
    """What masters and workers have in common: drained, upgraded, Ready, in use again."""

    @abstractmethod
    def batches(self) -> Sequence[Sequence[UpgradeStep]]:
        """The steps, those together that are done together."""

    def should_run(self) -> str:
        """Skipped where all have the version."""
        return "" if self.batches() else text("all have {version}", version=self.work.options.target)

    def run(self, tell: Tell) -> None:
        """Upgrade batch by batch; stop at the first that fails."""
        done, of = 0, sum(map(len, self.batches()))
        for batch in self.batches():
            tell(text("upgrading {hosts} ({done} of {of} done)", hosts=_names(batch), done=done, of=of), "")
            self.before(batch, tell)
            self.replace([step for step in batch if step.kubelet], tell)
            for step in batch:
                self.work.holding.release(step.host)
            done += len(batch)
        tell(f"{done}/{of}", "hosts")

    def before(self, batch: Sequence[UpgradeStep], tell: Tell) -> None:
        """What is done while the nodes are in use."""

    def words(self, batch: Sequence[UpgradeStep]) -> dict[str, list[str]]:
        """What kubeadm does on drained nodes."""
        del batch
        return {}

    def replace(self, batch: Sequence[UpgradeStep], tell: Tell) -> None:
        """Drain nodes, put the programs in place, and wait until they are Ready with them."""
        if not batch:
            return
        names = [step.host for step in batch]
        self.work.holding.drain(names, tell)
        variables = {"paictl_packs": {}, "paictl_upgrade": self.words(batch)}
        self.work.site.play("upgrade_machine", tell, map(self.work.machine, names), variables)
        wait_for(self.work.client, names, self.work.options.target, self.work.options.ready)


class UpgradeMasters(_Machines):
    """One master at a time: kubeadm while it works, then kubelet while it is empty."""

    name, says = "control-plane", "upgrade one master after the other"

    def batches(self) -> Sequence[Sequence[UpgradeStep]]:
        """Each alone."""
        return [(master,) for master in self.work.plan.masters]

    def before(self, batch: Sequence[UpgradeStep], tell: Tell) -> None:
        """Upgrade the programs of the control plane."""
        work = self.work
        for step in batch:
            if step.kubeadm is Kubeadm.APPLY:
                retag(work.client, tags_of(work.site))
            if step.kubeadm:
                words = {step.host: kubeadm_words(step, work)}
                work.site.play("upgrade_master", tell, [work.machine(step.host)], {"paictl_upgrade": words})


class UpgradeWorkers(_Machines):
    """Workers, as many at a time as were asked for."""

    name, says = "workers", "upgrade the workers"

    def batches(self) -> Sequence[Sequence[UpgradeStep]]:
        """As planned."""
        return self.work.plan.batches

    def words(self, batch: Sequence[UpgradeStep]) -> dict[str, list[str]]:
        """kubelet's configuration of the new version."""
        return {step.host: kubeadm_words(step, self.work) for step in batch if step.kubeadm}


class ReleaseImages(UpgradePhase):
    """Nothing of the old version is kept from kubelet's cleaning any more; the DNS cache gets the new CoreDNS first."""

    name, says = "images", "release the images of the previous version"

    def _due(self) -> list[Machine]:
        site = self.work.site
        return [machine for machine in site.machines if site.facts[machine.name].lacks("pins")]

    def should_run(self) -> str:
        """Skipped where none is pinned."""
        return "" if self._due() or self._cache_image() else text("no machine has any")

    def _cache_image(self) -> str:
        return patiently(partial(outdated_image, self.work.client))

    def run(self, tell: Tell) -> None:
        """Release them, now that no machine may need them again."""
        if image := self._cache_image():
            patiently(partial(set_image, self.work.client, image))
        if due := self._due():
            self.work.site.play("upgrade_images", tell, due)


def kubeadm_words(step: UpgradeStep, work: UpgradeWork) -> list[str]:
    """What follows `kubeadm upgrade` on a machine."""
    ignored = work.site.desired.deployment.settings.ignored_checks
    more = [f"--ignore-preflight-errors={','.join(ignored)}"] if ignored else []
    return ["apply", str(work.options.target), "--yes", *more] if step.kubeadm is Kubeadm.APPLY else ["node", *more]


def tags_of(site: Site) -> dict[str, str]:
    """The tags of etcd's and CoreDNS' images among the artifacts, where they are there."""
    parts = (image.reference.rpartition("/")[2].partition(":") for image in site.desired.images)
    return {name: tag for name, _, tag in parts if name in ("etcd", "coredns")}


def retag(client: KubeClient, tags: Mapping[str, str]) -> None:
    """Let kubeadm's configuration name the images that are pushed: it keeps the old tags for ever otherwise."""
    notes = patiently(partial(noted, client))
    before = yaml.safe_dump(notes)
    if "etcd" in tags and "local" in (notes.get("etcd") or {}):
        notes["etcd"]["local"]["imageTag"] = tags["etcd"]
    if "coredns" in tags:
        notes["dns"] = {**(notes.get("dns") or {}), "imageTag": tags["coredns"]}
    if yaml.safe_dump(notes) != before:
        body = {"data": {"ClusterConfiguration": yaml.safe_dump(notes, sort_keys=False)}}
        patiently(partial(client.request, "PATCH", f"{_SYSTEM}/configmaps/kubeadm-config", body, kind=MERGE))


def wait_for(client: KubeClient, names: Sequence[str], target: Version, seconds: float = READY_SECONDS) -> None:
    """Wait until nodes are Ready with a version; raises `DeployError` with the reasons of those that are not."""
    end = time.monotonic() + seconds
    while waiting := _waiting(client, names, target):
        if time.monotonic() > end:
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(waiting.items())[:4])
            hint = text("on the host, see: {command}", command="journalctl -u kubelet")
            raise DeployError(text("not Ready: {said}", said=reasons), exit_code=ExitCode.NEGATIVE, hint=hint)
        time.sleep(_POLL)


def _waiting(client: KubeClient, names: Sequence[str], target: Version) -> dict[str, str]:
    """Why nodes are not Ready with a version. Ready may date from before the kubelet's restart."""
    reasons = not_ready(client, set(names))
    try:
        nodes = nodes_of(client)
    except NoAnswerError as error:
        return dict.fromkeys(names, str(error))
    for name in set(names) - set(reasons):
        version = nodes[name]["status"]["nodeInfo"]["kubeletVersion"]
        if version_of(version) != target:
            reasons[name] = text("is still {version}", version=version)
    return reasons


def _names(batch: Iterable[UpgradeStep]) -> str:
    return ", ".join(step.host for step in batch)


def upgrade_phases(work: UpgradeWork) -> list[OrderedPhase]:
    """All phases in their order."""
    site = work.site
    looking: list[OrderedPhase] = [Connect(site), Facts(site), Preflight(site), Lock(site)]
    return [
        *looking,
        *(kind(work) for kind in (Versions, UpgradeArtifacts, UpgradeMasters, UpgradeWorkers, ReleaseImages)),
    ]
