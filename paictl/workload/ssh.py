"""The runtime's plugin `ssh`: who may reach the tasks of a job by SSH, and public keys as people have them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import Fields, JobError, suggestion
from paictl.workload.plugins import SSH, plugins_of

KEY_TYPES: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
LONGEST_KEY: Final = 4096
"""Characters of a public key; 16,384 bits of RSA have 2,800."""
MOST_TASKS: Final = 32
"""Tasks of a job that get a port on the nodes: those are about 2,700 in a cluster."""
_PARAMETERS: Final = frozenset({"jobssh", "userssh", "sshbarrier", "sshbarrierTimeout"})
_USER: Final = frozenset({"type", "value"})
_CUSTOM: Final = "custom"


@frozen
class SshAccess:
    """What the plugin asks for: `between` tasks of the job; for `people`, who show the account's keys or these."""

    between: bool
    people: bool
    keys: tuple[str, ...]
    roles: tuple[str, ...]
    """Task roles that it is for; none: all."""
    where: str

    def is_for(self, role: str) -> bool:
        """Whether tasks of a role have an SSH server."""
        return (self.between or self.people) and (not self.roles or role in self.roles)


def ssh_of(job: Fields, *, gang: bool = True) -> SshAccess | None:
    """What a job asks for, None without the plugin; raises `JobError` for a wrong parameter.

    As in OpenPAI, tasks that do not start together (`gang` false) do not reach each other by SSH.
    """
    access: SshAccess | None = None
    for plugin in plugins_of(job):
        if plugin.name != SSH:
            continue
        if access is not None:
            raise plugin.fields.error(
                "plugin", text("the plugin ssh is listed twice"), hint=text("keep one of the two")
            )
        parameters = plugin.parameters(_PARAMETERS)
        user = parameters.mapping("userssh", _USER)
        kind, value = user.optional_text("type"), user.get("value")
        if kind not in (None, _CUSTOM):
            raise user.error(
                "type",
                text("keys of type {kind} are not supported", kind=str(kind)),
                hint=text("write custom; keys of the account are added automatically"),
            )
        lines = [] if value in (None, "") else user.text("value").splitlines()
        keys = tuple(_key(user, line) for line in lines if line.strip())
        between = gang and _flag(parameters, "jobssh")
        access = SshAccess(
            between, kind == _CUSTOM, keys, plugin.roles, user.path if kind else plugin.fields.at("plugin")
        )
    return access


def _flag(fields: Fields, key: str) -> bool:
    """OpenPAI's runtime reads the words true and false, too."""
    value = fields.get(key)
    return (
        value.lower() == "true"
        if isinstance(value, str) and value.lower() in ("true", "false")
        else fields.flag(key, default=False)
    )


def _key(user: Fields, line: str) -> str:
    try:
        return public_key(line).line
    except PaictlError as error:
        raise JobError(user.at("value"), error.message, hint=error.hint) from None


@frozen
class PublicKey:
    """A public key of SSH: `line` as it stands in `authorized_keys`, without options."""

    kind: str
    data: str
    title: str

    @property
    def line(self) -> str:
        """Type, key and title."""
        return f"{self.kind} {self.data} {self.title}".rstrip()

    @property
    def fingerprint(self) -> str:
        """As ``ssh-keygen -l`` shows it."""
        digest = hashlib.sha256(base64.b64decode(self.data)).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def public_key(line: str) -> PublicKey:
    """A public key on one line; raises `PaictlError` for anything else, a private key above all."""
    if "PRIVATE KEY" in line:
        raise PaictlError(text("this is a private key"), hint=text("give the public one, which ends in .pub"))
    words = line.split(None, 2)
    if len(line.strip().splitlines()) != 1 or len(words) < 2 or len(line) > LONGEST_KEY:
        raise PaictlError(
            text("this is not an SSH public key"), hint=text("for instance: ssh-ed25519 AAAA… you@laptop")
        )
    kind, data, title = words[0], words[1], words[2].strip() if len(words) > 2 else ""
    if kind not in KEY_TYPES:
        raise PaictlError(text("no key type {kind!r}", kind=kind[:40]), hint=suggestion(kind, KEY_TYPES, "key types"))
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw.startswith(len(kind).to_bytes(4, "big") + kind.encode()) or len(raw) < 4 + len(kind) + 32:
        raise PaictlError(text("the public key is damaged"), hint=text("copy the whole line of the .pub file"))
    return PublicKey(kind, data, "".join(character for character in title if character.isprintable())[:100])
