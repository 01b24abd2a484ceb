"""A password and a key are given.

Why: Ansible logs in with the key; the password then serves sudo alone, and stands in the file for everybody who can
read it.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +ssh_key_file_path: /etc/hostname
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.settings import filled


@rule("CFG308", "both-credentials", INFO)
def check(document: Document) -> Findings:
    """Both `password` and `ssh_key_file_path`; the finding stands at the password."""
    password = filled(document, "password")
    if password is not None and filled(document, "ssh_key_file_path") is not None:
        message = "password is given beside ssh_key_file_path, and then serves sudo only"
        yield Finding(document.top.key("password") or password, message, "remove it if sudo asks for no password")
