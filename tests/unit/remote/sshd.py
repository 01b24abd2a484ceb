"""An SSH server on loopback inside the test process: real protocol, commands run by `sh` here, faults on wish."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paramiko

from paictl.remote.inventory import Host, Inventory, Login

USER, PASSWORD = "ann", "p\"w {{x}} s$1'"


class Account(paramiko.ServerInterface):  # type: ignore[misc]
    """One connection: who may sign in, and what runs."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002 - of paramiko
        return "password,publickey"

    def check_auth_password(self, username: str, password: str) -> int:
        self._server.passwords.append(password)
        good = (username, password) == (USER, PASSWORD)
        return int(paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED)

    def check_auth_publickey(self, username: str, key: Any) -> int:
        good = username == USER and key == self._server.allowed
        return int(paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_direct_tcpip_request(self, chanid: int, origin: Any, destination: tuple[str, int]) -> int:  # noqa: ARG002
        if not self._server.forwards:
            return int(paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED)
        self._server.forwarded.append(destination)
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        if self._server.cuts_at_exec:
            self._server.cut()
            return False
        words = (channel, command.decode(), _replied(channel.transport))
        threading.Thread(target=self._server.execute, args=words, daemon=True).start()
        return True


def _replied(transport: Any) -> threading.Event:
    """Set when the transport's thread, which asks whether a command may run, has sent its next message: the answer.

    No real server ends a command before it has said that it runs; here a command of a few milliseconds could.
    """
    replied, send = threading.Event(), transport._send_user_message

    def sending(message: Any) -> None:
        send(message)
        if threading.get_ident() == transport.ident:
            transport._send_user_message = send
            replied.set()

    transport._send_user_message = sending
    return replied


class Server:
    """`host_key` may be changed between connections; `silent` takes connections and says nothing from then on.

    One that `forwards` is a bastion: it connects to the last of `forwarded`, and does nothing else.
    """

    def __init__(self) -> None:
        self.host_key: Any = paramiko.ECDSAKey.generate()
        self.allowed: Any = None
        self.path = ""
        self.silent = False
        self.cuts_at_exec = False
        self.commands: list[str] = []
        self.passwords: list[str] = []
        self.forwards = False
        self.forwarded: list[tuple[str, int]] = []
        self._sockets: list[socket.socket] = []
        self._transports: list[Any] = []
        self._programs: list[subprocess.Popen[bytes]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.append(connection)
            if self.silent:
                continue
            transport = paramiko.Transport(connection)
            transport.add_server_key(self.host_key)
            self._transports.append(transport)
            with suppress(paramiko.SSHException, EOFError, OSError):
                transport.start_server(event=threading.Event(), server=Account(self))
            if self.forwards:
                threading.Thread(target=self._forward, args=(transport,), daemon=True).start()

    def _forward(self, transport: Any) -> None:
        """Connect each channel that is opened to the place that it was opened for, in their order."""
        done = 0
        while transport.is_active() or not transport.authenticated:
            channel = transport.accept(0.2)
            if channel is None:
                if not transport.is_active():
                    return
                continue
            place, done = self.forwarded[done], done + 1
            connection = socket.create_connection(place)
            for words in ((channel.recv, connection.sendall, connection), (connection.recv, channel.sendall, channel)):
                threading.Thread(target=_relay, args=words, daemon=True).start()

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self._transports)

    def execute(self, channel: Any, command: str, replied: threading.Event) -> None:
        replied.wait(5)
        self.commands.append(command)
        environment = {"PATH": f"{self.path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        code = -1
        # A program may end before it has read its input: to close its stdin then is a broken pipe, and no fault.
        with (
            suppress(BrokenPipeError),
            subprocess.Popen(
                ["sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            ) as program,
        ):
            assert program.stdin is not None
            self._programs.append(program)
            pumps = [
                threading.Thread(target=_pump, args=(program.stdout, channel.sendall), daemon=True),
                threading.Thread(target=_pump, args=(program.stderr, channel.sendall_stderr), daemon=True),
            ]
            for pump in pumps:
                pump.start()
            feeding = threading.Thread(target=_feed, args=(channel, program.stdin), name="feeding", daemon=True)
            feeding.start()
            for pump in pumps:
                pump.join()
            code = program.wait()
        with suppress(OSError, EOFError, paramiko.SSHException):
            if code >= 0:
                channel.send_exit_status(code)
            channel.close()

    def cut(self) -> None:
        """End all connections in the middle of what they do."""
        for transport in self._transports:
            transport.close()

    def freeze(self) -> None:
        """Answer nothing any more on the connections that are there."""
        for transport in self._transports:
            transport._handler_table = {}
            transport.packetizer.read_message = threading.Event().wait

    def inventory(self, password: str | None = PASSWORD, key: Path | None = None, sudo: str | None = None) -> Inventory:
        host = Host("one", "127.0.0.1", USER, self.port)
        return Inventory((host,), Login(password, key, sudo))

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # else the thread that waits there takes one more
        self._listening.close()
        self.cut()
        for one in self._sockets:
            one.close()
        for program in self._programs:  # nor does a later test wait for what runs on
            if program.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)


def _feed(channel: Any, stdin: Any) -> None:
    with suppress(OSError, EOFError, ValueError):
        while data := channel.recv(32768):
            stdin.write(data)
            stdin.flush()
    with suppress(OSError, ValueError):
        stdin.close()


def _relay(receive: Any, send: Any, target: Any) -> None:
    gone = (OSError, EOFError, paramiko.SSHException)
    with suppress(*gone):
        while data := receive(32768):
            send(data)
    for end in (lambda: target.shutdown(socket.SHUT_RDWR), target.close):
        with suppress(*gone):
            end()


def _pump(source: Any, send: Any) -> None:
    with suppress(OSError, EOFError, ValueError, paramiko.SSHException):
        while data := source.read1(32768):
            send(data)


@contextmanager
def server() -> Iterator[Server]:
    made = Server()
    try:
        yield made
    finally:
        made.close()
