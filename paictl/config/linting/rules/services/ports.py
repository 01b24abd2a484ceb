"""Ports that services and jobs share on a host."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.models.services import EPHEMERAL_END, EPHEMERAL_START, FIXED_PORTS, HostPort, services_of
from paictl.config.reading.nodes import ScalarNode
from paictl.i18n import text


@rule("SVC702", "port-collision", ERROR)
def port_collision(document: Document) -> Findings:
    """Two services use the same port of a host.

    Why: the services use the host's network, so the one that starts second keeps failing. Services that the file does
    not mention use their default ports.

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
    # Every written port that an earlier written one, a default or the host itself has.
    ports = services_of(document).ports
    holders: dict[int, HostPort] = {}
    for port in sorted(ports, key=lambda port: (port.node is not None, port.node.start if port.node else 0)):
        other = holders.setdefault(port.number, port)
        if port.node is None:
            continue
        if port.number in FIXED_PORTS:
            message = text(
                "port {port} of {label} is that of {other}",
                port=port.number,
                label=port.label,
                other=FIXED_PORTS[port.number],
            )
            yield Finding(port.node, message, _free(ports, port))
        elif other is not port:
            reason = "" if other.node else text(", which it has by default")
            message = text(
                "port {port} of {label} is also that of {other}{reason}",
                port=port.number,
                label=port.label,
                other=other.label,
                reason=reason,
            )
            yield Finding(port.node, message, _free(ports, port))


def _free(ports: tuple[HostPort, ...], port: HostPort) -> str:
    taken = {other.number for other in ports if other is not port} | FIXED_PORTS.keys()
    free = next(number for number in range(port.default, port.default + len(taken) + 1) if number not in taken)
    return text("take a free one, e.g. {free}", free=free)


@rule("SVC703", "schedule-ports", WARNING)
def schedule_ports(document: Document) -> Findings:
    """The port range for jobs is empty, or overlaps ports of services or of outgoing connections.

    Why: a job that gets the port of a service, or one that Linux has just given to a connection, occasionally fails
    with "address already in use". The defaults (15000 to 40000) overlap with both; only ports that are set in the
    file are reported.

    Passes::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
          schedule-port-start: 15000
          schedule-port-end: 29999

    Fails::

        # services-configuration.yaml
        rest-server:
          default-pai-admin-username: root-of-pai
          default-pai-admin-password: not-a-default-1
          schedule-port-start: 9000
          schedule-port-end: 20000
    """
    # The written range of ports, and written ports within the range.
    services = services_of(document)
    rest = services.top.mapping("rest-server")
    start, end = services.schedule_ports
    at = rest.scalar("schedule-port-end") or rest.scalar("schedule-port-start")
    within = [port for port in services.ports if start <= port.number <= end]
    for port in within:
        moved_in = at is not None or not start <= port.default <= end
        if port.node is not None and moved_in:
            message = text(
                "port {port} of {label} is among those that jobs get ({start} to {end})",
                port=port.number,
                label=port.label,
                start=start,
                end=end,
            )
            yield Finding(port.node, message, "move it out of the range, or narrow the range")
    if at is not None:
        yield from _range(at, (start, end), [port for port in within if port.node is None])


def _range(at: ScalarNode, ports: tuple[int, int], defaults: list[HostPort]) -> Findings:
    """What is wrong with a written range; `defaults` are ports of services in it that are not written."""
    start, end = ports
    words = text("schedule ports {start} to {end}", start=start, end=end)
    if start > end:
        yield Finding(
            at, text("{words} contain nothing", words=words), "write an end above the start", severity=Severity.ERROR
        )
        return
    if defaults:
        taken = ", ".join(f"{port.number} ({port.label})" for port in defaults)
        yield Finding(
            at, text("{words} include those of services: {taken}", words=words, taken=taken), "narrow the range"
        )
    if start <= EPHEMERAL_END and end >= EPHEMERAL_START:
        message = text(
            "{words} overlap with those of outgoing connections, from {port}",
            words=words,
            port=EPHEMERAL_START,
        )
        yield Finding(
            at,
            message,
            text("end at {port} or lower", port=EPHEMERAL_START - 1),
            severity=Severity.INFO,
        )
