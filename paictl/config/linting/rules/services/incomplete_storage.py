"""Azure storage is chosen, but account, key or container is not given.

Why: the image cache and the log server start without a word, and fail at the first image or log.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    docker-cache: {enabled: true, storage_backend: filesystem}

Fails::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    docker-cache:
      enabled: true
      storage_backend: azure
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.nodes import MappingNode, ScalarNode

_LOG_KEYS = ("log_azure_storage_account", "log_azure_storage_account_key", "log_azure_storage_container_name")


@rule("SVC715", "incomplete-storage", ERROR)
def check(document: Document) -> Findings:
    """What the image cache and the log server need for Azure and do not have."""
    cache = document.top.mapping("docker-cache")
    enabled, backend = cache.scalar("enabled"), cache.text("storage_backend")
    if enabled is not None and enabled.value is True and (backend is None or backend.text == "azure"):
        at = cache.key("storage_backend") or cache.key("enabled") or enabled
        yield from _lacking(cache, at, ("azure_account_name", "azure_account_key"))
    rest = document.top.mapping("rest-server")
    logs = rest.text("log-server")
    if logs is not None and logs.text == "azure_storage":
        yield from _lacking(rest, rest.key("log-server") or logs, _LOG_KEYS)


def _lacking(section: MappingNode, at: ScalarNode, keys: tuple[str, ...]) -> Findings:
    missing = [key for key in keys if not (value := section.text(key)) or not value.text.strip()]
    if missing:
        yield Finding(at, f"Azure storage needs {', '.join(missing)}", "fill them in")
