"""The path of the SSH key is not absolute.

Why: the deployment scripts change folders before Ansible reads the path, so that a relative one is looked for
somewhere else.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    ssh_key_file_path: keys/id_rsa
    docker_image_tag: v1.8.1
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.settings import filled


@rule("CFG306", "relative-key-path", WARNING)
def check(document: Document) -> Findings:
    """A path that does not begin with `/`."""
    path = filled(document, "ssh_key_file_path")
    if path is not None and not path.text.startswith("/"):
        message = f"ssh_key_file_path {path.text!r} is taken relative to wherever the deployment happens to run"
        yield Finding(path, message, "write the path from / on")
