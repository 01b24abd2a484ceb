"""A setting was read by older versions of OpenPAI only.

Why: unknown settings are ignored without a word, so that it looks as if it still did something.

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

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule

_LEGACY = {
    "branch_name": ("v1.4", "check out the tag or branch before you deploy"),
    "gpu_type": ("v1.2", "give computing-device.type of the machine's SKU in layout.yaml"),
    "worker_default_docker_runtime": ("v1.2", "set default-runtime in Docker's daemon.json on the workers"),
}


@rule("CFG309", "legacy-setting", WARNING)
def check(document: Document) -> Findings:
    """Each legacy setting, with what to do in its place."""
    for key, (version, instead) in _LEGACY.items():
        at = document.top.key(key)
        if at is not None:
            yield Finding(at, f"{key} is read up to {version} only", f"remove it, and {instead}")
