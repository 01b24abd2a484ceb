"""One command on one connected host: input, output as it comes, sudo, a deadline."""

from __future__ import annotations

import codecs
import secrets
import select
import shlex
import time
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.ssh.link import NotReachedError, local_file
from paictl.remote.ssh.results import CommandStatus

if TYPE_CHECKING:
    from paictl.remote.ssh.connection import Link

Lines = Callable[[str, str], object]
"""Takes the stream (`stdout` or `stderr`) and a line without its end."""

_CHUNK: Final = 32768
_KEPT: Final = 16 * 2**20
"""Bytes of each stream that a result keeps; all of it is shown as it comes."""
_LINGER: Final = 0.5
"""Seconds that output is waited for after a command has ended: what it left running may hold the stream open."""


@frozen
class RemoteCommand:
    """What to run in the shell of the user there.

    `stdin` is sent to it. With `sudo` it runs as root, and `sudo_password` is told to sudo if it asks. `timeout` is in
    seconds, None for as long as it takes. `take` gets the bytes of stdout instead of the result.
    """

    line: str
    stdin: bytes | BinaryIO = b""
    sudo: bool = False
    sudo_password: str | None = None
    timeout: float | None = None
    lines: Lines = lambda _stream, _line: None
    take: Callable[[bytes], object] | None = None


@frozen
class Ended:
    """A command that ran to its end; `code` is -1 if a signal ended it."""

    code: int
    stdout: str
    stderr: str


def execute(link: Link, command: RemoteCommand) -> Ended:
    """Run a command to its end; raises `NotReachedError` if it did not get there."""
    sudo = _Sudo(command) if command.sudo and link.host.user != "root" else None
    with link.channel() as channel:
        channel.exec_command(sudo.line if sudo else command.line)
        return _Running(link, channel, command, sudo).to_the_end()


class _Sudo:
    """sudo around a command: it asks with a word that only we know, and the command says when it begins."""

    def __init__(self, command: RemoteCommand) -> None:
        token = secrets.token_hex(8)
        self.prompt, self.begin = f"[paictl-{token}-password]".encode(), f"[paictl-{token}-begin]".encode()
        self.password = command.sudo_password
        self.asked = 0
        self.begun = False
        ask = f"-S -p {shlex.quote(self.prompt.decode())}" if self.password is not None else "-n"
        inner = f"printf %s {shlex.quote(self.begin.decode())} >&2; {command.line}"
        self.line = f"sudo {ask} -- sh -c {shlex.quote(inner)}"

    def answer(self, heard: bytes) -> bytes | None:
        """What to send to sudo now, or None; `heard` is all of stderr. Raises `NotReachedError` if it refuses."""
        if self.begin in heard:
            self.begun = True
            return None
        if heard.count(self.prompt) <= self.asked:
            return None
        self.asked += 1
        if self.asked > 1:
            raise NotReachedError(
                CommandStatus.NO_SUDO,
                text("sudo rejected the password"),
                text("enter the right password, or allow sudo without one: visudo"),
            )
        return f"{self.password}\n".encode()

    def after_begin(self, heard: bytes) -> bytes:
        """What the command itself wrote to stderr."""
        return heard.partition(self.begin)[2]

    def refusal(self, heard: bytes) -> NotReachedError:
        """Why the command did not begin."""
        words = heard.replace(self.prompt, b"").decode("utf-8", "replace").strip().splitlines()
        last = words[-1].removeprefix("sudo: ") if words else "no reason given"
        if "password is required" in last:
            hint = text("give the password (--ask-sudo-password), or allow sudo without one: visudo")
        elif "not found" in last:
            hint = text("install sudo there, or sign in as root")
        else:
            hint = text("allow the user to use sudo: visudo")
        return NotReachedError(CommandStatus.NO_SUDO, text("sudo refused: {reason}", reason=last), hint)


