"""Networks, ports and addresses of registries and mirrors."""

from __future__ import annotations

import ipaddress
import re
from itertools import combinations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.placeholders import is_placeholder
from paictl.config.models.settings import (
    EXTRA,
    NETWORK_DEFAULTS,
    cluster_networks,
    filled,
    filled_items,
    network_of,
    ports_of_host_daemons,
)
from paictl.config.reading.nodes import ScalarNode
from paictl.i18n import sayable, text


@rule("CFG311", "port-range", ERROR)
def port_range(document: Document) -> Findings:
    """A range of ports ends before it begins.

    Why: an empty range leaves the machines' own programs without any port to connect from.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +host_daemon_port_start: 50000
        +host_daemon_port_end: 45000
    """
    # A start that is not below the end, as written or by default.
    top = document.top
    start, end = ports_of_host_daemons(document)
    at = top.scalar("host_daemon_port_end") or top.scalar("host_daemon_port_start")
    if at is not None and start >= end:
        message = text("host_daemon_port_start {start} is not below host_daemon_port_end {end}", start=start, end=end)
        yield Finding(at, message, "correct one of the two; by default they are 40000 and 65535")


_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?")


_PATH = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")


_URL = re.compile(r"https?://[^/\s]+(/.*)?")


_REPOS = ("gcr_image_repo", "kube_image_repo", "quay_image_repo", "docker_image_repo", "etcd_image_repo")


_URLS = ("kubeadm_download_url", "hyperkube_download_url", "docker_cache_remote_url")


@rule("CFG312", "bad-registry", ERROR)
def bad_registry(document: Document) -> Findings:
    """A registry, mirror or download address has the wrong form.

    Why: image names begin with a bare host, `docker.io` and not `https://docker.io`, while mirrors and downloads need
    the whole URL. Docker refuses to start with the one, and no image is pulled with the other.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +docker_registry_domain: https://registry.example.org/
    """
    # Each value that is no registry, namespace, image name or URL where one is wanted.
    domain, namespace = filled(document, "docker_registry_domain"), filled(document, "docker_registry_namespace")
    if domain is not None and not _HOST.fullmatch(domain.text):
        yield _finding("docker_registry_domain", domain, "a registry such as docker.io or registry.example.org:5000")
    if namespace is not None and not _PATH.fullmatch(namespace.text):
        yield _finding("docker_registry_namespace", namespace, "a namespace such as openpai, in lower case")
    for item in filled_items(document, "openpai_docker_insecure_registries"):
        if not _HOST.fullmatch(item.text) and network_of(item.text) is None:
            yield _finding("openpai_docker_insecure_registries", item, "a registry such as registry.example.org:5000")
    for item in filled_items(document, "openpai_docker_registry_mirrors"):
        if not _URL.fullmatch(item.text):
            yield _finding("openpai_docker_registry_mirrors", item, "a URL such as https://mirror.example.org")
    yield from _accounts(document)
    for key in _REPOS:
        repo = filled(document, key)
        if repo is not None and not _is_image(repo.text):
            yield _finding(key, repo, "a registry with a path, such as quay.io/coreos/etcd")
    for key in _URLS:
        url = filled(document, key)
        if url is not None and not _URL.fullmatch(url.text):
            yield _finding(key, url, "a URL that begins with https:// or http://")


def _accounts(document: Document) -> Findings:
    for entry in document.top.mapping("deploy").mapping("registry_credentials"):
        if not _HOST.fullmatch(entry.name):
            yield _finding("registry_credentials", entry.key, "a registry such as registry.example.org:5000")


def _is_image(text: str) -> bool:
    host, _, path = text.partition("/")
    return _HOST.fullmatch(host) is not None and (not path or "{{" in path or _PATH.fullmatch(path) is not None)


def _finding(key: str, scalar: ScalarNode, wanted: str) -> Finding:
    bare = re.sub(r"^https?://|/+$", "", scalar.text)
    hint = (
        text("write {bare}", bare=bare)
        if bare != scalar.text and not wanted.startswith("a URL")
        else text("write {wanted}", wanted=sayable(wanted))
    )
    return Finding(
        scalar,
        text("{key}: {scalar} is not {wanted}", key=key, scalar=abridged(scalar.text), wanted=sayable(wanted)),
        hint,
    )


@rule("CFG313", "bad-network", ERROR)
def bad_network(document: Document) -> Findings:
    """A network of the cluster is not valid, or does not start at its first address.

    Why: Kubespray passes kube_service_addresses and kube_pods_subnet to Kubernetes, which only starts with a network
    such as 10.192.0.0/13, with all bits after the prefix zero.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +openpai_kubespray_extra_var:
        +  kube_pods_subnet: 10.200.0.1/13
    """
    # Each of the two networks that cannot be read.
    extra = document.top.mapping(EXTRA)
    for name, default in NETWORK_DEFAULTS.items():
        at = extra.scalar(name)
        if at is None or network_of(at.text) is not None or is_placeholder(at.text):
            continue
        try:
            fixed = ipaddress.ip_network(at.text, strict=False)
        except ValueError:
            yield Finding(
                at,
                text("{name} {at} is not a network", name=name, at=abridged(at.text)),
                text("write one such as {default}", default=default),
            )
        else:
            edits = (Edit(at, str(fixed)),)
            yield Finding(
                at,
                text("{name} {at} has bits set after its prefix", name=name, at=at.text),
                text("write {fixed}", fixed=fixed),
                edits,
            )


@rule("CFG314", "overlapping-networks", ERROR)
def overlapping_networks(document: Document) -> Findings:
    """The networks of services and pods overlap.

    Why: an address would belong to a pod and to a service at the same time. Kubespray refuses such networks, or
    connections go to the wrong place. If only one of the two is set, the other has its default.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +openpai_kubespray_extra_var:
        +  kube_service_addresses: 10.200.0.0/16
    """
    # The later of two networks that overlap.
    for first, second in combinations(cluster_networks(document), 2):
        at = second.at or first.at
        if at is not None and first.network.overlaps(second.network):
            yield Finding(
                at,
                text("{first} and {second} overlap", first=first.words, second=second.words),
                "choose networks that share no address",
            )
