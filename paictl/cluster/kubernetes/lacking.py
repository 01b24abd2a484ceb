"""The ports that a Kubernetes cluster does not answer yet: one honest error each, the same at every try."""

# ruff: noqa: ARG002 - whatever is asked, the answer is the same
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from paictl.cluster.values import Port, ServiceView, UnsupportedError

LACKS: Final[Mapping[Port, str]] = {
    Port.SERVICES: "apply what paictl extender config prints with kubectl",
}
"""Each with what can be done instead today."""


def _lacking(port: Port) -> NoReturn:
    raise UnsupportedError(f"paictl cannot do {port.value} on a Kubernetes cluster yet", hint=LACKS[port])


class LackingPorts:
    """Services."""

    def services(self) -> Sequence[ServiceView]:
        """Not yet."""
        _lacking(Port.SERVICES)

    def set_service(self, name: str, *, running: bool) -> ServiceView:
        """Not yet."""
        _lacking(Port.SERVICES)

    def restart_services(self, names: Sequence[str]) -> None:
        """Not yet."""
        _lacking(Port.SERVICES)

    def losses(self, name: str) -> Sequence[str] | None:
        """Not yet."""
        _lacking(Port.SERVICES)

    def wipe_service(self, name: str) -> None:
        """Not yet."""
        _lacking(Port.SERVICES)
