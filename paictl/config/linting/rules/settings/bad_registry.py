"""A registry, mirror or download address has the wrong form.

Why: image names begin with a bare host, `docker.io` and not `https://docker.io`, while mirrors and downloads need the
whole URL. Docker refuses to start with the one, and no image is pulled with the other.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +docker_registry_domain: https://registry.example.org/
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.settings import filled, filled_items, network_of
from paictl.config.reading.nodes import ScalarNode

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?")
_PATH = re.compile(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_URL = re.compile(r"https?://[^/\s]+(/.*)?")
_REPOS = ("gcr_image_repo", "kube_image_repo", "quay_image_repo", "docker_image_repo", "etcd_image_repo")
_URLS = ("kubeadm_download_url", "hyperkube_download_url", "docker_cache_remote_url")


@rule("CFG312", "bad-registry", ERROR)
def check(document: Document) -> Findings:
    """Each value that is no registry, namespace, image name or URL where one is wanted."""
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
    for key in _REPOS:
        repo = filled(document, key)
        if repo is not None and not _is_image(repo.text):
            yield _finding(key, repo, "a registry with a path, such as quay.io/coreos/etcd")
    for key in _URLS:
        url = filled(document, key)
        if url is not None and not _URL.fullmatch(url.text):
            yield _finding(key, url, "a URL that begins with https:// or http://")


def _is_image(text: str) -> bool:
    host, _, path = text.partition("/")
    return _HOST.fullmatch(host) is not None and (not path or "{{" in path or _PATH.fullmatch(path) is not None)


def _finding(key: str, scalar: ScalarNode, wanted: str) -> Finding:
    bare = re.sub(r"^https?://|/+$", "", scalar.text)
    hint = f"write {bare}" if bare != scalar.text and not wanted.startswith("a URL") else f"write {wanted}"
    return Finding(scalar, f"{key}: {abridged(scalar.text)} is not {wanted}", hint)
