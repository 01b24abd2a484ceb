"""The one list of names that sound like secrets; what a schema knows to be one says ``"x-secret": true``.

Reports, diffs, pushes and stored jobs all ask here, so that none of them shows what another one hides.
"""

from __future__ import annotations

import re

_SOUNDS = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|bearer|webhook(-url)?$|(?:^|-)auth$|^extra-receivers$"
    r"|(api|access|account|auth|private|encryption|signing)-?key"
    r"|(?:^|(?:ssh|ssl|tls|shared|master|storage|license|subscription)-?)key$|connection-?string|(?:^|-)sas$"
)
"""What is searched for in a key in lower case, with ``-`` for ``_``."""

_ABOUT = re.compile(r"-(name|namespace|file|path|type|ttl|expire-time|expiration|lifetime|length)s?$")
"""Ends of keys that are about a secret, and not one."""

ADDRESS_WITH_PASSWORD = re.compile(r"://[^/\s:@]{0,200}:(?P<password>[^/\s@]{1,1000})@")
"""A user's password inside an address."""


def sounds_secret(name: str) -> bool:
    """Whether a key sounds as if its value was a secret."""
    plain = name.lower().replace("_", "-")
    return _SOUNDS.search(plain) is not None and _ABOUT.search(plain) is None
