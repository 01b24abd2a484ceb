"""The cache of Docker images is to live in Azure, but has no account there.

Why: azure is the default of docker_cache_storage_backend; without an account the cache does not start, and every
machine is told to pull through it.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +enable_docker_cache: true
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule

_ACCOUNT = ("docker_cache_azure_account_name", "docker_cache_azure_account_key")


@rule("CFG317", "docker-cache-account", ERROR)
def check(document: Document) -> Findings:
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
