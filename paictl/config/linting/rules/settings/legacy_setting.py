"""A setting was read by older versions of OpenPAI only.

Why: unknown settings are ignored without a word, so that it looks as if it still did something.

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
    branch_name: release-1.8
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "CFG309"
NAME = "legacy-setting"
SEVERITY = Severity.WARNING


_LEGACY = {
    "branch_name": ("v1.4", "check out the tag or branch before you deploy"),
    "gpu_type": ("v1.2", "give computing-device.type of the machine's SKU in layout.yaml"),
    "worker_default_docker_runtime": ("v1.2", "set default-runtime in Docker's daemon.json on the workers"),
}


def check(document: Document) -> Iterator[Finding]:
    """Each legacy setting, with what to do in its place."""
    for key, (version, instead) in _LEGACY.items():
        at = document.top.key(key)
        if at is not None:
            yield Finding(at, f"{key} is read up to {version} only", f"remove it, and {instead}")
