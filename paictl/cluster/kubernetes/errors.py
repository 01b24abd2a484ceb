"""What the API server refuses, as errors of a cluster with the next thing to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paictl.cluster.values import ClusterError, UnreachableError
from paictl.i18n import text
from paictl.remote.kube.client import KubeError, NoAnswerError

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
