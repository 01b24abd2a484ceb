"""The two errors of the core: the caller's and ours."""

from __future__ import annotations

from paictl.errors import PaictlError
from paictl.i18n import joined


class RequestError(PaictlError):
    """A request that cannot be served as it stands; the state is untouched.

    `pod` is ``namespace/name`` and `field` the path of the field at fault in the pod's scheduling spec.
    """

    def __init__(self, pod: str, field: str, message: str) -> None:
        super().__init__(joined(": ", (field, message)), where=f"pod {pod}")
        self.pod = pod
        self.field = field


class InvariantError(Exception):
    """The state contradicts itself: a bug of ours. The engine stops; dump its state and last events."""
