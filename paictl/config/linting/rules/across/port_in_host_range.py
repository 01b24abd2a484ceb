"""A service's port is in the range that config.yaml leaves to the hosts' own programs.

Why: an outgoing connection of any program may take the port first, and the service does not start until that one
ends.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1
    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: chief
      default-pai-admin-password: Ember-Quay-90
      jwt-secret: 7f2c-salt-of-this-cluster

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +host_daemon_port_start: 9000
    # services-configuration.yaml
       jwt-secret: 7f2c-salt-of-this-cluster
    +prometheus:
    +  port: 9991
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Bundle, Finding, Findings, rule
from paictl.config.models.services import services_of
from paictl.config.models.settings import ports_of_host_daemons
from paictl.config.reading.kinds import FileKind


@rule("XRF913", "port-in-host-range", WARNING)
def check(bundle: Bundle) -> Findings:
    """Each port, and the range for jobs, that meets a range which config.yaml gives itself."""
    settings, document = bundle.only(FileKind.CONFIG), bundle.only(FileKind.SERVICES)
    bounds = ("host_daemon_port_start", "host_daemon_port_end")
    at = next((settings.top.scalar(key) for key in bounds if key in settings.top), None) if settings else None
    if settings is None or document is None or at is None:
        return
    services = services_of(document)
    start, end = ports_of_host_daemons(settings)
    for port in services.ports:
        if port.node is not None and start <= port.number <= end:
            message = f"{port.label} {port.number} is among the ports {start}-{end} of the hosts' own programs"
            yield Finding(port.node, message, f"take a port outside, or change {settings.path}")
    first, last = services.schedule_ports
    if start < last and first <= end and start < end:
        message = f"ports {start}-{end} of the hosts' own programs overlap those of jobs, {first}-{last - 1}"
        yield Finding(at, message, f"begin at {last}, or move rest-server.schedule-port-start and -end")
