"""Two services want the same port of a host.

Why: the services use the network of the host, so that the one that starts later fails again and again. The defaults of
services that are not written count too.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    grafana: {port: 3001}

Fails with::

    # services-configuration.yaml
    -grafana: {port: 3001}
    +grafana: {port: 9091}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.services import FIXED_PORTS, HostPort, services_of


@rule("SVC702", "port-collision", ERROR)
def check(document: Document) -> Findings:
    """Every written port that an earlier written one, a default or the host itself has."""
    ports = services_of(document).ports
    holders: dict[int, HostPort] = {}
    for port in sorted(ports, key=lambda port: (port.node is not None, port.node.start if port.node else 0)):
        other = holders.setdefault(port.number, port)
        if port.node is None:
            continue
        if port.number in FIXED_PORTS:
            message = f"port {port.number} of {port.label} is that of {FIXED_PORTS[port.number]}"
            yield Finding(port.node, message, _free(ports, port))
        elif other is not port:
            reason = "" if other.node else ", which it has by default"
            message = f"port {port.number} of {port.label} is also that of {other.label}{reason}"
            yield Finding(port.node, message, _free(ports, port))


def _free(ports: tuple[HostPort, ...], port: HostPort) -> str:
    taken = {one.number for one in ports if one is not port} | FIXED_PORTS.keys()
    free = next(number for number in range(port.default, port.default + len(taken) + 1) if number not in taken)
    return f"take a free one, e.g. {free}"
