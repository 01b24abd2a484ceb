"""The way to an API server, and what it refuses as errors of a cluster with the next thing to do.

A context that leads elsewhere today than when it was added is refused before anything is sent.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paictl.cluster.registry import Pinned
from paictl.cluster.values import ClusterError, UnreachableError
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.remote.kube.client import IN_CLUSTER, KubeClient, KubeError, NoAnswerError, connect

_HINTS = {
    401: "the credentials of this context are invalid or have expired: log in again",
    403: "ask an administrator for the rights that docs/clusters.md lists",
    413: "push less at a time",
    429: "the server is busy: try again later",
}


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Raise what goes wrong with a request as `ClusterError` or `UnreachableError`."""
    try:
        yield
    except NoAnswerError as error:
        raise UnreachableError(
            text("does not answer: {message}", message=error.message),
            where=error.where,
            hint="check the network, VPN or proxy, then repeat",
        ) from None
    except KubeError as error:
        kind = UnreachableError if error.status >= 500 else ClusterError
        raise kind(error.message, where=error.where, hint=_HINTS.get(error.status)) from None


_AUTHORITIES = {"system": "those of this machine", "nobody": "none at all, certificates are not checked"}


def kubeconfig_files(given: str | None) -> str:
    """The kubeconfig files that are meant, with absolute paths, joined as in KUBECONFIG: they are merged in order."""
    words = (given or os.environ.get("KUBECONFIG") or str(Path("~", ".kube", "config"))).split(os.pathsep)
    return os.pathsep.join(str(Path(word).expanduser().absolute()) for word in words if word)


def pin(name: str, kubeconfig: str | None, context: str | None) -> Pinned:
    """What a context is now, to be kept under a name; the current one without a `context`, by its name.

    Raises `PaictlError` if the kubeconfig cannot be used.
    """
    files = kubeconfig_files(kubeconfig)
    client = connect(files, context)
    return Pinned(name, files, client.context, client.server, client.authority)


def client_of(pinned: Pinned) -> KubeClient:
    """The API server of a cluster that was added; raises `ClusterError` if its context leads elsewhere today."""
    try:
        client = connect(pinned.kubeconfig, pinned.context)
    except PaictlError as error:
        raise ClusterError(
            text(
                "cluster {name} cannot be reached as it was added: {message}", name=pinned.name, message=error.message
            ),
            where=pinned.kubeconfig,
            hint=_anew(pinned),
        ) from None
    changes = changes_since(pinned, client)
    if changes:
        raise ClusterError(
            f"context {pinned.context} is no longer the cluster that was added as {pinned.name}: " + "; ".join(changes),
            where=pinned.kubeconfig,
            hint=text("nothing was sent; to do it anyway: {command}", command=_anew(pinned)),
        )
    return client


def own_client() -> KubeClient:
    """The API server of the cluster in one of whose pods this runs; raises `ClusterError` where there is none."""
    hint = "leave out --in-cluster, and name one: --cluster NAME"
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise ClusterError("this is not a pod of a cluster", hint=hint)
    client = connect()
    if client.context != IN_CLUSTER:
        raise ClusterError("this pod has no service account", hint=hint)
    return client


def changes_since(pinned: Pinned, client: KubeClient) -> list[str]:
    """What is different about the server behind a context, in words; nothing if it is the same."""
    changes = []
    if client.server != pinned.server:
        changes.append(f"its server was {pinned.server} and is {client.server}")
    if client.authority != pinned.authority:
        changes.append(f"its certificate authority was {_shown(pinned.authority)} and is {_shown(client.authority)}")
    return changes


def _anew(pinned: Pinned) -> str:
    return f"paictl cluster add {pinned.name} --force --kubeconfig {pinned.kubeconfig} --context CONTEXT"


def _shown(authority: str) -> str:
    return _AUTHORITIES.get(authority, authority[:19])
