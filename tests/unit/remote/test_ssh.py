"""Commands and files over SSH, against a server on loopback: keys, passwords, sudo, faults."""

from __future__ import annotations

import hashlib
import resource
import threading
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fabric
import paramiko
import pytest

from paictl.errors import ExitCode, PaictlError
from paictl.remote.inventory import Host, HostKey, Inventory, Login, remember
from paictl.remote.ssh import command
from paictl.remote.ssh.fleet import CommandOptions, Fleet, Listener
from paictl.remote.ssh.link import SshOptions, shell_command
from paictl.remote.ssh.results import CommandStatus, HostResult, exit_code
from tests.unit.remote.sshd import PASSWORD, USER, Server, server


@pytest.fixture
def sshd() -> Iterator[Server]:
    with server() as made:
        yield made


def options(
    sshd: Server,
    tmp_path: Path,
    *,
    trusted: bool = True,
    accept: bool = False,
    connect: float = 60.0,
    silence: float = 60.0,
) -> SshOptions:
    """Patient, as the machine may be busy; only where a host is to be given up are the times short."""
    path = tmp_path / "known_hosts"
    if trusted and not path.exists():
        key = sshd.host_key
        remember(path, f"[127.0.0.1]:{sshd.port}", HostKey(key.get_name(), key.asbytes()))
    return SshOptions(path, accept, connect, silence)


def run(sshd: Server, tmp_path: Path, command: str, **more: Any) -> HostResult:
    manner = CommandOptions(more.pop("sudo", False), more.pop("timeout", None))
    stdin = more.pop("stdin", b"")
    with Fleet(sshd.inventory(**more), options(sshd, tmp_path)) as fleet:
        return fleet.run(command, stdin=stdin, manner=manner)["one"]


def test_output_errors_input_and_exit_code(sshd: Server, tmp_path: Path) -> None:
    found = run(sshd, tmp_path, "cat; echo bad >&2; exit 3", stdin="grüß\n".encode())
    assert (found.reach, found.code, found.stdout, found.stderr) == (CommandStatus.DONE, 3, "grüß\n", "bad\n")
    assert not found.ok


def test_much_input_is_sent_whole(sshd: Server, tmp_path: Path) -> None:
    data = bytes(range(256)) * 8000
    found = run(sshd, tmp_path, "sha256sum", stdin=data)
    assert found.stdout.split()[0] == hashlib.sha256(data).hexdigest()


class SlowInput(BytesIO):
    """Nothing, after a while."""

    def read(self, size: int | None = -1, /) -> bytes:
        time.sleep(0.5)
        return super().read(size)


def test_output_is_not_lost_that_comes_together_with_the_end(sshd: Server, tmp_path: Path) -> None:
    """Output, exit code and end all arrive after stdout was looked at, and before it is asked whether that was all."""
    assert run(sshd, tmp_path, "echo late", stdin=SlowInput()).stdout == "late\n"


def test_of_much_output_the_beginning_is_kept_and_every_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_KEPT", 10)
    lines: list[tuple[str, str]] = []
    stream = command._Stream("out", lambda name, line: lines.append((name, line)))
    for number in range(9):
        stream.add(f"line {number}\n".encode())
    stream.add(b"", final=True)
    assert stream.text == "line 0\nline 1\n"
    assert lines == [("out", f"line {number}") for number in range(9)]


def test_lines_come_as_they_are_written(sshd: Server, tmp_path: Path) -> None:
    heard: list[tuple[str, str, str]] = []
    listener = Listener(lambda *line: heard.append(line))
    with Fleet(sshd.inventory(), options(sshd, tmp_path), listener) as fleet:
        fleet.run("printf 'a\\nb'; echo c >&2")
    assert sorted(heard) == [("one", "stderr", "c"), ("one", "stdout", "a"), ("one", "stdout", "b")]


def test_a_command_that_leaves_something_running_has_ended(sshd: Server, tmp_path: Path) -> None:
    assert run(sshd, tmp_path, "(exec sleep 0.1) & echo on").stdout == "on\n"


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd: Server, tmp_path: Path) -> None:
    with Fleet(sshd.inventory(), options(sshd, tmp_path, trusted=False)) as fleet:
        found = fleet.run("true")["one"]
    assert found.reach is CommandStatus.UNKNOWN_KEY
    assert sshd.host_key.fingerprint in found.message
    assert "--accept-new-host-keys" in found.hint
    assert sshd.commands == []


