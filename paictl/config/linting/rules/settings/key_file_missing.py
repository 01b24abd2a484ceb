"""The file of the SSH key is not on this machine.

Why: Ansible reads the key on the machine that deploys. If that is this one, no login will work; if it is another one,
this can be ignored.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    ssh_key_file_path: /home/nobody-of-that-name/.ssh/id_rsa
    docker_image_tag: v1.8.1
"""

from __future__ import annotations

from pathlib import Path

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.settings import filled


@rule("CFG307", "key-file-missing", WARNING)
def check(document: Document) -> Findings:
    """An absolute path at which there is no file here."""
    path = filled(document, "ssh_key_file_path")
    if path is not None and path.text.startswith("/") and not _is_file(path.text):
        message = f"there is no file {path.text} on this machine"
        yield Finding(path, message, "correct the path, or put the key there before you deploy from here")


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a folder above may be closed to us, a path may hold a zero byte
        return False
