"""The file of a certificate or of its key is not there.

Why: the file is copied when pylon starts, and HTTPS fails then. Looked at on this machine: validate where you deploy
from. Relative paths are left alone. paictl itself has no pylon any more, see `service-gone`.

Passes::

    # services-configuration.yaml
    rest-server:
      default-pai-admin-username: root-of-pai
      default-pai-admin-password: not-a-default-1
    pylon:  # paictl: ignore=SVC718
      ssl:
        port: 443
        crt_name: pai.crt
        crt_path: certificates/pai.crt
        key_name: pai.key
        key_path: certificates/pai.key

Fails with::

    # services-configuration.yaml
    -    crt_path: certificates/pai.crt
    +    crt_path: /no/such/folder/pai.crt
    @@
    -    key_path: certificates/pai.key
    +    key_path: /no/such/folder/pai.key
"""

from __future__ import annotations

from pathlib import Path

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule


@rule("SVC704", "certificate-file", WARNING)
def check(document: Document) -> Findings:
    """Every absolute path under pylon.ssl that is no file here."""
    ssl = document.top.at("pylon", "ssl")
    for key in ("crt_path", "key_path"):
        path = ssl.text(key)
        if path is not None and path.text.startswith("/") and not _is_file(path.text):
            yield Finding(
                path, f"{key} {path.text} is no file on this machine", "correct the path, or copy the file here"
            )


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False
