"""A range of ports ends before it begins.

Why: an empty range leaves the machines' own programs without any port to connect from.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1
    host_daemon_port_start: 50000
    host_daemon_port_end: 45000
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.settings import ports_of_host_daemons


@rule("CFG311", "port-range", ERROR)
def check(document: Document) -> Findings:
    """A start that is not below the end, as written or by default."""
    top = document.top
    start, end = ports_of_host_daemons(document)
    at = top.scalar("host_daemon_port_end") or top.scalar("host_daemon_port_start")
    if at is not None and start >= end:
        message = f"host_daemon_port_start {start} is not below host_daemon_port_end {end}"
        yield Finding(at, message, "correct one of the two; by default they are 40000 and 65535")
