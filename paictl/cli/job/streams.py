"""Streams between a terminal and a container: logs, and commands that run there."""

from __future__ import annotations

import contextlib
import math
import os
import select
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, TypeVar

from paictl.cli import console
from paictl.cli.console import Output, write_data
from paictl.cli.job import opening
from paictl.cluster.interface import Jobs, JobView, NotStartedError, TaskPlace
from paictl.cluster.jobpages import KeepsJobData
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.remote import Pipes
from paictl.workload.ports import chosen_port, ports_of

_Answer = TypeVar("_Answer")
_PIECE: Final = 1 << 14
_LOOK: Final = 1.0
"""Seconds between two checks whether a task has started."""


def place_of(job: JobView, word: str | None) -> TaskPlace:
    """The task that ``ROLE:INDEX`` or ``ROLE`` names; for None the first one, reported if there are others."""
    if word is None:
        if not job.tasks:
            raise NotStartedError(
                text("job {job} has no tasks yet", job=job.key),
                hint=text("why: paictl job explain {job}", job=job.key),
            )
        first = TaskPlace(job.tasks[0].role, job.tasks[0].index)
        if len(job.tasks) > 1:
            console.info(text("task {task}; another of {count}: --task ROLE:INDEX", task=first, count=len(job.tasks)))
        return first
    role, colon, number = word.partition(":")
    if not role or (colon and not (number.isascii() and number.isdigit() and len(number) < 7)):
        raise PaictlError(text("--task {word!r}: expected ROLE:INDEX, for instance worker:0", word=word))
    return TaskPlace(role, int(number or 0))


def running(ask: Callable[[], _Answer], timeout: float) -> _Answer:
    """The answer of `ask` once the task has started; raises `NotStartedError` after `timeout` seconds."""
    return _started(ask, time.monotonic() + timeout)


def open_port(
    cluster: Jobs,
    key: str,
    word: str | None,
    port: str | None,
    *,
    listen: int | None,
    browser: bool,
    timeout: float,
    raw: bool = False,
) -> None:
    """Forward a port of a task, by label or number, to this machine until Ctrl-C; waits for the task to start."""
    if raw and browser:
        raise PaictlError(text("--browser and --raw exclude each other"), hint=text("leave out --raw"))
    place = running(lambda: place_of(cluster.job(key), word), timeout)
    ports = ports_of(cluster.job_data(key)) if isinstance(cluster, KeepsJobData) else ()
    number = chosen_port(ports, place.role, place.index, port)
    running(lambda: cluster.dial(key, place, number), timeout).close()
    opening.serve(cluster, key, place, number, opening.listener(listen, number), browser=browser, raw=raw)


def show_log(
    cluster: Jobs,
    job: JobView,
    word: str | None,
    output: Output,
    *,
    follow: bool,
    lines: int | None,
    timeout: float = math.inf,
) -> None:
    """Print the output of a task as it is written; as data, once it has ended.

    With `follow`, wait up to `timeout` seconds for the task to start; raises `NotStartedError` after that.
    """
    until = time.monotonic() + timeout if follow else 0.0
    task = _started(lambda: place_of(cluster.job(job.key) if follow else job, word), until)
    pieces = _started(lambda: _begun(cluster.output(job.key, task, follow=follow, lines=lines)), until)
    if output is not Output.TABLE:
        written = b"".join(pieces).decode(errors="replace").splitlines()
        write_data({"job": job.key, "task": str(task), "lines": written}, output)
        return
    for piece in pieces:
        _out(piece)


def _started(ask: Callable[[], _Answer], until: float) -> _Answer:
    """The answer of `ask` once the task has started, until the monotonic clock reaches `until`; reports why it has not
    started, and each new reason."""
    reason = ""
    while True:
        try:
            return ask()
        except NotStartedError as error:
            if time.monotonic() >= until:
                if not reason:  # no reason has been reported yet
                    raise
                over = text("{why}; timed out", why=error.message)
                raise NotStartedError(over, where=error.where, hint=error.hint) from None
            if error.message != reason:
                reason = error.message
                console.info(text("{why}; waiting for it to start (press Ctrl-C to stop)", why=reason))
        time.sleep(_LOOK)


def _begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, with the first one already read, so that errors are raised here."""
    return chain([next(pieces, b"")], pieces)


def run(cluster: Jobs, job: JobView, word: str | None, command: Sequence[str], *, stdin: bool, terminal: bool) -> int:
    """Run a command in a task's container; its exit code."""
    if terminal and not (stdin and sys.stdin.isatty()):
        raise PaictlError(text("--tty needs --stdin and a terminal"), hint=text("leave out -t"))
    with _raw() if terminal else contextlib.nullcontext():
        pipes = Pipes(_out, _err, _reader() if stdin else None, terminal)
        return cluster.execute(job.key, place_of(job, word), command, pipes)


SHELL: Final = ("/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -l || exec sh -l")
"""A shell in any image."""


def sign_in(
    cluster: Jobs, job: JobView, word: str | None, command: Sequence[str], *, identity: Path | None, only_print: bool
) -> int:
    """Run a shell or a command in a task, by its own SSH server or else through the API server; the exit code."""
    task = place_of(job, word)
    address = cluster.ssh_address(job.key, task)
    if address is None:
        if only_print or identity is not None:
            raise PaictlError(
                text("job {job} has no port for SSH", job=job.key),
                hint=text(
                    "give it the plugin ssh with userssh: {{type: custom}}; without it: paictl job ssh {job}",
                    job=job.key,
                ),
            )
        terminal = sys.stdin.isatty() and sys.stdout.isatty() and not command
        return run(cluster, job, str(task), command or SHELL, stdin=True, terminal=terminal)
    with tempfile.TemporaryDirectory(prefix="paictl-ssh-") as folder:
        known = Path(folder) / "known_hosts"
        known.write_text(f"[{address.host}]:{address.port} {address.host_key}\n", encoding="utf-8")
        checks = [] if only_print else [f"UserKnownHostsFile={known}", "StrictHostKeyChecking=yes"]
        options = [word for check in checks for word in ("-o", check)]
        options += [] if identity is None else ["-i", str(identity)]
        words = ["ssh", "-p", str(address.port), *options, f"root@{address.host}", *command]
        if only_print:
            console.write(shlex.join(words))
            return 0
        try:
            return subprocess.run(words, check=False).returncode  # noqa: S603 - the user's own ssh
        except FileNotFoundError:
            raise PaictlError(
                text("ssh is not installed"),
                hint=text("install it, or use: paictl job exec {job} -it -- bash", job=job.key),
            ) from None


def _out(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _err(data: bytes) -> None:
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def _reader() -> Callable[[], bytes | None]:
    """A function that returns new input, or None if there is none; empty bytes mark the end, once."""
    descriptor, ended = sys.stdin.fileno(), False

    def read() -> bytes | None:
        nonlocal ended
        if ended or not select.select([descriptor], [], [], 0)[0]:
            return None
        data = os.read(descriptor, _PIECE)
        ended = not data
        return data

    return read


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Send every key to the container, including Ctrl-C."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
