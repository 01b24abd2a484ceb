"""A setting is read only by older versions of OpenPAI than the one that is deployed.

Why: unknown settings are ignored without a word, so that it looks as if it still did something. The version is that of
`docker_image_tag`.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +branch_name: release-1.8
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.settings import filled

_LEGACY = {
    "branch_name": ("v1.4", "check out the tag or branch before you deploy"),
    "gpu_type": ("v1.2", "give computing-device.type of the machine's SKU in layout.yaml"),
    "worker_default_docker_runtime": ("v1.2", "set default-runtime in Docker's daemon.json on the workers"),
}


@rule("CFG309", "legacy-setting", WARNING)
def check(document: Document) -> Findings:
    """Each legacy setting that the version to be deployed does not read, with what to do in its place."""
    tag = filled(document, "docker_image_tag")
    deployed = _release(tag.text) if tag else None
    for key, (version, instead) in _LEGACY.items():
        at = document.top.key(key)
        last = _release(version)
        if at is not None and not (deployed and last and deployed <= last):
            yield Finding(at, f"{key} is read up to {version} only", f"remove it, and {instead}")


def _release(text: str) -> tuple[int, int] | None:
    """Major and minor number of a version such as ``v1.4`` or ``v1.2.0``; None for any other tag."""
    match = re.fullmatch(r"v?(\d{1,6})\.(\d{1,6})(?:\..*|-.*)?", text.strip())
    return (int(match[1]), int(match[2])) if match else None
