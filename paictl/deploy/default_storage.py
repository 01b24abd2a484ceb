"""The phase that sets up the default storage class, changes it, or takes it away."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from paictl.deploy.facts import HostFacts
from paictl.deploy.installing import manifest_mark
from paictl.deploy.joining import api
from paictl.deploy.nodes import patiently
from paictl.deploy.phase import DeployPhase
from paictl.deploy.site import DeployError
from paictl.deploy.storage_class import (
    NAME,
    NAMESPACE,
    StorageClass,
    manifest_of,
    problem_with,
    strangers,
    volumes_of,
)
from paictl.errors import ExitCode
from paictl.i18n import listed, text
from paictl.plan.run import Tell

_POLL: Final = 0.5
_SHOWN: Final = 4


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
            return [text("delete storage class {name}", name=NAME)]
        return [text("storage class {name}: {path}, {policy}", name=NAME, path=wanted.path,
                     policy=wanted.reclaim_policy)]  # fmt: skip

    @property
    def _manifest(self) -> str:
        return manifest_of(self.site.desired.deployment.settings.storage_class)

    def run(self, tell: Tell) -> None:
        """Apply it and wait for the provisioner.

        Raises `DeployError` if volumes need a class that is no longer wanted, or if someone else created a class or
        namespace of that name (nothing was changed); and if the provisioner does not start in time.
        """
        manifest, client = self._manifest, api(self.site)
        if manifest and (others := patiently(partial(strangers, client))):
            message = text("{objects}: there already, and not made by paictl", objects=listed(others))
            hint = text("remove deploy.storage_class to keep them, or delete them when no volume needs them")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)
        if not manifest and (used := patiently(partial(volumes_of, client))):
            shown = ", ".join(used[:_SHOWN]) + (", …" if len(used) > _SHOWN else "")
            message = text("storage class {name} still has volumes: {claims}", name=NAME, claims=shown)
            hint = text("delete these claims first, or keep deploy.storage_class; the storage class was not changed")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint)
        mark = manifest_mark(manifest) if manifest else ""
        objects = manifest or manifest_of(StorageClass())  # a master that was set up anew has no file of them
        variables = {"paictl_objects": objects, "paictl_wanted": bool(manifest), "paictl_mark": mark,
                     "paictl_class": NAME}  # fmt: skip
        self.site.play("storage", tell, [self.site.desired.deployment.first], variables)
        end = time.monotonic() + self.site.timeout
        while manifest and (problem := patiently(partial(problem_with, client))):
            if time.monotonic() > end:
                hint = text("see why: kubectl -n {space} describe pods; then apply again", space=NAMESPACE)
                raise DeployError(problem, exit_code=ExitCode.NEGATIVE, hint=hint)
            time.sleep(_POLL)
