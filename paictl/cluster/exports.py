"""Services as files for Helm and kustomize, and the Secrets that they need; all for Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paictl.cluster.kubernetes.exporting.chart import chart_files
from paictl.cluster.kubernetes.exporting.objects import base_files, node_script, secret_objects
from paictl.cluster.manifests.certificates import CertificateSet
from paictl.cluster.manifests.writing import Exported


def chart_of(exported: Exported) -> dict[str, str]:
    """Services as a Helm chart, by path; raises `TemplateError`, and `ClusterError` for too large a configuration."""
    return {**chart_files(exported), "nodes.sh": node_script(exported)}


def base_of(exported: Exported) -> dict[str, str]:
    """The same as a base of kustomize."""
    return {**base_files(exported), "nodes.sh": node_script(exported)}


def secrets_of(
    exported: Exported, secrets: Mapping[str, str], certificates: CertificateSet | None
) -> list[dict[str, Any]]:
    """The Secrets that exported services need, and the namespace; `secrets` maps seals to ``TAG:VALUE``.

    Raises `PaictlError` for a seal without a value.
    """
    return secret_objects(exported, secrets, certificates)
