"""A network of the cluster is none, or begins in the middle.

Why: Kubespray hands kube_service_addresses and kube_pods_subnet to Kubernetes, which does not start with anything but
a network such as 10.192.0.0/13, all bits behind the prefix being zero.

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
    openpai_kubespray_extra_var:
      kube_pods_subnet: 10.200.0.1/13
"""

from __future__ import annotations

import ipaddress

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.placeholders import is_placeholder
from paictl.config.models.settings import EXTRA, NETWORK_DEFAULTS, network_of


@rule("CFG313", "bad-network", ERROR)
def check(document: Document) -> Findings:
    """Each of the two networks that cannot be read."""
    extra = document.top.mapping(EXTRA)
    for name, default in NETWORK_DEFAULTS.items():
        at = extra.scalar(name)
        if at is None or network_of(at.text) is not None or is_placeholder(at.text):
            continue
        try:
            fixed = ipaddress.ip_network(at.text, strict=False)
        except ValueError:
            yield Finding(at, f"{name} {abridged(at.text)} is no network", f"write one such as {default}")
        else:
            edits = (Edit(at, str(fixed)),)
            yield Finding(at, f"{name} {at.text} has bits behind its prefix", f"write {fixed}", edits)
