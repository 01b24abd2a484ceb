"""The networks of services and pods overlap.

Why: an address would belong to a pod and to a service at the same time; Kubespray refuses such networks, or
connections end at the wrong place. If only one of the two is written, the other has its default.

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
      kube_service_addresses: 10.200.0.0/16
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from paictl.config.models.settings import cluster_networks
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "CFG314"
NAME = "overlapping-networks"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """The later of two networks that overlap."""
    for first, second in combinations(cluster_networks(document), 2):
        at = second.at or first.at
        if at is not None and first.network.overlaps(second.network):
            yield Finding(at, f"{first.words} and {second.words} overlap", "choose networks that share no address")
