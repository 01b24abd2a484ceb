"""Which virtual clusters the pods of a namespace may use, by an annotation that only cluster administrators can set.

A pod's own annotation is only a request: anyone who may create pods can write any virtual cluster into it. They cannot
change namespaces (Kubernetes' roles admin, edit and view do not allow it), so the right is written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.pods.labels import EVERY_VC
from paictl.i18n import text
from paictl.scheduler.errors import RequestError
from paictl.scheduler.wire import GRANTED


class Grants:
    """The virtual clusters granted to each namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, tuple[str, ...]] = {}

    def change(self, namespace: Mapping[str, Any]) -> bool:
        """A Namespace was added or changed; whether its grants have changed."""
        metadata = namespace["metadata"]
        annotation = (metadata.get("annotations") or {}).get(GRANTED, "")
        names = tuple(dict.fromkeys(part.strip() for part in str(annotation).split(",") if part.strip()))
        return self._set(str(metadata["name"]), names)

    def remove(self, namespace: str) -> bool:
        """A Namespace was deleted; whether it had grants."""
        return self._set(namespace, ())

    def _set(self, namespace: str, names: tuple[str, ...]) -> bool:
        before = self._by_namespace.pop(namespace, ())
        if names:
            self._by_namespace[namespace] = names
        return before != names

    def foreign_group(self, pod: str, namespace: str, group: str, holder: str = "") -> RequestError | None:
        """Why a pod may not name its group so: it would take the name of another namespace's group, or join it.

        `holder` is the namespace whose pods have a place as that group, empty if none have.
        """
        owner, slash, _ = group.partition("/")
        if "~" in owner:  # `ann~train/default`: a gang of a job of ours, where there are any
            owner = JOBS_NAMESPACE
        if holder not in ("", namespace) and slash and owner == namespace:
            return RequestError(
                pod, "affinityGroup.name",
                text("the name {group} is in use in another namespace until the pods there have ended", group=group),
            )  # fmt: skip
        if holder not in ("", namespace):
            return RequestError(
                pod, "affinityGroup.name",
                text("the name {group} is in use in another namespace: begin it with {namespace}/",
                     group=group, namespace=namespace),
            )  # fmt: skip
        if not slash or owner == namespace or owner not in self._by_namespace:
            return None
        return RequestError(
            pod, "affinityGroup.name",
            text("the name {group} belongs to groups of namespace {owner}: begin it with {namespace}/",
                 group=group, owner=owner, namespace=namespace),
        )  # fmt: skip

    def refusal(self, pod: str, namespace: str, vc: str) -> RequestError | None:
        """Why a pod (``namespace/name``) may not use a virtual cluster; None if it may."""
        names = self._by_namespace.get(namespace, ())
        if vc in names or EVERY_VC in names:
            return None
        value = ",".join((*names, vc))
        return RequestError(
            pod, GRANTED,
            text(
                "namespace {namespace} was not granted virtual cluster {vc} (granted: {names}). "
                "A cluster administrator can grant it: {command}",
                namespace=namespace, vc=vc, names=", ".join(names) or text("none"),
                command=f"kubectl annotate namespace {namespace} --overwrite '{GRANTED}={value}'",
            ),
        )  # fmt: skip
