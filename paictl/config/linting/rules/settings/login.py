"""How hosts and registries are logged in to."""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Finding, Findings, rule
from paictl.config.models.settings import filled
from paictl.config.reading.load import is_file
from paictl.i18n import text

_PAIRS = (("user", "password"), ("docker_registry_username", "docker_registry_password"))


_KNOWN = frozenset(
    (
        *("password", "passw0rd", "p@ssw0rd", "p@ssword", "password1", "password123", "passwd", "pass", "rootpass"),
        *("admin", "admin123", "adminpassword", "administrator", "root", "toor", "ubuntu", "user", "guest", "test"),
        *("openpai", "pai", "paiadmin", "secret", "letmein", "welcome", "welcome1", "default", "qwerty", "qwerty123"),
        *("1234", "12345", "123456", "1234567", "12345678", "123456789", "1234567890", "111111", "000000", "abc123"),
    )
)


@rule("CFG302", "weak-password", WARNING)
def weak_password(document: Document) -> Findings:
    """A password is a well-known one, or the same as the user name.

    Why: the account has sudo on every machine, and these passwords are the first that attackers try.

    Fails with::

        # config.yaml
        -password: kelp-Tundra-41
        +password: admin-password
    """
    # Each password that is easily guessed; the message never shows it.
    for user_key, key in _PAIRS:
        password, user = filled(document, key), document.top.scalar(user_key)
        if password is None:
            continue
        hint = "choose another one, on the machines too"
        if user is not None and password.text.lower() == user.text.lower():
            yield Finding(password, text("{key} is the same as {user_key}", key=key, user_key=user_key), hint)
        elif re.sub(r"[ _.-]", "", password.text.lower()) in _KNOWN:
            yield Finding(password, text("{key} is one of the passwords that attackers try first", key=key), hint)


@rule("CFG303", "no-credential", ERROR)
def no_credential(document: Document) -> Findings:
    """Neither a password nor a key is given for logging in.

    Why: the deployment works through SSH on every machine; without a credential it fails at the first one.

    Fails with::

        # config.yaml
        -password: kelp-Tundra-41
    """
    # Neither `password` nor `ssh_key_file_path`, nor the agent's keys.
    top = document.top
    agent = top.mapping("deploy").scalar("ssh_agent")
    if agent is not None and agent.value is True:
        return
    if len(top) and "password" not in top and "ssh_key_file_path" not in top:
        at = top.key("user") or next(iter(top)).key
        yield Finding(at, "neither password nor ssh_key_file_path is given", "add password, or ssh_key_file_path")


_IN_QUOTES = ('"', "\\", "{{", "{%", "{#", "\n")


_BARE = (*_IN_QUOTES, ": ", " #", "'", "[", "]", "{", "}", ",")


@rule("CFG304", "unsafe-password", ERROR)
def unsafe_password(document: Document) -> Findings:
    """The password or user name contains characters that break Ansible's inventory.

    Why: OpenPAI writes the password between double quotes into hosts.yml and the user name bare: a double quote or
    backslash in the password makes the file unreadable or the password another one, and two opening braces are taken
    for a variable.

    Fails with::

        # config.yaml
        -password: kelp-Tundra-41
        +password: 'kelp"Tundra'
    """
    # A password or user name that does not survive being pasted into YAML; the message never shows the password.
    for key, unsafe in (("password", _IN_QUOTES), ("user", _BARE)):
        scalar = filled(document, key)
        forbidden = next((text for text in unsafe if scalar and text in scalar.text), None)
        if scalar is not None and forbidden is not None:
            message = text(
                "{key} contains {found!r}, which breaks the inventory that is generated from it",
                key=key,
                found=forbidden,
            )
            hint = (
                "choose another password, or log in with ssh_key_file_path" if key == "password" else "correct the name"
            )
            yield Finding(scalar, message, hint)


@rule("CFG306", "relative-key-path", WARNING)
def relative_key_path(document: Document) -> Findings:
    """The path of the SSH key is not absolute.

    Why: the deployment scripts change folders before Ansible reads the path, so a relative one is looked for in another
    folder.

    Fails with::

        # config.yaml
        -password: kelp-Tundra-41
        +ssh_key_file_path: keys/id_rsa
    """
    # A path that does not begin with `/`.
    path = filled(document, "ssh_key_file_path")
    if path is not None and not path.text.startswith("/"):
        message = text(
            "ssh_key_file_path {path!r} is relative to the folder in which the deployment happens to run",
            path=path.text,
        )
        yield Finding(path, message, "write an absolute path")


@rule("CFG307", "key-file-missing", WARNING)
def key_file_missing(document: Document) -> Findings:
    """The file of the SSH key is not on this machine.

    Why: Ansible reads the key on the machine that deploys. If that is this one, no login will work; if it is another
    one, this can be ignored.

    Fails with::

        # config.yaml
        -password: kelp-Tundra-41
        +ssh_key_file_path: /home/nobody-of-that-name/.ssh/id_rsa
    """
    # An absolute path at which there is no file here.
    path = filled(document, "ssh_key_file_path")
    if path is not None and path.text.startswith("/") and not is_file(path.text):
        message = text("no file {path} on this machine", path=path.text)
        yield Finding(path, message, "correct the path, or put the key there before you deploy from here")


@rule("CFG308", "both-credentials", INFO)
def both_credentials(document: Document) -> Findings:
    """A password and a key are given.

    Why: Ansible logs in with the key. The password is then only used for sudo, and anyone who can read the file can
    read it.

    Fails with::

        # config.yaml
         docker_image_tag: v1.8.1
        +ssh_key_file_path: /etc/hostname
    """
    # Both `password` and `ssh_key_file_path`; the finding stands at the password.
    password = filled(document, "password")
    if password is not None and filled(document, "ssh_key_file_path") is not None:
        message = "password is given beside ssh_key_file_path, and is then only used for sudo"
        yield Finding(document.top.key("password") or password, message, "remove it if sudo asks for no password")
