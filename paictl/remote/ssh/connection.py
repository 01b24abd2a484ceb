"""One connection to one host: made, verified, watched, closed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import fabric
import paramiko
from paramiko.config import SSHConfig

from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.remote.inventory import Host, HostKey, Login, command_to_forget, remember
from paictl.remote.ssh.bastion import BastionError
from paictl.remote.ssh.forwarding import Bastion, ForwardError
from paictl.remote.ssh.link import NotReachedError, SshOptions
from paictl.remote.ssh.results import CommandStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_KEY: Final = "No authentication methods available"
"""What paramiko says where neither the agent nor the usual files have a key."""


class Link:
    """An open connection to a host; `new_key` is the fingerprint of a key that was trusted while it was made."""

    def __init__(self, host: Host, connection: Any, silence: float, new_key: str = "") -> None:
        self.host, self.new_key = host, new_key
        self._connection, self.silence = connection, silence
        self._answered = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._ask, name=f"pulse-{host.name}", daemon=True).start()

    def _ask(self) -> None:
        """Ask the host again and again whether it lives: neither TCP nor paramiko tells that it froze."""
        transport = self._connection.transport
        while not self._over.wait(self.silence / 4):
            try:
                transport.global_request("keepalive@openssh.com", wait=True)
            except (paramiko.SSHException, OSError, EOFError):
                return
            if not transport.active:
                return
            self._answered = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether the connection is there, so far as is known."""
        return bool(self._connection.transport.active) and not self._over.is_set()

    def check(self) -> None:
        """Raise `NotReachedError` if the connection is gone or the host has been silent for too long."""
        if not self.alive:
            raise self.lost()
        if time.monotonic() - self._answered > self.silence:
            self.close()
            raise NotReachedError(
                CommandStatus.LOST,
                text("it has not responded for {seconds:.0f} s", seconds=self.silence),
                text("check that it is running and the link is up; it is unknown how far the command got"),
            )

    def heard(self) -> None:
        """Note that the host has sent something."""
        self._answered = time.monotonic()

    def lost(self) -> NotReachedError:
        """The error for a connection that ended in the middle."""
        hint = text("check that it is running and the link is up; it is unknown how far the command got")
        return NotReachedError(CommandStatus.LOST, text("the connection was cut"), hint)

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """A channel for one command; if the connection under it ends, even when closing, it is `lost`."""
        try:
            channel = self._connection.transport.open_session(timeout=self.silence)
        except (paramiko.SSHException, OSError, EOFError):
            self.close()
            raise self.lost() from None
        try:
            yield channel
        except (paramiko.SSHException, OSError, EOFError):
            raise self.lost() from None
        finally:
            with suppress(paramiko.SSHException, OSError, EOFError):
                channel.close()  # says so to the host, which may be gone

    def close(self) -> None:
        """End the connection; nothing if it has ended."""
        self._over.set()
        _hang_up(self._connection)


def open_link(host: Host, login: Login, options: SshOptions, bastion: Bastion | None = None) -> Link:
    """Connect to a host, through a bastion if one is given, and verify its key; raises `NotReachedError`."""
    sock = None
    if bastion is not None:
        try:
            sock = bastion.channel(host.address, host.port)
        except ForwardError as error:
            message = text(
                "bastion {bastion} cannot reach {place}: {reason}",
                bastion=bastion.host.place,
                place=f"{host.address}:{host.port}",
                reason=str(error),
            )
            hint = text("check that the host is running and has this address, and that the bastion may forward to it")
            raise NotReachedError(CommandStatus.UNREACHABLE, message, hint) from None
    connection, trusted = _connected(host, login, options, sock)
    return Link(host, connection, options.silence, trusted)


def open_bastion(host: Host, login: Login, options: SshOptions) -> tuple[Bastion, str]:
    """Connect to a bastion and verify its key, which is the second part where it was trusted now.

    Raises `NotReachedError`, whose message names the bastion.
    """
    keys = replace(login, password=None, sudo_password=None)
    try:
        connection, trusted = _connected(host, keys, options)
    except NotReachedError as error:
        message = text("bastion {bastion}: {reason}", bastion=host.place, reason=error.message)
        raise NotReachedError(error.reach, message, error.hint) from None
    return Bastion(host, connection, options.connect), trusted


def forward_by_bastion(login: Login, address: str, port: int, options: SshOptions | None = None) -> int:
    """A port of this machine's loopback that leads through the bastion to a place, until the process ends.

    Raises `BastionError` where the bastion cannot be reached, or does not let us in.
    """
    if login.bastion is None:
        raise ValueError("there is no bastion")
    try:
        return open_bastion(login.bastion, login, options or SshOptions())[0].forward(address, port)
    except NotReachedError as error:
        raise BastionError(error.message, hint=error.hint or None) from None