def test_a_new_host_key_is_trusted_on_wish_and_from_then_on(sshd: Server, tmp_path: Path) -> None:
    with Fleet(sshd.inventory(), options(sshd, tmp_path, trusted=False, accept=True)) as fleet:
        found = [fleet.run("true")["one"] for _ in range(2)]
    assert [one.ok for one in found] == [True, True]
    assert sshd.host_key.fingerprint in found[0].new_key
    assert found[1].new_key == ""
    assert (tmp_path / "known_hosts").stat().st_mode & 0o777 == 0o600
    assert run(sshd, tmp_path, "true").ok


@pytest.mark.parametrize("accept", [False, True])
def test_a_changed_host_key_is_never_accepted(sshd: Server, tmp_path: Path, accept: bool) -> None:
    before = sshd.host_key
    wanted = options(sshd, tmp_path, accept=accept)
    sshd.host_key = paramiko.ECDSAKey.generate()
    with Fleet(sshd.inventory(), wanted) as fleet:
        found = fleet.run("true")["one"]
    assert found.reach is CommandStatus.CHANGED_KEY
    assert before.fingerprint in found.message
    assert sshd.host_key.fingerprint in found.message
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {tmp_path}/known_hosts" in found.hint
    assert sshd.commands == []


def test_a_wrong_password_is_said_and_not_shown(sshd: Server, tmp_path: Path) -> None:
    found = run(sshd, tmp_path, "true", password="wr0ng-one")  # noqa: S106
    assert found.reach is CommandStatus.REFUSED
    assert f"user {USER}" in found.message
    assert "wr0ng-one" not in repr(found)


def test_a_key_file(sshd: Server, tmp_path: Path) -> None:
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(tmp_path / "id"))
    sshd.allowed = key
    assert run(sshd, tmp_path, "true", password=None, key=tmp_path / "id").ok


def test_a_key_file_that_is_not_there_is_no_matter_of_a_host(sshd: Server, tmp_path: Path) -> None:
    with pytest.raises(PaictlError, match="key file not found"):
        run(sshd, tmp_path, "true", password=None, key=tmp_path / "none")


def test_nobody_listens(tmp_path: Path, sshd: Server) -> None:
    wanted = options(sshd, tmp_path)
    sshd.close()
    with Fleet(sshd.inventory(), wanted) as fleet:
        found = fleet.run("true")["one"]
    assert found.reach is CommandStatus.UNREACHABLE
    assert "refuses connections" in found.message


def test_a_host_that_takes_connections_and_says_nothing(sshd: Server, tmp_path: Path) -> None:
    sshd.silent = True
    with Fleet(sshd.inventory(), options(sshd, tmp_path, connect=1.0)) as fleet:
        found = fleet.run("true")["one"]
    assert found.reach is CommandStatus.UNREACHABLE
    assert "does not answer" in found.message


def test_a_link_that_is_cut_in_the_middle(sshd: Server, tmp_path: Path) -> None:
    listener = Listener(lambda *_: threading.Thread(target=sshd.cut).start())
    with Fleet(sshd.inventory(), options(sshd, tmp_path), listener) as fleet:
        found = fleet.run("echo on; exec sleep 5")["one"]
    assert found.reach is CommandStatus.LOST
    assert "cut" in found.message


def test_a_link_that_is_cut_when_a_command_is_given(sshd: Server, tmp_path: Path) -> None:
    sshd.cuts_at_exec = True
    assert run(sshd, tmp_path, "true").reach is CommandStatus.LOST