class _Stream:
    """Bytes of one stream as lines, and what a result keeps of them."""

    def __init__(self, name: str, lines: Lines) -> None:
        self._name, self._lines = name, lines
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        self._kept: list[str] = []
        self._size = 0

    def add(self, data: bytes, *, final: bool = False) -> None:
        chunk = self._decoder.decode(data, final)
        if self._size < _KEPT:
            self._kept.append(chunk)
            self._size += len(chunk)
        *whole, self._open = (self._open + chunk).split("\n")
        if final and self._open:
            whole, self._open = [*whole, self._open], ""
        for line in whole:
            self._lines(self._name, line.removesuffix("\r"))

    @property
    def text(self) -> str:
        return "".join(self._kept)


class _Running:
    """A command that runs."""

    def __init__(self, link: Link, channel: Any, command: RemoteCommand, sudo: _Sudo | None) -> None:
        self._link, self._channel, self._command, self._sudo = link, channel, command, sudo
        self._source = BytesIO(command.stdin) if isinstance(command.stdin, bytes) else command.stdin
        self._out, self._err = _Stream("stdout", command.lines), _Stream("stderr", command.lines)
        self._before = b""  # stderr until the command begins behind sudo
        self._unsent, self._sent_all = b"", False
        self._deadline = None if command.timeout is None else time.monotonic() + command.timeout

    def to_the_end(self) -> Ended:
        """Feed it, read it, and come back when it has ended."""
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        quiet_since: float | None = None
        while True:
            # Asked before reading: what arrives between reading and asking would be lost with the end that follows it.
            exited = self._channel.exit_status_ready()
            whole = self._channel.eof_received or self._channel.closed
            progressed = self._read()
            self._feed()
            if progressed:
                self._link.heard()
                quiet_since = None
                continue
            if exited:
                quiet_since = quiet_since or time.monotonic()
                if whole or time.monotonic() - quiet_since > _LINGER:
                    return self._ended()
            self._watch()
            poll.poll(20 if not self._sent_all or quiet_since else 500)

    def _read(self) -> bool:
        progressed = False
        while self._channel.recv_ready():
            data = self._channel.recv(_CHUNK)
            progressed = True
            if self._command.take is not None:
                with local_file():
                    self._command.take(data)
            else:
                self._out.add(data)
        while self._channel.recv_stderr_ready():
            progressed = True
            self._heard_stderr(self._channel.recv_stderr(_CHUNK))
        return progressed

    def _heard_stderr(self, data: bytes) -> None:
        if self._sudo is None or self._sudo.begun:
            self._err.add(data)
            return
        self._before += data
        answer = self._sudo.answer(self._before)
        if answer is not None:
            self._channel.sendall(answer)
        self._err.add(self._sudo.after_begin(self._before))

    def _feed(self) -> None:
        """Send as much input as the command reads; it may end without reading all of it."""
        if self._sent_all or (self._sudo is not None and not self._sudo.begun):
            return
        try:
            while self._channel.send_ready() and not self._channel.exit_status_ready():
                if not self._unsent:
                    with local_file():
                        self._unsent = self._source.read(_CHUNK)
                if not self._unsent:
                    self._channel.shutdown_write()
                    self._sent_all = True
                    return
                self._unsent = self._unsent[self._channel.send(self._unsent) :]
        except OSError:
            self._sent_all = True

    def _watch(self) -> None:
        self._link.check()
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise NotReachedError(
                CommandStatus.TIMEOUT,
                text("timed out after {seconds:g} s", seconds=self._command.timeout),
                text("allow more time with --timeout; it may still be running there"),
            )

    def _ended(self) -> Ended:
        code = int(self._channel.recv_exit_status())
        if code == -1 and not self._link.alive:
            raise self._link.lost()
        if self._sudo is not None and not self._sudo.begun:
            raise self._sudo.refusal(self._before)
        self._out.add(b"", final=True)
        self._err.add(b"", final=True)
        return Ended(code, self._out.text, self._err.text)
