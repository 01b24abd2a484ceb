"""The phases that set up add-ons, change them, or take them away: default storage class, DNS cache of the nodes.

The cache goes once no pod uses it any more.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from paictl.deploy.facts import HostFacts
from paictl.deploy.inspection import Facts
from paictl.deploy.installing import manifest_mark
from paictl.deploy.joining import api
from paictl.deploy.node_dns import (
    ADDRESS,
    NAME,
    completed,
    has_another_cache,
    image_of_dns,
    manifest_of,
    mark_of,
    missing_caches,
    state_of,
)
from paictl.deploy.nodes import patiently
from paictl.deploy.phase import DeployPhase
from paictl.deploy.site import DeployError
from paictl.deploy.storage_class import NAME as STORAGE
from paictl.deploy.storage_class import NAMESPACE, StorageClass, problem_with, strangers, volumes_of
from paictl.deploy.storage_class import manifest_of as storage_manifest
from paictl.errors import ExitCode
from paictl.i18n import listed, text
from paictl.plan.run import Tell

_STORAGE_POLL: Final = 0.5
_VOLUMES_SHOWN: Final = 4


class DefaultStorage(DeployPhase):
    """local-path and its provisioner, from a manifest of ours."""

    name, says = "storage", "set up the default storage class"

    def changes(self, facts: HostFacts) -> list[str]:
        """A manifest that the first master has not applied yet, or that it has applied and must remove."""
        if facts.machine is not self.site.desired.deployment.first:
            return []
        wanted, manifest = self.site.desired.deployment.settings.storage_class, self._manifest
        mark = manifest_mark(manifest) if manifest else ""
        if str(facts.values.get("storage") or "") == mark:
            return []
        if wanted is None:
            return [text("delete storage class {name}", name=STORAGE)]
        return [
            text("storage class {name}: {path}, {policy}", name=STORAGE, path=wanted.path, policy=wanted.reclaim_policy)
        ]

    @property
    def _manifest(self) -> str:
        return storage_manifest(self.site.desired.deployment.settings.storage_class)

    def run(self, tell: Tell) -> None:
        """Apply it and wait for the provisioner.

        Raises `DeployError` if volumes need a class that is no longer wanted, or if someone else created a class or
        namespace of that name (nothing was changed); and if the provisioner does not start in time.
        """
        manifest, client = self._manifest, api(self.site)
        if manifest and (others := patiently(partial(strangers, client))):
            message = text("{objects}: already exists, and was not created by paictl", objects=listed(others))
            hint = text("remove deploy.storage_class to keep them, or delete them when no volume needs them")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)
        if not manifest and (used := patiently(partial(volumes_of, client))):
            shown = ", ".join(used[:_VOLUMES_SHOWN]) + (", …" if len(used) > _VOLUMES_SHOWN else "")
            message = text("storage class {name} still has volumes: {claims}", name=STORAGE, claims=shown)
            hint = text("delete these claims first, or keep deploy.storage_class; the storage class was not changed")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)
        mark = manifest_mark(manifest) if manifest else ""
        objects = manifest or storage_manifest(StorageClass())  # a master that was set up anew has no file of them
        variables = {
            "paictl_objects": objects,
            "paictl_wanted": bool(manifest),
            "paictl_mark": mark,
            "paictl_class": STORAGE,
        }
        self.site.play("storage", tell, [self.site.desired.deployment.first], variables)
        end = time.monotonic() + self.site.timeout
        while manifest and (problem := patiently(partial(problem_with, client))):
            if time.monotonic() > end:
                hint = text("see why: kubectl -n {space} describe pods; then apply again", space=NAMESPACE)
                raise DeployError(problem, exit_code=ExitCode.NEGATIVE, hint=hint)
            time.sleep(_STORAGE_POLL)


_CACHE_POLL: Final = 0.5
_PODS_SHOWN: Final = 4


# --- DNS cache of the nodes


class NodeDns(DeployPhase):
    """CoreDNS on every node. Kubelets know of it since `settings`: until a cache is up, pods ask the cluster's DNS."""

    name, says = "node-dns", "set up the DNS cache of the nodes"

    def changes(self, facts: HostFacts) -> list[str]:
        """A manifest that the first master has not applied yet, or a cache that it must remove."""
        first, own = self.site.desired.deployment.first, state_of(facts.values)
        if self.site.desired.deployment.settings.node_dns:
            current = facts.machine is not first or own.state == mark_of(self._manifest)
            return [] if current else [text("DNS cache on each node: {address}", address=ADDRESS)]
        of_cluster = state_of(self.site.facts[first.name].values)
        if of_cluster.stays or not (own.state or own.has_unit):
            return []
        if of_cluster.is_active:
            return [text("delete the DNS cache of the node, once no running pod uses it")]
        return [text("delete the DNS cache of the node")]

    @property
    def _manifest(self) -> str:
        settings = self.site.desired.deployment.settings
        return manifest_of(settings.domain, settings.services)

    def run(self, tell: Tell) -> None:
        """Set it up and wait for the pods on all machines; or let it go, now or in a later run.

        Raises `DeployError` if somebody else has such a cache (it is left alone), and if a pod does not start.
        """
        if self.site.desired.deployment.settings.node_dns:
            self._set_up(tell)
        else:
            self._let_go(tell)

    def _set_up(self, tell: Tell) -> None:
        client, manifest = api(self.site), self._manifest
        if patiently(partial(has_another_cache, client)):
            message = text(
                "{objects}: already exists, and was not created by paictl", objects="daemonset node-local-dns"
            )
            hint = text("delete it, or remove deploy.node_dns to keep it")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)
        image = patiently(partial(image_of_dns, client))
        if not image:
            message = text("the cluster has no deployment kube-system/coredns, whose image the DNS cache uses")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=text("remove deploy.node_dns"))
        mark = mark_of(manifest)
        self._play("present", tell, [self.site.desired.deployment.first.name], completed(manifest, image), mark)
        names = [machine.name for machine in self.site.machines]
        end = time.monotonic() + self.site.timeout
        while missing := patiently(partial(missing_caches, client, names, mark)):
            if time.monotonic() > end:
                shown = "; ".join(f"{name}: {why}" for name, why in sorted(missing.items())[:_PODS_SHOWN])
                message = text("the DNS cache does not run on {nodes}", nodes=shown)
                hint = text(
                    "see why: kubectl -n kube-system describe pods -l k8s-app={name}; then apply again", name=NAME
                )
                raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)
            time.sleep(_CACHE_POLL)

    def _let_go(self, tell: Tell) -> None:
        """Pods keep the resolver that they began with: the cache stays for them, and goes in a run after they ended."""
        first = self.site.desired.deployment.first
        if state_of(self.site.facts[first.name].values).is_active:
            self._play("leaving", tell, [first.name])
            Facts(self.site).run(tell)
        if not state_of(self.site.facts[first.name].values).stays:
            objects = completed(self._manifest, "none")  # only their names count
            self._play("absent", tell, [machine.name for machine in self.site.machines], objects)

    def _play(self, state: str, tell: Tell, names: list[str], manifest: str = "", mark: str = "") -> None:
        variables = {
            "paictl_dns": state,
            "paictl_manifest": manifest,
            "paictl_mark": mark,
            "paictl_dns_address": ADDRESS,
        }
        self.site.play(
            "node_dns", tell, [machine for machine in self.site.machines if machine.name in names], variables
        )
