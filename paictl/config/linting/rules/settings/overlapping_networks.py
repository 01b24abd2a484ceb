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

from itertools import combinations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.settings import cluster_networks


@rule("CFG314", "overlapping-networks", ERROR)
def check(document: Document) -> Findings:
    """The later of two networks that overlap."""
    for first, second in combinations(cluster_networks(document), 2):
        at = second.at or first.at
        if at is not None and first.network.overlaps(second.network):
            yield Finding(at, f"{first.words} and {second.words} overlap", "choose networks that share no address")
