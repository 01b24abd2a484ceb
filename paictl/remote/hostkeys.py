"""The host keys that paictl trusts: one file in the form of OpenSSH, read by `ssh` and by Ansible's ssh alike.

A key gets into it by `--accept-new-host-keys` (trust on first use, shown with its fingerprint), by `ssh-keyscan`, or by
hand; it leaves it by `ssh-keygen -R`. A key that is there and not the one that the host shows is never replaced by us.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.places import config_folder

FILE: Final = "known_hosts"


@frozen
class HostKey:
    """A public host key; `kind` as in a file of known hosts (``ssh-ed25519``), `blob` as it goes over the wire."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint as `ssh` prints it: ``SHA256:`` and 43 characters."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")

    def line(self, place: str) -> str:
        """The line of a file of known hosts."""
        return f"{place} {self.kind} {base64.b64encode(self.blob).decode()}"


def known_hosts_file() -> Path:
    """paictl's own file of known hosts: what the user's `ssh` trusts is another matter."""
    return config_folder() / FILE


def remember(path: Path, place: str, key: HostKey) -> None:
    """Add a key to a file of known hosts, unless it holds it; raises `PaictlError` if that cannot be written."""
    line = key.line(place)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path):
            before = path.read_text(encoding="utf-8") if path.is_file() else ""
            if line in before.splitlines():
                return
            end = "" if not before or before.endswith("\n") else "\n"
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{end}{line}\n")
            path.chmod(0o600)
    except OSError as error:
        raise PaictlError(text("cannot be written: {strerror}", strerror=error.strerror), where=str(path)) from None


def command_to_forget(place: str, path: Path) -> str:
    """The command that takes a host's key out of the file."""
    return f"ssh-keygen -R '{place}' -f {path}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl  # only on POSIX, and reading needs it not

    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
