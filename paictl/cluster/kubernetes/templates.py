"""The template libraries of a Kubernetes cluster: a ConfigMap each, which only administrators and the server read."""

from __future__ import annotations

from typing import Final

from paictl.cluster.kubernetes.names import NAME, NAMESPACE, OURS, PART_OF, labels
from paictl.cluster.templates import TemplateLibrary, already_there, library_from, library_named, with_library
from paictl.cluster.templates import library_text as text_of
from paictl.cluster.values import ClusterError, ConflictError
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, create, delete, find, path_of, replace

_LABEL: Final = "job-templates"
_SELECTOR: Final = f"{NAME}={_LABEL},{PART_OF}={OURS}"
_KEY: Final = "library.json"


class TemplateStore:
    """The libraries of one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def read(self) -> tuple[TemplateLibrary, ...]:
        """All libraries by name; raises `ClusterError` for a damaged one."""
        libraries: list[TemplateLibrary] = []
        for _, page in self._client.list(path_of(NAMESPACE, "configmaps"), {"labelSelector": _SELECTOR}):
            for config_map in page:
                try:
                    libraries.append(library_from(str((config_map.get("data") or {}).get(_KEY, ""))))
                except ClusterError as error:
                    error.where = f"configmap {NAMESPACE}/{config_map['metadata']['name']}"
                    raise
        return tuple(sorted(libraries, key=lambda library: library.name))

    def put(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library, or replace the one of its name."""
        with_library(self.read(), library, new=new)  # whether it may be there
        name = _object(library.name)
        about: Json = {"name": name, "namespace": NAMESPACE, "labels": labels(_LABEL)}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {_KEY: text_of(library)}}
        if new:
            if self._create(body) is None:
                raise already_there(library.name)
            return
        known = find(self._client, path_of(NAMESPACE, "configmaps", name))
        about["resourceVersion"] = (known or {}).get("metadata", {}).get("resourceVersion", "0")
        if replace(self._client, path_of(NAMESPACE, "configmaps", name), body) is None:
            raise ConflictError(
                text("another administrator has changed the template library {name}", name=library.name),
                hint=text("run the same command again"),
            )

    def _create(self, body: Json) -> Json | None:
        try:
            return create(self._client, path_of(NAMESPACE, "configmaps"), body)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            raise ClusterError(
                text("the namespace {space} does not exist", space=NAMESPACE),
                hint=text("start the services first: paictl service start"),
            ) from None

    def remove(self, name: str) -> None:
        """Remove a library."""
        library_named(self.read(), name)
        delete(self._client, path_of(NAMESPACE, "configmaps", _object(name)))


def _object(name: str) -> str:
    return f"paictl-templates-{name}"