def _connected(host: Host, login: Login, options: SshOptions, sock: Any = None) -> tuple[Any, str]:
    """fabric's connection to a host over a socket that is there, or a new one; and the key that was trusted now."""
    _quiet()
    config = fabric.Config(ssh_config=SSHConfig(), overrides={"load_ssh_configs": False})
    credentials = {**_credentials(login, options), **({} if sock is None else {"sock": sock})}
    connection = fabric.Connection(
        host.address, user=host.user, port=host.port, config=config, connect_kwargs=credentials
    )
    policy = _NewKeys(host, options)
    connection.client.set_missing_host_key_policy(policy)
    try:
        if options.known_hosts.is_file():
            connection.client.load_system_host_keys(str(options.known_hosts))
        connection.open()
    except BaseException as error:
        _hang_up(connection)
        if isinstance(error, NotReachedError):
            raise
        if isinstance(error, paramiko.SSHException | OSError | EOFError | ValueError):
            raise _why(error, host, login, options) from None
        raise
    return connection, policy.trusted


def _hang_up(connection: Any) -> None:
    """Close a connection; its goodbye may not get through: the host, or the bastion on the way there, may be gone."""
    with suppress(paramiko.SSHException, OSError, EOFError):
        connection.close()


def _quiet() -> None:
    """Errors come as exceptions; paramiko would write their tracebacks to stderr as well."""
    log = logging.getLogger("paramiko")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.propagate = False


def _credentials(login: Login, options: SshOptions) -> Mapping[str, Any]:
    """What paramiko is given; the agent and usual keys are tried only where nothing else is said."""
    explicit = login.password is not None or login.key_file is not None
    return {
        "password": login.password,
        "key_filename": [str(login.key_file)] if login.key_file else [],
        "allow_agent": not explicit,
        "look_for_keys": not explicit,
        "timeout": options.connect,
        "banner_timeout": options.connect,
        "auth_timeout": options.connect,
        "channel_timeout": options.connect,
    }


class _NewKeys:
    """What paramiko asks about a host that has no key in the file."""

    def __init__(self, host: Host, options: SshOptions) -> None:
        self._host, self._options = host, options
        self.trusted = ""

    def missing_host_key(self, _client: Any, _name: str, server_key: Any) -> None:
        """Trust the key if new keys are accepted; otherwise refuse it."""
        key = HostKey(server_key.get_name(), server_key.asbytes())
        path = self._options.known_hosts
        if not self._options.accept_new:
            raise NotReachedError(
                CommandStatus.UNKNOWN_KEY,
                text("unknown host key: {kind} {fingerprint}", kind=key.kind, fingerprint=key.fingerprint),
                text(
                    "compare it on the host (ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub), "
                    "then trust it with --accept-new-host-keys",
                    kind=key.kind.removeprefix("ssh-").split("-")[0],
                ),
            )
        try:
            remember(path, self._host.place, key)
        except PaictlError as error:
            raise NotReachedError(CommandStatus.UNKNOWN_KEY, str(error), error.hint or "") from None
        self.trusted = f"{key.kind} {key.fingerprint}"


def _why(error: Exception, host: Host, login: Login, options: SshOptions) -> NotReachedError:
    """An error of connecting in our words."""
    if isinstance(error, paramiko.BadHostKeyException):
        now, before = (HostKey(key.get_name(), key.asbytes()) for key in (error.key, error.expected_key))
        return NotReachedError(
            CommandStatus.CHANGED_KEY,
            text(
                "host key changed: {now} now, {before} expected; this may be a man-in-the-middle attack",
                now=f"{now.kind} {now.fingerprint}",
                before=f"{before.kind} {before.fingerprint}",
            ),
            text(
                "if the machine was reinstalled: {command}, then again with --accept-new-host-keys",
                command=command_to_forget(host.place, options.known_hosts),
            ),
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return NotReachedError(
            CommandStatus.REFUSED,
            text("the key file {path} needs a passphrase", path=login.key_file),
            text("add it to an agent (ssh-add) and name no key file"),
        )
    if isinstance(error, paramiko.AuthenticationException) or _NO_KEY in str(error):
        return _refused(host, login)
    return _unreachable(error, host)


def _refused(host: Host, login: Login) -> NotReachedError:
    ways = [word for word, is_given in (("key", login.key_file), ("password", login.password)) if is_given]
    tried = " and ".join(ways) or "agent and usual keys"
    hint = text("try: ssh -p {port} {user}@{address}", port=host.port, user=host.user, address=host.address)
    if not ways:
        hint = text("list the keys of your agent with ssh-add -l, and add the one for the machines with ssh-add FILE")
    message = text("authentication failed for user {user} with this {tried}", user=host.user, tried=tried)
    return NotReachedError(CommandStatus.REFUSED, message, hint)


def _unreachable(error: Exception, host: Host) -> NotReachedError:
    place = f"{host.address}:{host.port}"
    inner = next(iter(error.errors.values()), error) if hasattr(error, "errors") else error
    if isinstance(inner, TimeoutError):
        message = text("{place} does not answer", place=place)
    elif isinstance(inner, ConnectionRefusedError):
        message = text("{place} refuses connections", place=place)
    elif isinstance(inner, EOFError | paramiko.SSHException) and not isinstance(inner, OSError):
        message = text("{place} accepts connections but does not answer over SSH", place=place)
    else:
        reason = getattr(inner, "strerror", None) or str(inner) or "the connection was cut"
        message = text("{place} cannot be reached: {reason}", place=place, reason=reason)
    return NotReachedError(
        CommandStatus.UNREACHABLE,
        message,
        text("check that it is running, has this address, and that sshd listens there"),
    )
