"""The cache of Docker images is to live in Azure, but has no account there.

Why: azure is the default of docker_cache_storage_backend; without an account the cache does not start, and every
machine is told to pull through it.

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
    enable_docker_cache: true
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "CFG317"
NAME = "docker-cache-account"
SEVERITY = Severity.ERROR


_ACCOUNT = ("docker_cache_azure_account_name", "docker_cache_azure_account_key")


def check(document: Document) -> Iterator[Finding]:
    """A cache that is on, with the azure backend and neither name nor key (one of the two alone: SHP109)."""
    top = document.top
    enabled, backend = top.scalar("enable_docker_cache"), top.scalar("docker_cache_storage_backend")
    if enabled is None or enabled.value is not True or (backend is not None and backend.text != "azure"):
        return
    empty = [top.scalar(key) for key in _ACCOUNT if key in top]
    if not empty:
        hint = f"add {' and '.join(_ACCOUNT)}, or docker_cache_storage_backend: filesystem"
        yield Finding(top.key("enable_docker_cache") or enabled, "the Docker cache has no Azure account", hint)
    for key, scalar in zip(_ACCOUNT, empty, strict=False):
        if scalar is not None and not scalar.text.strip():
            yield Finding(scalar, f"{key} is empty, but the Docker cache needs it", f"fill in {key}")
