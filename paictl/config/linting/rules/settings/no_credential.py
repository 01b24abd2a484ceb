"""There is neither a password nor a key to log in with.

Why: the deployment works through SSH on every machine; without a credential it fails at the first one.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    docker_image_tag: v1.8.1
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule


@rule("CFG303", "no-credential", ERROR)
def check(document: Document) -> Findings:
    """Neither `password` nor `ssh_key_file_path`."""
    top = document.top
    if len(top) and "password" not in top and "ssh_key_file_path" not in top:
        at = top.key("user") or next(iter(top)).key
        yield Finding(at, "neither password nor ssh_key_file_path is given", "add password, or ssh_key_file_path")