@pytest.mark.parametrize("error", [EOFError, OSError, paramiko.SSHException])
def test_a_link_that_is_cut_while_a_channel_is_closed(
    sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The command has ended: closing says goodbye to a host that may be gone, in a moment no test can aim at."""

    def gone(_channel: object) -> None:
        raise error

    monkeypatch.setattr(paramiko.Channel, "close", gone)
    assert run(sshd, tmp_path, "echo done").stdout == "done\n"


@pytest.mark.parametrize("error", [EOFError, OSError, paramiko.SSHException])
def test_a_goodbye_that_does_not_get_through_is_no_error(
    sshd: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The bastion on the way may be gone: the socket of the connection is a channel of it, which cannot be closed."""
    close = fabric.Connection.close

    def gone(connection: Any) -> None:
        close(connection)
        raise error

    monkeypatch.setattr(fabric.Connection, "close", gone)
    assert run(sshd, tmp_path, "echo done").stdout == "done\n"
    sshd.silent = True
    with Fleet(sshd.inventory(), options(sshd, tmp_path, connect=0.5)) as fleet:
        assert "does not answer" in fleet.run("true")["one"].message


def test_a_host_that_freezes_in_the_middle(sshd: Server, tmp_path: Path) -> None:
    freezes = Listener(lambda *_: sshd.freeze())
    with Fleet(sshd.inventory(), options(sshd, tmp_path, silence=2.0), freezes) as fleet:
        found = fleet.run("echo on; exec sleep 30")["one"]
    assert found.reach is CommandStatus.LOST
    assert "has not responded for" in found.message


def test_a_command_that_takes_too_long(sshd: Server, tmp_path: Path) -> None:
    found = run(sshd, tmp_path, "exec sleep 5", timeout=0.3)
    assert (found.reach, found.answered) == (CommandStatus.TIMEOUT, True)


def test_a_connection_that_is_gone_is_made_again(sshd: Server, tmp_path: Path) -> None:
    with Fleet(sshd.inventory(), options(sshd, tmp_path)) as fleet:
        assert fleet.run("true")["one"].ok
        sshd.cut()
        while fleet._links.open["one"].alive:
            time.sleep(0.001)
        assert fleet.run("true")["one"].ok


SUDO = """#!/usr/bin/env python3
import os, sys
words = sys.argv[1:]
rest = words[words.index("--") + 1:]
if {free!r} == "yes":
    os.execvp(rest[0], rest)
if "-n" in words:
    sys.exit("sudo: a password is required")
prompt = words[words.index("-p") + 1]
for _ in range(3):
    os.write(2, prompt.encode())
    line = b""
    while not line.endswith(b"\\n"):
        one = os.read(0, 1)
        if not one:
            sys.exit("sudo: no password was provided")
        line += one
    if line.decode().rstrip("\\n") == {password!r}:
        os.execvp(rest[0], rest)
    os.write(2, b"Sorry, try again.\\n")
sys.exit("sudo: 3 incorrect password attempts")
"""


def with_sudo(sshd: Server, tmp_path: Path, *, free: bool = False) -> None:
    """A program that asks as sudo does."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "sudo"
    program.write_text(SUDO.format(password=PASSWORD, free="yes" if free else "no"))
    program.chmod(0o755)
    sshd.path = str(tmp_path / "bin")


@pytest.mark.parametrize("free", [False, True])
def test_sudo_is_told_the_password_only_if_it_asks(sshd: Server, tmp_path: Path, free: bool) -> None:
    with_sudo(sshd, tmp_path, free=free)
    found = run(sshd, tmp_path, "cat; echo its >&2", stdin=b"input\n", sudo=True)
    assert (found.code, found.stdout, found.stderr) == (0, "input\n", "its\n")
    assert PASSWORD not in found.stdout
    assert all(PASSWORD not in command for command in sshd.commands)


def test_sudo_with_the_wrong_password(sshd: Server, tmp_path: Path) -> None:
    with_sudo(sshd, tmp_path)
    with Fleet(sshd.inventory(sudo="wr0ng"), options(sshd, tmp_path)) as fleet:
        found = fleet.run("echo never", manner=CommandOptions(sudo=True))["one"]
    assert found.reach is CommandStatus.NO_SUDO
    assert "never" not in found.stdout
    assert "rejected the password" in found.message


def test_sudo_that_wants_a_password_nobody_has(sshd: Server, tmp_path: Path) -> None:
    with_sudo(sshd, tmp_path)
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(tmp_path / "id"))
    sshd.allowed = key
    found = run(sshd, tmp_path, "true", password=None, key=tmp_path / "id", sudo=True)
    assert found.reach is CommandStatus.NO_SUDO
    assert "a password is required" in found.message
    assert "--ask-sudo-password" in found.hint


def test_a_file_is_put_in_place_with_its_mode_and_only_if_it_differs(sshd: Server, tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "there" / "dst"
    target.parent.mkdir()
    source.write_bytes(b"\0binary\n" * 5000)
    with Fleet(sshd.inventory(), options(sshd, tmp_path)) as fleet:
        first = fleet.upload(source, str(target), mode=0o640)["one"]
        second = fleet.upload(source, str(target))["one"]
        into = fleet.upload(source, str(target.parent))["one"]
    assert [one.ok for one in (first, second, into)] == [True, True, True]
    assert (first.stdout, second.stdout) == ("", "unchanged")
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in target.parent.iterdir()) == ["dst", "src"]


def test_a_folder_that_is_not_there_is_said(sshd: Server, tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.write_text("x")
    with Fleet(sshd.inventory(), options(sshd, tmp_path)) as fleet:
        found = fleet.upload(source, str(tmp_path / "none" / "dst"))["one"]
    assert found.reach is CommandStatus.FAILED
    assert "No such file" in found.message


def test_an_upload_that_is_cut_leaves_nothing(sshd: Server, tmp_path: Path) -> None:
    source, target = tmp_path / "src", tmp_path / "there"
    target.mkdir()
    (target / "src").write_text("old")
    source.write_bytes(b"x" * 20_000_000)

    def cut() -> None:
        while not any(target.glob(".paictl.*")):
            time.sleep(0.001)
        sshd.cut()

    with Fleet(sshd.inventory(), options(sshd, tmp_path)) as fleet:
        cutting = threading.Thread(target=cut)
        cutting.start()
        found = fleet.upload(source, str(target))["one"]
        cutting.join()
    assert found.reach is CommandStatus.LOST
    for thread in threading.enumerate():  # what the server began ends when it sees the end of its input
        if thread.name.endswith("(execute)") or thread.name == "feeding":
            thread.join()
    assert (target / "src").read_text() == "old"
    assert [path.name for path in target.iterdir()] == ["src"]


def test_files_are_fetched_into_a_folder_for_each_host(sshd: Server, tmp_path: Path) -> None:
    source = tmp_path / "log"
    source.write_bytes(b"line\n" * 10_000)
    with Fleet(sshd.inventory(), options(sshd, tmp_path)) as fleet:
        found = fleet.download(str(source), tmp_path / "out")["one"]
        none = fleet.download(str(tmp_path / "none"), tmp_path / "out")["one"]
    assert found.ok
    assert (tmp_path / "out" / "one" / "log").read_bytes() == source.read_bytes()
    assert none.reach is CommandStatus.FAILED
    assert [path.name for path in (tmp_path / "out" / "one").iterdir()] == ["log"]


def test_a_full_disk_here_is_not_a_cut_link(sshd: Server, tmp_path: Path) -> None:
    source, before = tmp_path / "log", resource.getrlimit(resource.RLIMIT_FSIZE)
    source.write_bytes(b"line\n" * 100_000)
    with Fleet(sshd.inventory(), options(sshd, tmp_path)) as fleet:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            found = fleet.download(str(source), tmp_path / "out")["one"]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found.reach is CommandStatus.FAILED
    assert found.message == "a file here: File too large"
    assert not list((tmp_path / "out" / "one").iterdir())


def test_results_stand_in_the_order_of_the_inventory(sshd: Server, tmp_path: Path) -> None:
    hosts = tuple(Host(name, "127.0.0.1", USER, sshd.port) for name in ("c", "a", "b"))
    lines = {"c": "sleep 0.2; echo c", "a": "echo a", "b": "exit 1"}
    with Fleet(Inventory(hosts, Login(PASSWORD)), options(sshd, tmp_path)) as fleet:
        found = fleet.run_each(lines)
    assert [(name, one.stdout, one.code) for name, one in found.items()] == [
        ("c", "c\n", 0),
        ("a", "a\n", 0),
        ("b", "", 1),
    ]


def result(reach: CommandStatus = CommandStatus.DONE, code: int = 0) -> HostResult:
    return HostResult("x", reach, code)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([result(), result()], ExitCode.OK),
        ([result(), result(code=2)], ExitCode.NEGATIVE),
        ([result(), result(CommandStatus.TIMEOUT)], ExitCode.NEGATIVE),
        ([result(code=1), result(CommandStatus.LOST)], ExitCode.PARTIAL),
        ([result(CommandStatus.REFUSED), result(CommandStatus.UNREACHABLE)], ExitCode.UNREACHABLE),
    ],
)
def test_one_exit_code_for_many_hosts(results: list[HostResult], code: ExitCode) -> None:
    assert exit_code(results) is code


def test_a_shell_verifies_our_keys(tmp_path: Path) -> None:
    words = shell_command(
        Host("a", "10.0.0.1", "ann", 2222), Login(PASSWORD, tmp_path / "id"), known_hosts=tmp_path / "k"
    )
    assert words[-1] == "ann@10.0.0.1"
    assert "StrictHostKeyChecking=yes" in words
    assert f'UserKnownHostsFile="{tmp_path}/k"' in words
    assert PASSWORD not in " ".join(words)


@pytest.mark.parametrize("number", [1, 2])
def test_output_that_ends_in_the_middle_of_a_line_and_of_a_character_keeps_its_end(
    sshd: Server, tmp_path: Path, number: int
) -> None:
    heard: list[tuple[str, str, str]] = []
    with Fleet(sshd.inventory(), options(sshd, tmp_path), Listener(lambda *line: heard.append(line))) as fleet:
        found = fleet.run(f"printf 'first\\nkilled at gr\\303' >&{number}")["one"]
    stream = {1: "stdout", 2: "stderr"}[number]
    assert getattr(found, stream) == "first\nkilled at gr\N{REPLACEMENT CHARACTER}"
    assert heard == [("one", stream, "first"), ("one", stream, "killed at gr\N{REPLACEMENT CHARACTER}")]
