"""A setting is accepted but never applied.

Why: OpenPAI's playbooks read host_daemon_port_start and host_daemon_port_end, but no role that runs uses them: the
range of local ports of the machines stays what it is.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +host_daemon_port_start: 50000
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule

_KEYS = ("host_daemon_port_start", "host_daemon_port_end")


@rule("CFG310", "setting-without-effect", INFO)
def check(document: Document) -> Findings:
    """The first of the two bounds that is given."""
    at = next((key for key in (document.top.key(name) for name in _KEYS) if key), None)
    if at is not None:
        hint = "set net.ipv4.ip_local_port_range on the machines yourself"
        yield Finding(at, f"{at.text} is never applied by OpenPAI's playbooks", hint)
