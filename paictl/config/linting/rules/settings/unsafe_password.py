"""The password or user name holds characters that break Ansible's inventory.

Why: OpenPAI writes the password between double quotes into hosts.yml and the user name bare: a double quote or
backslash in the password makes the file unreadable or the password another one, and two opening braces are taken for
a variable.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails::

    # config.yaml
    user: pai-admin
    password: 'kelp"Tundra'
    docker_image_tag: v1.8.1
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.settings import filled

_IN_QUOTES = ('"', "\\", "{{", "{%", "{#", "\n")
_BARE = (*_IN_QUOTES, ": ", " #", "'", "[", "]", "{", "}", ",")


@rule("CFG304", "unsafe-password", ERROR)
def check(document: Document) -> Findings:
    """A password or user name that does not survive being pasted into YAML; the message never shows the password."""
    for key, unsafe in (("password", _IN_QUOTES), ("user", _BARE)):
        scalar = filled(document, key)
        found = next((text for text in unsafe if scalar and text in scalar.text), None)
        if scalar is not None and found is not None:
            message = f"{key} holds {found!r}, which breaks the inventory that is made from it"
            hint = (
                "choose another password, or log in with ssh_key_file_path" if key == "password" else "correct the name"
            )
            yield Finding(scalar, message, hint)
