"""What of a configuration is exported for other tools, and the renderer for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from paictl.cluster.manifests.certificates import CertificateSet
from paictl.cluster.manifests.context import Renderer, RenderInputs
from paictl.frozen import frozen


@frozen
class Exported:
    """What is exported: a cluster's id, its files with seals in the place of secrets, and which version they are.

    `secrets` maps a seal to ``TAG:VALUE``; `services` are names in the order in which they start.
    """

    cluster_id: str
    files: Mapping[str, str]
    services: Sequence[str]
    version: str
    """Of paictl."""
    namespace: str
    jobs_namespace: str
    number: int = 1
    at: datetime | None = None

    def renderer(
        self, secrets: Mapping[str, str] | None = None, certificates: CertificateSet | None = None
    ) -> Renderer:
        """What renders its services; with certificates also those of kube-scheduler and the extender."""
        inputs = RenderInputs(
            self.cluster_id, self.namespace, self.jobs_namespace, self.version, self.files, secrets or {}, certificates
        )
        return Renderer(inputs)
